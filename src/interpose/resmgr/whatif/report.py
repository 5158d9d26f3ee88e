"""The result of a replay as plain values: for `-o json` and for the views. Pure."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Assignment, assignment_record, decision_record
from interpose.core.policy.request import Key
from interpose.resmgr.whatif.compare import Comparison, ComparisonResult
from interpose.resmgr.whatif.timeline import Move, Stay, Summary, TimelineOutcome, TimelineStep

_COUNTS: Final = (
    "calls", "placed", "refused", "taken_over", "without_place", "resized", "resizes_refused", "moves", "moves_then",
    "exclusive_peak", "failures", "unreadable", "strangers", "guessed",
)  # fmt: skip


def outcome_document(policy: str, outcome: TimelineOutcome) -> dict[str, Any]:
    """All decisions of one policy, with their summary."""
    titles = {step.request.key: step.title for step in outcome.steps}
    pools = outcome.steps[-1].pools if outcome.steps else {}
    return {
        "policy": policy,
        "summary": _summary(outcome.summary),
        "steps": [_step(step, titles) for step in outcome.steps],
        "compared": [_comparison(key, title, found) for key, (title, found) in outcome.comparisons.items()],
        "stays": [_stay(stay) for stay in outcome.stays],
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
        "verdicts": {result.value: summary.results.get(result, 0) for result in ComparisonResult},
    }


def _step(step: TimelineStep, titles: Mapping[Key, str]) -> dict[str, Any]:
    record = decision_record(step.decision, step.request, step.after, titles)
    return {
        "time": time_text(step.time_ns),
        "time_ns": step.time_ns,
        "what": step.kind.value,
        **record,
        "refused": step.refused,
        "reason": step.reason,
        "before": assignment_record(step.before),
        "moved": [_move(move) for move in step.moved],
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


def _comparison(key: Key, title: str, found: Comparison) -> dict[str, Any]:
    return {
        "container": title,
        "key": str(key),
        "verdict": found.result.value,
        "then": _sets(found.then),
        "now": _sets(found.now),
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
