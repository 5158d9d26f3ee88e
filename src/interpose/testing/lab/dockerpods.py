"""Pods on a real dockerd, made as a dockershim makes them; what containers have is read from the kernel."""

from __future__ import annotations

import contextlib
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from interpose.model.cgroup import PERIOD, shares_of
from interpose.testing.dockershim import ShimPod
from interpose.testing.lab.pods import CGROUPS, LAB_GROUP, MEBIBYTE, remove_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interpose.testing.dockershim import DockerClient, ShimContainer
    from interpose.testing.lab.qospods import Kubepods

_PLACES: Final = {"guaranteed": "", "burstable": "burstable/", "besteffort": "besteffort/"}


class DockerPod(ShimPod):
    """A pod with one container, `main`, in a cgroup of its own; the `with` block starts both and removes both."""

    def __init__(self, client: DockerClient, name: str, *, cgroup_parent: str = "", **more: Any) -> None:
        uid = uuid.uuid4().hex
        super().__init__(client, name, cgroup_parent=cgroup_parent or f"/{LAB_GROUP}/{uid}", uid=uid, **more)

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

    def remove(self) -> None:
        """With its cgroups."""
        try:
            super().remove()
        finally:
            remove_groups(self.cgroup_parent)

    def cgroup_file(self, controller: str, name: str, container: ShimContainer | None = None) -> Path:
        """A control file of a container."""
        tree = CGROUPS / controller if (CGROUPS / controller).is_dir() else CGROUPS
        return tree / self.cgroup_parent.strip("/") / (container or self.main).id / name

    def has(self, controller: str, name: str) -> str:
        """What a control file of the main container says."""
        return self.cgroup_file(controller, name).read_text().strip()

    @property
    def cpus(self) -> str:
        """The CPU set of the main container now."""
        return self.has("cpuset", "cpuset.cpus")

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
    groups = pod.cgroup_parent
    try:
        yield pod
    finally:
        pod.client = client  # the one that is open for as long as this block
        pod.remove()
        remove_groups(groups)
