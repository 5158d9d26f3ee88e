"""What a policy decides, and why: read by the pipeline, by `explain` and `simulate`, by pages and the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from interpose.core.cpuallocator.candidate import Candidate
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.resources import nothing
from interpose.core.policy.request import Key


class Why(StrEnum):
    """What kind of no a refusal is."""

    EXHAUSTED = "exhausted"  # not enough is free now; later it may be
    INVALID = "invalid"  # the container asks for something that cannot be


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The container cannot have what it asks for. The message is for whoever wrote the pod."""

    why: Why
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a container holds: CPUs of its own, and the pools it shares CPUs of.

    Its CPU set is `exclusive` and everything in `pools` (names of the book's pools): when a pool changes, so does it.
    """

    exclusive: CpuSet = EMPTY
    pools: tuple[str, ...] = ()
    pinned: bool = True  # False: its CPU set is not written at all
    mems: CpuSet | None = None  # memory nodes; None: not written
    shares: int | None = None  # CPU shares; None: not written
    milli: int = 0  # what it uses of its pools, in thousandths of a CPU
    envs: Mapping[str, str] = field(default_factory=nothing)  # variables it is created with
    command: tuple[str, ...] | None = None  # what it runs instead of its own command and arguments
    details: Mapping[str, str] = field(default_factory=nothing)  # what else its policy must remember


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What follows from a grant for a running container. None: not written."""

    cpus: CpuSet | None = None
    mems: CpuSet | None = None
    shares: int | None = None


class Action(StrEnum):
    """What was decided about."""

    ALLOCATE = "allocate"
    KEEP = "keep"  # it has what it should have
    RESIZE = "resize"
    RELEASE = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """One decision. Either a grant or a refusal; a release has neither."""

    action: Action
    key: Key
    grant: Grant | None = None
    refusal: Refusal | None = None
    reason: str = ""  # one sentence
    candidates: tuple[Candidate, ...] = ()
    changed: tuple[Key, ...] = ()  # the others whose assignment is another one now, in order of their coming
