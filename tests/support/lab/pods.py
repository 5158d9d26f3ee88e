"""One real pod with one container, run through any CRI socket and removed at the end.

Pods use the network of the node, so no CNI is needed. Each pod has a cgroup parent of its own below `/interpose-lab`,
which goes with the pod.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from interpose._pb import cri_pb2
from tests.support.lab.images import FOREVER, TEST_IMAGE
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tests.support.lab.cri import CriClient

CGROUPS = Path("/sys/fs/cgroup")
LAB_GROUP = "interpose-lab"
MEBIBYTE = 1 << 20


class PodBlock:
    """A pod in a cgroup of its own, whatever it is made with; the `with` block starts it and its container, and removes
    both."""

    client: Any
    cgroup_parent: str

    def run(self) -> None:
        raise NotImplementedError

    def create(self) -> object:
        raise NotImplementedError

    def start(self) -> None:
        raise NotImplementedError

    def remove(self) -> None:
        """With its cgroups."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.run()
            self.create()
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    @contextlib.contextmanager
    def removed_at_the_end(self) -> Iterator[Self]:
        """A block in which it may be run or not, by any client, and with another cgroup parent."""
        client, groups = self.client, self.cgroup_parent
        try:
            yield self
        finally:
            self.client = client  # the one that is open for as long as this block
            self.remove()
            remove_groups(groups)

    def control_file(self, container_id: str, controller: str, name: str) -> Path:
        """Of a container: one tree per controller in cgroup v1, one for all in v2."""
        tree = CGROUPS / controller if (CGROUPS / controller).is_dir() else CGROUPS
        return tree / self.cgroup_parent.strip("/") / container_id / name


class LabPod(PodBlock):
    """A pod with a container that sleeps; the `with` block starts both and removes both.

    What is not right yet may be changed before the call that sends it: configurations, the client to call with, and
    the cgroup parent to look below if somebody on the way chooses another one.
    """

    def __init__(self, client: CriClient, name: str, command: Sequence[str] = FOREVER) -> None:
        self.client: CriClient = client
        self.name = name
        self.uid = uuid.uuid4().hex
        self.cgroup_parent = f"/{LAB_GROUP}/{self.uid}"
        self.sandbox_config = sandbox_config(name, self.uid, self.cgroup_parent)
        self.container_config = container_config("main", command)
        self.sandbox_id = ""
        self.container_id = ""

    def run(self) -> None:
        request = cri_pb2.RunPodSandboxRequest(config=self.sandbox_config)
        self.sandbox_id = self.client.call("RunPodSandbox", request).pod_sandbox_id

    def create(self) -> None:
        request = cri_pb2.CreateContainerRequest(
            pod_sandbox_id=self.sandbox_id, config=self.container_config, sandbox_config=self.sandbox_config
        )
        self.container_id = self.client.call("CreateContainer", request).container_id

    def start(self) -> None:
        self.client.call("StartContainer", cri_pb2.StartContainerRequest(container_id=self.container_id))

    def update(self, **resources: Any) -> None:
        """UpdateContainerResources with these fields only."""
        linux = cri_pb2.LinuxContainerResources(**resources)
        request = cri_pb2.UpdateContainerResourcesRequest(container_id=self.container_id, linux=linux)
        self.client.call("UpdateContainerResources", request)

    def stop(self) -> None:
        """End the container at once; the pod stays."""
        self.client.call("StopContainer", cri_pb2.StopContainerRequest(container_id=self.container_id, timeout=0))

    def sandbox_status(self) -> Any:
        """The whole answer of a verbose PodSandboxStatus."""
        request = cri_pb2.PodSandboxStatusRequest(pod_sandbox_id=self.sandbox_id, verbose=True)
        return self.client.call("PodSandboxStatus", request)

    def info(self) -> Any:
        """The document in a verbose ContainerStatus: the create request, and the OCI view of what is in force."""
        request = cri_pb2.ContainerStatusRequest(container_id=self.container_id, verbose=True)
        return json.loads(self.client.call("ContainerStatus", request).info["info"])

    def status(self) -> Any:
        """The ContainerStatus message of the container."""
        request = cri_pb2.ContainerStatusRequest(container_id=self.container_id)
        return self.client.call("ContainerStatus", request).status

    def exec(self, *command: str) -> Any:
        """ExecSync in the container."""
        request = cri_pb2.ExecSyncRequest(container_id=self.container_id, cmd=command)
        return self.client.call("ExecSync", request)

    def remove(self) -> None:
        """Stop and remove; a pod that never came to life or is already gone is fine."""
        try:
            if self.sandbox_id:
                for verb, request in (
                    ("Stop", cri_pb2.StopPodSandboxRequest(pod_sandbox_id=self.sandbox_id)),
                    ("Remove", cri_pb2.RemovePodSandboxRequest(pod_sandbox_id=self.sandbox_id)),
                ):
                    outcome = self.client.outcome(f"{verb}PodSandbox", request)
                    if outcome.code not in ("OK", "NOT_FOUND"):
                        raise LabError(f"{verb}PodSandbox of {self.name}: {outcome.code} {outcome.details}")
                self.sandbox_id = ""
        finally:
            remove_groups(self.cgroup_parent)

    def oom_score(self) -> int:
        """What the kernel has for the first process of the container. One of an exec has another with crun."""
        return int(Path(f"/proc/{self.info()['pid']}/oom_score_adj").read_text())

    def cgroup_file(self, controller: str, name: str) -> Path:
        """A control file of the container."""
        return self.control_file(self.container_id, controller, name)


@contextlib.contextmanager
def described_pod(client: CriClient, name: str = "web") -> Iterator[LabPod]:
    """A pod with something of everything that hook servers are told; not run yet, removed whatever becomes of it."""
    pod = LabPod(client, name)
    pod.sandbox_config.labels["app"] = "web"
    pod.sandbox_config.annotations["team"] = "blue"
    pod.sandbox_config.linux.resources.cpu_shares = 600
    pod.sandbox_config.linux.overhead.memory_limit_in_bytes = MEBIBYTE
    pod.container_config.annotations["port"] = "80"
    pod.container_config.envs.add(key="A", value=b"1")
    pod.container_config.linux.resources.memory_limit_in_bytes = 100 * MEBIBYTE
    with pod.removed_at_the_end():
        yield pod


def sandbox_config(name: str, uid: str, cgroup_parent: str) -> cri_pb2.PodSandboxConfig:
    """A pod in the node's network; with it a hostname must not be set."""
    options = cri_pb2.NamespaceOption(network=cri_pb2.NODE)
    return cri_pb2.PodSandboxConfig(
        metadata=cri_pb2.PodSandboxMetadata(name=name, uid=uid, namespace="lab", attempt=0),
        labels={"io.kubernetes.pod.name": name, "io.kubernetes.pod.uid": uid, "io.kubernetes.pod.namespace": "lab"},
        linux=cri_pb2.LinuxPodSandboxConfig(
            cgroup_parent=cgroup_parent,
            security_context=cri_pb2.LinuxSandboxSecurityContext(namespace_options=options),
        ),
    )


def container_config(name: str, command: Sequence[str] = FOREVER) -> cri_pb2.ContainerConfig:
    options = cri_pb2.NamespaceOption(network=cri_pb2.NODE)
    return cri_pb2.ContainerConfig(
        metadata=cri_pb2.ContainerMetadata(name=name, attempt=0),
        image=cri_pb2.ImageSpec(image=TEST_IMAGE),
        command=list(command),
        labels={"io.kubernetes.container.name": name},
        linux=cri_pb2.LinuxContainerConfig(
            resources=cri_pb2.LinuxContainerResources(cpu_shares=512, cpu_period=100_000, oom_score_adj=500),
            security_context=cri_pb2.LinuxContainerSecurityContext(namespace_options=options),
        ),
    )


def remove_groups(parent: str) -> None:
    """Remove the scratch cgroup of a pod in every tree, and the lab's own group when it was the last one."""
    for tree in (CGROUPS, *(entry for entry in CGROUPS.iterdir() if entry.is_dir())):
        group = tree / parent.strip("/")
        nested = sorted((path for path in group.rglob("*") if path.is_dir()), reverse=True)
        for path in (*nested, group, tree / LAB_GROUP):
            with contextlib.suppress(OSError):
                path.rmdir()
