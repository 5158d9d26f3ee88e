"""What can be done to a pod, as values; and what probes may say about it. Pure.

`actions` decides, this is what it decides.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from interpose.node.pods.spec import ContainerSpec


class KillReason(StrEnum):
    """Why a container is stopped. The grace of a probe counts for the two that name one."""

    UNKNOWN = "Unknown"
    CHANGED = "DefinitionChanged"
    STRAY = "NotWanted"
    LIVENESS = "LivenessProbe"
    STARTUP = "StartupProbe"
    RESIZE = "Resize"
    RESTART_ALL = "RestartAllContainers"
    POST_START = "FailedPostStartHook"

    @property
    def words(self) -> str:
        """What is the matter with the container: the end of a sentence that begins with its name."""
        return _WORDS[self]


_WORDS: Final = MappingProxyType(
    {
        KillReason.UNKNOWN: "is in an unknown state",
        KillReason.CHANGED: "is defined in another way",
        KillReason.STRAY: "is not in the manifest any more",
        KillReason.LIVENESS: "failed its liveness probe",
        KillReason.STARTUP: "failed its startup probe",
        KillReason.RESIZE: "has other resources",
        KillReason.RESTART_ALL: "is restarted with all others",
        KillReason.POST_START: "failed its postStart hook",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """A container to stop; `container` None: the manifest has none of that name."""

    container: "ContainerSpec | None"
    name: str
    reason: KillReason
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """A running container whose resources change in place. `index` is into the init containers if `init`."""

    index: int
    container_id: str
    init: bool = False


def _no_kills() -> Mapping[str, Kill]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodActions:
    """What to do, in the order in which it is done: kill, reset, sandbox, resize, ephemeral, init, main containers.

    Containers to start are indices into the lists of the manifest, those to kill are ids. With `kill_pod` the kills
    are only reasons: the whole pod is stopped.
    """

    kill_pod: bool = False  # stop every container and every sandbox
    create_sandbox: bool = False
    sandbox_id: str = ""
    attempt: int = 0
    start: tuple[int, ...] = ()
    init_start: tuple[int, ...] = ()
    ephemeral_start: tuple[int, ...] = ()
    kill: Mapping[str, Kill] = field(default_factory=_no_kills)
    reset: tuple[str, ...] = ()  # ids to remove, in this order, once `kill` is done: the pod starts over
    resize: tuple[Resize, ...] = ()
    settled: bool = False  # of kill_pod: nothing of the pod runs any more

    @property
    def nothing(self) -> bool:
        """Whether all is as it should be."""
        acts = (self.start, self.init_start, self.ephemeral_start, self.kill, self.reset, self.resize)
        return not self.create_sandbox and not any(acts) and (self.settled or not self.kill_pod)


@dataclass(slots=True, kw_only=True)
class PodActionsDraft:
    """Actions of a pod while they are computed."""

    kill_pod: bool = False
    start: list[int] = field(default_factory=list)
    init_start: list[int] = field(default_factory=list)
    ephemeral_start: list[int] = field(default_factory=list)
    kill: dict[str, Kill] = field(default_factory=dict)
    resize: list[Resize] = field(default_factory=list)


class ProbeResults(Protocol):
    """Results of the probes of a container, by its id. None: no result yet, or no such probe."""

    def liveness(self, container_id: str) -> bool | None:
        """The result of the liveness probe."""

    def startup(self, container_id: str) -> bool | None:
        """The result of the startup probe."""

    def readiness(self, container_id: str) -> bool | None:
        """The result of the readiness probe."""


class _Unprobed:
    """Probe results of a container that has no probes."""

    __slots__ = ()

    def liveness(self, container_id: str) -> bool | None:
        return None

    startup = readiness = liveness


UNPROBED: Final[ProbeResults] = _Unprobed()
