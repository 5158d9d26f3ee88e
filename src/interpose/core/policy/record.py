"""A decision as plain values: what `explain`, `simulate`, the admin socket and the log show of it."""

from collections.abc import Mapping
from typing import Any

from interpose.core.cpuallocator.candidate import Candidate
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Assignment, Decision, Grant
from interpose.core.policy.request import Key, Request


def decision_record(
    decision: Decision, request: Request | None, assignment: Assignment, titles: Mapping[Key, str]
) -> dict[str, Any]:
    """Everything about one decision. `titles` are what people call the other containers."""
    key = decision.key
    return {
        "container": request.title if request is not None else titles.get(key, str(key)),
        "key": str(key),
        "action": decision.action.value,
        "reason": decision.reason,
        "request": None if request is None else request_record(request),
        "candidates": [_candidate(one) for one in decision.candidates],
        "grant": None if decision.grant is None else grant_record(decision.grant),
        "refusal": None
        if decision.refusal is None
        else {"why": decision.refusal.why.value, "message": decision.refusal.message},
        "assignment": assignment_record(assignment),
        "changed": [titles.get(other, str(other)) for other in decision.changed],
    }


def request_record(request: Request) -> dict[str, Any]:
    """What was asked for."""
    amounts = request.amounts
    return {
        "qos": request.qos.value,
        "cpu_milli": amounts.milli,
        "cpu_limit_milli": amounts.limit_milli,
        "memory": amounts.memory,
        "memory_limit": amounts.memory_limit,
        "extended": dict(amounts.extended),
        "source": amounts.source.value,
    }


def grant_record(grant: Grant) -> dict[str, Any]:
    """What is held."""
    return {
        "exclusive": str(grant.exclusive),
        "pools": list(grant.pools),
        "pinned": grant.pinned,
        "mems": _text(grant.mems),
        "shares": grant.shares,
        "milli": grant.milli,
        "envs": dict(grant.envs),
        "command": None if grant.command is None else list(grant.command),
        "details": dict(grant.details),
    }


def assignment_record(assignment: Assignment) -> dict[str, Any]:
    """What follows from it for the container."""
    return {"cpus": _text(assignment.cpus), "mems": _text(assignment.mems), "shares": assignment.shares}


def _candidate(one: Candidate) -> dict[str, Any]:
    return {"name": one.name, "cpus": str(one.cpus), "score": one.score, "chosen": one.chosen, "why": one.why}


def _text(cpus: CpuSet | None) -> str | None:
    return None if cpus is None else str(cpus)
