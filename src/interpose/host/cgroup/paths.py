"""Where pods and containers are in the tree of cgroups, with either of the kubelet's drivers. Pure.

Every directory here is relative to the root of a hierarchy, has no leading slash, and cannot lead out of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from interpose.core.model.cgroup import KubeQos

_SLICE: Final = ".slice"
_SCOPE: Final = ".scope"
_QOS_NAMES: Final[Mapping[KubeQos, str]] = MappingProxyType(
    {KubeQos.GUARANTEED: "", KubeQos.BURSTABLE: "burstable", KubeQos.BEST_EFFORT: "besteffort"}
)
# What runtimes put before a container's id; Podman's is libpod.
_PREFIXES: Final = ("cri-containerd", "crio", "docker", "pouch", "libpod")
# The monitor of a container has a scope of its own beside it, named after the same id.
_MONITORS: Final = "conmon-"


class Driver(StrEnum):
    """How the kubelet names cgroups."""

    SYSTEMD = "systemd"
    CGROUPFS = "cgroupfs"


def check_confined(directory: str) -> str:
    """Returns the directory if it stays below a root; ValueError that names it otherwise."""
    if "\0" in directory or not {"", ".", ".."}.isdisjoint(directory.split("/")):
        raise ValueError(f"{directory!r} is not a directory below the root of the cgroups")
    return directory


def pod_directory(cgroup_parent: str) -> str:
    """CRI's cgroup parent as a directory: systemd's short name of a slice stands for the path that leads to it."""
    path = cgroup_parent.removeprefix("/")
    if path.endswith(_SLICE) and "/" not in path:
        return _slice_path(path)
    return check_confined(path.removesuffix("/"))


def _slice_path(name: str) -> str:
    """The path of a slice by its name: a-b-c.slice is in a.slice/a-b.slice."""
    parts = name.removesuffix(_SLICE).split("-")
    if "" in parts:
        raise ValueError(f"{name!r} is not a name of a slice")
    return check_confined("/".join("-".join(parts[: end + 1]) + _SLICE for end in range(len(parts))))


@dataclass(frozen=True, slots=True, kw_only=True)
class CgroupLayout:
    """The kubelet's part of the tree. `root` may have parts, separated by a slash (with systemd also by a dash)."""

    driver: Driver
    root: str = "kubepods"

    def __post_init__(self) -> None:
        self.qos_directory(KubeQos.GUARANTEED)  # a root that cannot be used is refused at once

    def qos_directory(self, qos: KubeQos) -> str:
        """The directory of a QoS class; Guaranteed pods are in the root itself."""
        return self._directory(_QOS_NAMES[qos])

    def pod(self, uid: str, qos: KubeQos) -> str:
        """The directory of a pod."""
        if not uid or "/" in uid:
            raise ValueError(f"{uid!r} is not a uid of a pod")
        name = f"pod{uid}" if self.driver is Driver.CGROUPFS else f"pod{uid.replace('-', '_')}"
        return self._directory(_QOS_NAMES[qos], name)

    def _directory(self, *names: str) -> str:
        parts = [self.root.strip("/"), *filter(None, names)]
        if self.driver is Driver.CGROUPFS:
            return check_confined("/".join(parts))
        return _slice_path("-".join(parts).replace("/", "-") + _SLICE)


def container_names(container_id: str) -> tuple[str, ...]:
    """Possible names of a container's directory in the pod's directory; the likeliest first."""
    if "/" in check_confined(container_id):
        raise ValueError(f"{container_id!r} is not an id of a container")
    scopes = tuple(f"{prefix}-{container_id}{_SCOPE}" for prefix in _PREFIXES)
    return (container_id, *scopes, *(f"{prefix}-{container_id}" for prefix in _PREFIXES))


def find_child(children: Sequence[str], container_id: str) -> str | None:
    """The directory of a container among those in the pod's directory; None if it has none (yet)."""
    present = frozenset(children)
    known = next((name for name in container_names(container_id) if name in present), None)
    if known is not None:
        return known
    ends = (f"-{container_id}", f"-{container_id}{_SCOPE}")
    return min((name for name in children if name.endswith(ends) and _MONITORS not in name), default=None)
