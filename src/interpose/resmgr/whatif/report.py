"""What a policy would have decided, as plain values: for `-o json` and for the views. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Assignment, assignment_record, decision_record
from interpose.core.policy.request import Key
from interpose.resmgr.whatif.compare import Compared, Verdict
from interpose.resmgr.whatif.timeline import Move, Stay, Summary, TimelineOutcome, TimelineStep

_COUNTS: Final = (
    "calls", "placed", "refused", "taken_over", "without_place", "resized", "resizes_refused", "moves", "moves_then",
    "exclusive_peak", "failures", "unreadable", "strangers", "guessed",
)  # fmt: skip


def outcome_document(policy: str, outcome: TimelineOutcome) -> dict[str, Any]:
    """Everything about one policy."""
    titles = {step.request.key: step.title for step in outcome.steps}
    pools = outcome.steps[-1].pools if outcome.steps else {}
    return {
        "policy": policy,
        "summary": _summary(outcome.summary),
        "steps": [_step(step, titles) for step in outcome.steps],
        "compared": [_compared(key, title, one) for key, (title, one) in outcome.compared.items()],
        "stays": [_stay(one) for one in outcome.stays],
        "pools": _pools(pools),
    }


def time_text(time_ns: int) -> str:
    """A time of day to the microsecond, in UTC."""
    seconds, rest = divmod(time_ns, 1_000_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest // 1000:06}Z"


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "began": time_text(summary.began_ns),
        "ended": time_text(summary.ended_ns),
        "began_ns": summary.began_ns,
        "ended_ns": summary.ended_ns,
        **{name: getattr(summary, name) for name in _COUNTS},
        "exclusive_average": round(summary.exclusive_average, 3),
        "agreement": None if summary.agreement is None else round(summary.agreement, 6),
        "verdicts": {verdict.value: summary.verdicts.get(verdict, 0) for verdict in Verdict},
    }


def _step(step: TimelineStep, titles: Mapping[Key, str]) -> dict[str, Any]:
    record = decision_record(step.decision, step.request, step.after, titles)
    return {
        "time": time_text(step.time_ns),
        "time_ns": step.time_ns,
        "what": step.what.value,
        **record,
        "refused": step.refused,
        "reason": step.reason,
        "before": assignment_record(step.before),
        "moved": [_move(one) for one in step.moved],
        "exclusive": step.exclusive,
        "pools": _pools(step.pools),
    }


def _move(move: Move) -> dict[str, Any]:
    return {
        "container": move.title,
        "before": assignment_record(move.before),
        "after": assignment_record(move.after),
        "running": move.running,
    }


def _compared(key: Key, title: str, one: Compared) -> dict[str, Any]:
    return {
        "container": title,
        "key": str(key),
        "verdict": one.verdict.value,
        "then": _sets(one.then),
        "now": _sets(one.now),
    }


def _sets(assignment: Assignment | None) -> dict[str, Any] | None:
    if assignment is None:
        return None
    record = assignment_record(assignment)
    return {name: record[name] for name in ("cpus", "mems")}


def _stay(stay: Stay) -> dict[str, Any]:
    return {
        "container": stay.title,
        "cpus": str(stay.cpus),
        "since_ns": stay.since_ns,
        "until_ns": stay.until_ns,
    }


def _pools(pools: Mapping[str, CpuSet]) -> dict[str, str]:
    return {name: str(cpus) for name, cpus in pools.items()}
