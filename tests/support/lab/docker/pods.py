"""Pods on a real dockerd, made as a dockershim makes them; what containers have is read from the kernel."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from interpose.core.model.cgroup import PERIOD, shares_of
from interpose.hooks.api.hookpoint import HookPoint
from tests.support.docker.dockershim import ShimPod
from tests.support.lab.pods import LAB_GROUP, MEBIBYTE, PodBlock, remove_groups
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.docker.dockershim import DockerClient, ShimContainer
    from tests.support.lab.qos_pods import Kubepods

SKIP: Final = "runtimeproxy.koordinator.sh/skip-hookserver"
"""The label of pods that get no hooks."""
_PLACES: Final = {"guaranteed": "", "burstable": "burstable/", "besteffort": "besteffort/"}


class DockerPod(ShimPod, PodBlock):
    """A pod with one container, `main`."""

    def __init__(self, client: DockerClient, name: str, *, cgroup_parent: str = "", **more: Any) -> None:
        uid = uuid.uuid4().hex
        super().__init__(client, name, cgroup_parent=cgroup_parent or f"/{LAB_GROUP}/{uid}", uid=uid, **more)

    def remove(self) -> None:
        """With its cgroups."""
        try:
            super().remove()
        finally:
            remove_groups(self.cgroup_parent)

    def cgroup_file(self, controller: str, name: str, container: ShimContainer | None = None) -> Path:
        """A control file of a container."""
        return self.control_file((container or self.main).id, controller, name)

    def has(self, controller: str, name: str) -> str:
        """What a control file of the main container says."""
        return self.cgroup_file(controller, name).read_text().strip()

    @property
    def cpus(self) -> str:
        """The CPU set of the main container now."""
        return self.has("cpuset", "cpuset.cpus")

    def wait_cpus(self, cpus: str) -> None:
        """Wait until the main container has this CPU set."""
        wait_for(lambda: self.cpus == cpus, what=f"{self.name} to have CPUs {cpus}, not {self.cpus}")

    def environment(self) -> set[str]:
        """The variables that the first process of the main container was born with."""
        content = Path(f"/proc/{self.inspect()['State']['Pid']}/environ").read_bytes()
        return {entry.decode() for entry in content.split(b"\0") if entry}


def policy_pod(
    client: DockerClient, kubepods: Kubepods, name: str, milli: int = 1000, qos: str = "guaranteed"
) -> DockerPod:
    """A pod in the cgroup of its QoS class; of a Guaranteed one the limit is the request."""
    pod = DockerPod(client, name)
    pod.cgroup_parent = f"/{kubepods.name}/{_PLACES[qos]}pod{pod.uid}"
    pod.main.resources = {"CpuShares": shares_of(milli), "CpuPeriod": PERIOD}
    if qos == "guaranteed":
        pod.main.resources |= {"CpuQuota": milli * PERIOD // 1000, "Memory": 100 * MEBIBYTE}
    return pod


@contextlib.contextmanager
def described_docker_pod(client: DockerClient, name: str = "web") -> Iterator[DockerPod]:
    """A pod with something of everything that hook servers are told; not run yet, removed whatever becomes of it."""
    pod = DockerPod(client, name, labels={"app": "web"}, annotations={"team": "blue"})
    pod.sandbox_resources = {"CpuShares": 600}
    pod.main.annotations["port"] = "80"
    pod.main.envs["A"] = "1"
    pod.main.resources["Memory"] = 100 * MEBIBYTE
    with pod.removed_at_the_end():
        yield pod


def assert_complete(pod: DockerPod, point: HookPoint, request: Any, *, shares: int = 512) -> None:
    """Nothing is missing in what a hook server was told of this pod and its container."""
    assert (request.pod_meta.name, request.pod_meta.uid, request.pod_meta.namespace) == (pod.name, pod.uid, "lab")
    if point.about_pod:
        assert request.labels["app"] == "web"
        assert request.annotations["team"] == "blue"
        assert request.cgroup_parent == pod.cgroup_parent
        assert request.resources.cpu_shares == 600
        assert request.runtime_handler == "docker"
        return
    assert request.container_meta.name == "main"
    assert request.container_meta.id == ("" if point is HookPoint.PRE_CREATE_CONTAINER else pod.main.id)
    assert request.pod_labels["app"] == "web"
    assert request.pod_annotations["team"] == "blue"
    assert request.pod_cgroup_parent == pod.cgroup_parent
    assert request.pod_resources.cpu_shares == 600
    assert request.container_annotations["port"] == "80"
    assert dict(request.container_envs) == {"A": "1"}
    told = request.container_resources
    assert (told.cpu_period, told.cpu_shares, told.oom_score_adj) == (100_000, shares, 500)
    assert told.memory_limit_in_bytes == 100 * MEBIBYTE


def end(pod: DockerPod) -> None:
    """The end of a pod's life, in the order of a kubelet."""
    pod.stop()
    pod.stop_sandbox()
