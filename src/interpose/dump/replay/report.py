"""What came of a replay, as one document: the calls, what was left out, the states at the end, how long it took.

Pure. The document is JSON-friendly; its keys are always there.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from interpose.dump.model.grpc_codes import code_name
from interpose.dump.replay.adapt import Adaptation
from interpose.dump.replay.final_state import Condition, FinalState, matches
from interpose.dump.replay.id_map import Reference
from interpose.dump.replay.plan import ReplayPlan, ReplayStep, SkippedCall

_MS: Final = 1_000_000
_LISTED: Final = 3  # of files in a note


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOutcome:
    """What came of one step: a status and how long it took, or why it was not made."""

    step: ReplayStep
    code: int | None = None
    message: str = ""
    elapsed: int = 0
    skipped: str = ""
    group: str = ""  # of `skipped`: the same without what is different in each call
    adapted: Adaptation = field(default_factory=Adaptation)

    @property
    def same(self) -> bool | None:
        """Whether the status is the recorded one; None if one of the two is not known."""
        return None if self.code is None or self.step.code is None else self.code == self.step.code


@dataclass(frozen=True, slots=True, kw_only=True)
class FinalObject:
    """A pod or container at the end."""

    recorded: Reference
    id: str  # now; empty: it was never made
    subject: str
    expected: Condition
    found: Condition

    @property
    def same(self) -> bool:
        """Whether it is in the state that the recording tells."""
        return matches(self.expected, self.found)


def plan_document(plan: ReplayPlan) -> dict[str, Any]:
    """The plan as a JSON document, before any call is made."""
    return {
        "calls": [
            {
                "number": step.number,
                "at_ms": step.begin / _MS,
                "method": step.name,
                "subject": step.subject,
                "status": _status(step.code),
                "makes": "" if step.made is None else step.made.id,
                "after": [plan.steps[index].number for index in step.needs],
            }
            for step in plan.steps
        ],
        "skipped": [_skipped(call) for call in plan.skipped],
        "omitted": dict(plan.omitted),
    }


def report_document(
    plan: ReplayPlan,
    outcomes: Sequence[ReplayOutcome],
    states: Sequence[FinalObject],
    *,
    suffix: str = "",
    stopped: bool = False,
    removed: bool = False,
    made: Sequence[Reference] = (),
    left: Sequence[Reference] = (),
    unseen: str = "",
) -> dict[str, Any]:
    """What came of it.

    `stopped`: somebody did not wait for the end. `removed`: what was made was to be removed; `left` could not be.
    `unseen`: why the states at the end are not known.
    """
    answered = [outcome for outcome in outcomes if not outcome.skipped]
    late = [
        SkippedCall(
            number=outcome.step.number,
            name=outcome.step.name,
            subject=outcome.step.subject,
            reason=outcome.skipped,
            group=outcome.group,
        )
        for outcome in outcomes
        if outcome.skipped
    ]
    skipped = sorted((*plan.skipped, *late), key=lambda call: call.number)
    return {
        "calls": [_call(outcome) for outcome in answered],
        "skipped": [_skipped(call) for call in skipped],
        "omitted": dict(plan.omitted),
        "states": [_state(state) for state in states],
        "latency": _latency(answered),
        "made": [
            {"kind": str(reference.kind), "id": reference.id, "left": reference in left if removed else None}
            for reference in made
        ],
        "notes": [
            *_end_notes(states, stopped=stopped, removed=removed, left=left, unseen=unseen),
            *_notes(outcomes, suffix),
        ],
        "summary": {
            "made": len(answered),
            "same": sum(outcome.same is True for outcome in answered),
            "different": sum(outcome.same is False for outcome in answered),
            "unknown": sum(outcome.same is None for outcome in answered),
            "skipped": len(skipped),
            "omitted": sum(plan.omitted.values()),
            "states_same": sum(state.same for state in states),
            "states_different": sum(not state.same for state in states),
            "stopped": stopped,
            "not_removed": len(left) if removed else 0,
        },
    }


def has_differences(report: Mapping[str, Any]) -> bool:
    """Whether anything came out otherwise than recorded, or did not come to its end."""
    summary = report["summary"]
    return bool(summary["different"] or summary["states_different"] or summary["stopped"] or summary["not_removed"])


def _status(code: int | None) -> str:
    return "" if code is None else code_name(code)


def _skipped(call: SkippedCall) -> dict[str, Any]:
    return {
        "number": call.number,
        "method": call.name,
        "subject": call.subject,
        "reason": call.reason,
        "group": call.group,
    }


def _call(outcome: ReplayOutcome) -> dict[str, Any]:
    step = outcome.step
    return {
        "number": step.number,
        "method": step.name,
        "subject": step.subject,
        "recorded": _status(step.code),
        "status": _status(outcome.code),
        "message": outcome.message,
        "same": outcome.same,
        "recorded_ms": None if step.end is None else (step.end - step.begin) / _MS,
        "duration_ms": outcome.elapsed / _MS,
    }


def _state(state: FinalObject) -> dict[str, Any]:
    return {
        "kind": str(state.recorded.kind),
        "subject": state.subject,
        "recorded_id": state.recorded.id,
        "id": state.id,
        "expected": str(state.expected),
        "found": str(state.found),
        "same": state.same,
    }


def _latency(made: Iterable[ReplayOutcome]) -> list[dict[str, Any]]:
    """Of calls that went well both times: a failure takes another time than a success."""
    then: dict[str, list[int]] = defaultdict(list)
    now: dict[str, list[int]] = defaultdict(list)
    for reference in made:
        if reference.code == 0 == reference.step.code and reference.step.end is not None:
            then[reference.step.name].append(reference.step.end - reference.step.begin)
            now[reference.step.name].append(reference.elapsed)
    return [
        {
            "method": name,
            "count": len(values),
            "recorded_p50_ms": median(values) / _MS,
            "p50_ms": median(now[name]) / _MS,
        }
        for name, values in sorted(then.items())
    ]


def _left(states: Iterable[FinalObject]) -> int:
    return sum(state.found.state is not FinalState.GONE for state in states)


def _end_notes(
    states: Iterable[FinalObject], *, stopped: bool, removed: bool, left: Sequence[Reference], unseen: str
) -> list[str]:
    there = 0 if removed else _left(states)
    notes = [
        (stopped, "it was stopped before its end"),
        (unseen, f"states at the end are not all known: {unseen}"),
        (left, f"what may still be there: {', '.join(map(str, left))}"),
        (
            there,
            f"{_count(there, 'pod or container is', 'pods and containers are')} left there (--cleanup removes them)",
        ),
    ]
    return [text for condition, text in notes if condition]


def _notes(outcomes: Sequence[ReplayOutcome], suffix: str) -> list[str]:
    adapted = [outcome.adapted for outcome in outcomes]
    redacted = sum(adaptation.redacted for adaptation in adapted)
    dropped = sorted({path for adaptation in adapted for path in adaptation.dropped_mounts})
    missing = sorted({path for adaptation in adapted for path in adaptation.missing_mounts})
    logs = sorted({path for adaptation in adapted for path in adaptation.dropped_logs})
    notes = [
        (suffix, f"uids of pods got the suffix {suffix!r}"),
        (redacted, f"{_count(redacted, 'value was', 'values were')} sent as redacted, not as recorded calls had them"),
        (dropped, f"mounts that do not exist here were left out: {_listed(dropped)}"),
        (missing, f"mounts do not exist here: {_listed(missing)} (--drop-mounts leaves them out)"),
        (logs, f"no logs are kept for {_count(len(logs), 'pod', 'pods')}: the directory is not here (--logs DIR)"),
    ]
    return [text for condition, text in notes if condition]


def _count(number: int, one: str, several: str) -> str:
    return f"{number} {one if number == 1 else several}"


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - _LISTED
    return ", ".join(texts[:_LISTED]) + (f" and {more} more" if more > 0 else "")
