"""What is made again, and in which order.

A call starts when all calls are over that were over when it began in the recording: what went on side by side goes on
side by side again, and nothing overtakes. That also puts every call behind those that made what it is about. What came
first is told by the places of frames in the recording; times only tell pauses.

Pure: calls in, a plan out.
"""

import bisect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from interpose.dump.model.call import Flow
from interpose.dump.model.frames import MessageSide
from interpose.dump.replay.id_map import Reference, ReferenceKind, created_object, find, references
from interpose.dump.replay.selection import RecordedCall, ReplayChoices, omit_reason
from interpose.dump.replay.visit import Parse, first_body


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayStep:
    """One call that is made again."""

    index: int  # in the plan
    number: int  # in the recording
    name: str
    path: str
    request_type: str
    response_type: str
    subject: str
    request: bytes
    begin: int  # nanoseconds since the first call of the plan
    end: int | None  # None: it was in flight when the recording ended
    code: int | None
    message: str
    made: Reference | None
    references: tuple[Reference, ...]
    position: int = 0  # of the frame with which it began
    # So many steps, counted in the order of `ReplayPlan.ends`, have to be over before this one starts.
    barrier: int = 0
    needs: tuple[int, ...] = ()  # the steps that made what it is about


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedCall:
    """A call that was chosen and cannot be made."""

    number: int
    name: str
    subject: str
    reason: str
    group: str = ""  # the same without what is different in each call


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayPlan:
    """The calls to make, and those left out with their reasons."""

    steps: tuple[ReplayStep, ...]
    ends: tuple[int, ...]  # steps in the order in which they ended
    skipped: tuple[SkippedCall, ...]
    omitted: Mapping[str, int]  # calls that were not chosen, by reason


@dataclass(slots=True, kw_only=True)
class _Draft:
    """A chosen call before it has a place."""

    call: RecordedCall
    position: int  # where it was sent
    at: int  # when that was, in nanoseconds since the recording began
    request: bytes
    references: list[Reference]
    made: Reference | None
    needs: list[int] = field(default_factory=list)

    @property
    def flow(self) -> Flow:
        return self.call.flow


@dataclass(slots=True, kw_only=True)
class _Maker:
    """The call that made something, and what becomes of it: empty while it is to be made."""

    name: str
    fate: str = ""


def make_plan(
    calls: Iterable[RecordedCall],
    choices: ReplayChoices,
    parse: Parse,
    wanted: Callable[[Flow], bool] = lambda _flow: True,
) -> ReplayPlan:
    """The plan of a recording. `wanted` is a filter on top of the choices."""
    drafts: list[_Draft] = []
    skipped: list[SkippedCall] = []
    left: Counter[str] = Counter()
    makers: dict[Reference, _Maker] = {}  # of everything that a call of the recording made
    for call in calls:
        flow = call.flow
        created = _made(flow, parse)
        maker = _Maker(name=f"{flow.name} #{flow.number}")
        if created is not None:
            makers[created] = maker
        reason = omit_reason(flow, choices) or ("" if wanted(flow) else "what the filter does not choose")
        if reason:
            left[reason] += 1
            maker.fate = "is left out"
            continue
        try:
            drafts.append(_draft(call, choices, parse, created))
        except ValueError as error:
            maker.fate = "is skipped"
            skipped.append(_skipped(flow, f"its request cannot be sent: {error}", "their requests cannot be sent"))
    drafts = _resolved(sorted(drafts, key=lambda draft: draft.position), skipped, makers, choices)
    return _ordered(drafts, skipped, left)


def _made(flow: Flow, parse: Parse) -> Reference | None:
    if flow.end is None or flow.end.code != 0 or flow.method is None or flow.method.server_streaming:
        return None
    try:
        return created_object(parse(flow.method.response, first_body(flow, MessageSide.RECEIVED, MessageSide.REPLY)))
    except ValueError:
        return None


def _draft(call: RecordedCall, choices: ReplayChoices, parse: Parse, created: Reference | None) -> _Draft:
    flow = call.flow
    sides = (MessageSide.FORWARDED, MessageSide.REQUEST) if choices.as_sent else (MessageSide.REQUEST,)
    request = first_body(flow, *sides)
    message = parse(_row(flow).request, request)
    wanted = [reference for reference in references(message) if reference.kind is not ReferenceKind.IMAGE]
    position, at = _sent(call, choices)
    return _Draft(call=call, position=position, at=at, request=request, references=wanted, made=created)


def _sent(call: RecordedCall, choices: ReplayChoices) -> tuple[int, int]:
    """When the caller sent it, or when the runtime got it: the relay's own calls may have come in between."""
    flow = call.flow
    position = call.position_of(MessageSide.FORWARDED) if choices.as_sent else None
    if position is None:
        return call.begin, call.at
    after = flow.messages_of(MessageSide.FORWARDED)[0].at
    return position, call.at + (after if flow.end is None else min(after, flow.end.elapsed))


def _row(flow: Flow) -> Any:
    return flow.method


def _skipped(flow: Flow, reason: str, group: str) -> SkippedCall:
    return SkippedCall(number=flow.number, name=flow.name, subject=str(flow.subject), reason=reason, group=group)


def _resolved(
    drafts: list[_Draft], skipped: list[SkippedCall], makers: Mapping[Reference, _Maker], choices: ReplayChoices
) -> list[_Draft]:
    """Leave out what is about things that nobody makes again."""
    kept: list[_Draft] = []
    known: dict[Reference, int] = {}
    for draft in drafts:
        found = {reference: find(known, reference) for reference in draft.references}
        missing = [reference for reference, index in found.items() if index is None]
        if missing and not choices.pass_unknown:
            skipped.append(_skipped(draft.flow, *_missing(missing[0], makers)))
            if draft.made is not None:
                makers[draft.made].fate = "is skipped"
            continue
        draft.needs = sorted({index for index in found.values() if index is not None})
        if draft.made is not None:
            known[draft.made] = len(kept)
        kept.append(draft)
    return kept


def _missing(wanted: Reference, makers: Mapping[Reference, _Maker]) -> tuple[str, str]:
    """Why something is not there, and the same for many calls."""
    maker = find(makers, wanted)
    if maker is None:
        why = "was made before the recording began (--unknown-ids pass sends it as it is)"
        return f"{wanted} {why}", f"what they are about {why}"
    fate = maker.fate or "comes later in the recording"
    return f"{wanted} is not made: {maker.name} {fate}", f"the call that made what they are about {fate}"


def _ordered(drafts: list[_Draft], skipped: list[SkippedCall], left: Mapping[str, int]) -> ReplayPlan:
    start = drafts[0].at if drafts else 0
    ends = sorted((end, index) for index, draft in enumerate(drafts) if (end := draft.call.ended) is not None)
    positions = [end for end, _index in ends]
    steps = []
    for index, draft in enumerate(drafts):
        flow, row = draft.flow, _row(draft.flow)
        steps.append(
            ReplayStep(
                index=index,
                number=flow.number,
                name=flow.name,
                path=flow.path,
                request_type=row.request,
                response_type=row.response,
                subject=str(flow.subject),
                request=draft.request,
                begin=draft.at - start,
                end=None if flow.end is None else draft.call.at + flow.end.elapsed - start,
                code=None if flow.end is None else flow.end.code,
                message="" if flow.end is None else flow.end.message,
                made=draft.made,
                references=tuple(draft.references),
                position=draft.position,
                barrier=bisect.bisect_left(positions, draft.position),
                needs=tuple(draft.needs),
            )
        )
    return ReplayPlan(
        steps=tuple(steps),
        ends=tuple(index for _place, index in ends),
        skipped=tuple(sorted(skipped, key=lambda call: call.number)),
        omitted=dict(left),
    )


class ReplayProgress:
    """How far a plan is: which steps are over, and whether a step may start."""

    def __init__(self, plan: ReplayPlan) -> None:
        self._ends = plan.ends
        self._finished: set[int] = set()
        self._finished_ends = 0  # of `ends`, without a gap

    def finish(self, step: ReplayStep) -> None:
        """This step has ended, or will never start."""
        self._finished.add(step.index)
        while self._finished_ends < len(self._ends) and self._ends[self._finished_ends] in self._finished:
            self._finished_ends += 1

    def may_start(self, step: ReplayStep) -> bool:
        """Whether everything is over that this step waits for."""
        return self._finished_ends >= step.barrier and all(index in self._finished for index in step.needs)
