"""Inputs of a container's specification: facts of the machine, of the sandbox, of devices. Pure.

Messages of CRI are used as they are (any object with the same attributes works); they are not changed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

# CRI's numbers: NamespaceMode, MountPropagation, SecurityProfile.ProfileType.
MODE_POD: Final = 0
MODE_CONTAINER: Final = 1
MODE_NODE: Final = 2
MODE_TARGET: Final = 3
PROPAGATION_HOST_TO_CONTAINER: Final = 1
PROPAGATION_BIDIRECTIONAL: Final = 2
PROFILE_RUNTIME_DEFAULT: Final = 0
PROFILE_UNCONFINED: Final = 1
PROFILE_LOCALHOST: Final = 2


class SpecError(Exception):
    """A configuration without a valid specification; `where` is the CRI field."""

    def __init__(self, where: str, message: str) -> None:
        self.where = where
        super().__init__(f"{where}: {message}")


class ImageDefaults(Protocol):
    """The defaults of an image for the process of a container."""

    @property
    def env(self) -> Sequence[str]: ...
    @property
    def entrypoint(self) -> Sequence[str]: ...
    @property
    def cmd(self) -> Sequence[str]: ...
    @property
    def working_dir(self) -> str: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OciDevice:
    """A device node as a container will have it."""

    path: str
    kind: str  # c or b
    major: int
    minor: int
    mode: int
    uid: int = 0
    gid: int = 0
    access: str = "rwm"


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """Features of this machine, and our rights on it. Read once."""

    hostname: str = "localhost"
    cgroup_version: int = 2
    cgroup_driver: str = "cgroupfs"
    swap: bool = True  # the memory controller counts swap
    hugetlb: bool = True
    capabilities: tuple[str, ...] = ()  # those of our own process; a container cannot get more
    architectures: tuple[str, ...] = ()  # seccomp's names, our own first
    seccomp: bool = True
    apparmor: bool = False
    selinux: bool = False
    lowest_oom_score: int = -1000  # no process of ours can get a lower one
    recursive_read_only: bool = True  # mounts below a read-only one can be made so, too


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxFacts:
    """The sandbox of a container. An empty path: there is no such file to mount."""

    id: str
    config: Any  # PodSandboxConfig
    pause_pid: int  # the process that holds the namespaces
    namespaces: frozenset[str] = field(default_factory=frozenset)  # of network, ipc, uts, pid: those of its own
    shm: str = ""
    resolv_conf: str = ""
    hosts: str = ""
    hostname_file: str = ""
