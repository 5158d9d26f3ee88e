"""What a policy decides and why, and the same as plain values for commands, the admin socket and the log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.resources import empty_map
from interpose.core.policy.request import Key, Request
from interpose.core.topology.hints import hint_record

NO_QUOTA: Final = -1  # a CFS quota in CRI and on cgroup v1: none


class RefusalKind(StrEnum):
    """Whether a refusal is final."""

    EXHAUSTED = "exhausted"  # not enough is free now; later it may be
    INVALID = "invalid"  # the container asks for something that cannot be


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The container cannot have what it asks for. The message is for the author of the pod."""

    kind: RefusalKind
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What a container holds: exclusive CPUs, and the pools it shares CPUs of.

    Its CPU set is `exclusive` and everything in `pools` (names of pools of the policy state): when a pool changes, so
    does it.
    """

    exclusive: CpuSet = EMPTY
    pools: tuple[str, ...] = ()
    pinned: bool = True  # False: its CPU set is not written at all
    mems: CpuSet | None = None  # memory nodes; None: not written
    shares: int | None = None  # CPU shares; None: not written
    quota: int | None = None  # CFS quota; None: not written
    milli: int = 0  # what it uses of its pools, in thousandths of a CPU
    envs: Mapping[str, str] = field(default_factory=empty_map)  # variables it is created with
    command: tuple[str, ...] | None = None  # what it runs instead of its own command and arguments
    details: Mapping[str, str] = field(default_factory=empty_map)  # what else its policy must remember


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What follows from a grant for a running container. None: not written."""

    cpus: CpuSet | None = None
    mems: CpuSet | None = None
    shares: int | None = None
    quota: int | None = None  # in microseconds of each period; NO_QUOTA: as many as there are


class Action(StrEnum):
    """The kind of a decision."""

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
    changed: tuple[
        Key, ...
    ] = ()  # the others whose assignment is another one now, in the order in which they were created


def decision_record(
    decision: Decision, request: Request | None, assignment: Assignment, titles: Mapping[Key, str]
) -> dict[str, Any]:
    """A decision as plain values; `titles` are the display names of the other containers."""
    key = decision.key
    return {
        "container": request.title if request is not None else titles.get(key, str(key)),
        "key": str(key),
        "action": decision.action.value,
        "reason": decision.reason,
        "request": None if request is None else request_record(request),
        "candidates": [_candidate_record(candidate) for candidate in decision.candidates],
        "grant": None if decision.grant is None else grant_record(decision.grant),
        "refusal": None
        if decision.refusal is None
        else {"why": decision.refusal.kind.value, "message": decision.refusal.message},
        "assignment": assignment_record(assignment),
        "changed": [titles.get(other, str(other)) for other in decision.changed],
    }


def request_record(request: Request) -> dict[str, Any]:
    """The amounts of a request and its topology hints as plain values."""
    amounts, pod = request.amounts, request.pod_amounts
    return {
        "qos": request.qos.value,
        "cpu_milli": amounts.milli,
        "cpu_limit_milli": amounts.limit_milli,
        "memory": amounts.memory,
        "memory_limit": amounts.memory_limit,
        "extended": dict(amounts.extended),
        "source": amounts.source.value,
        "pod": None
        if pod is None
        else {
            "cpu_milli": pod.milli,
            "cpu_limit_milli": pod.limit_milli,
            "memory": pod.memory,
            "memory_limit": pod.memory_limit,
        },
        "hints": [hint_record(hint) for hint in request.hints],
    }


def grant_record(grant: Grant) -> dict[str, Any]:
    """A grant as plain values; CPU sets are texts."""
    return {
        "exclusive": str(grant.exclusive),
        "pools": list(grant.pools),
        "pinned": grant.pinned,
        "mems": _text(grant.mems),
        "shares": grant.shares,
        "quota": grant.quota,
        "milli": grant.milli,
        "envs": dict(grant.envs),
        "command": None if grant.command is None else list(grant.command),
        "details": dict(grant.details),
    }


def assignment_record(assignment: Assignment) -> dict[str, Any]:
    """An assignment as plain values; None: not written."""
    return {
        "cpus": _text(assignment.cpus),
        "mems": _text(assignment.mems),
        "shares": assignment.shares,
        "quota": assignment.quota,
    }


def _candidate_record(candidate: Candidate) -> dict[str, Any]:
    return {
        "name": candidate.name,
        "cpus": str(candidate.cpus),
        "score": candidate.score,
        "chosen": candidate.chosen,
        "why": candidate.reason,
    }


def _text(cpus: CpuSet | None) -> str | None:
    return None if cpus is None else str(cpus)
