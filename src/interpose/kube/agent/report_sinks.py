"""Where reports are written: each sink knows what it wrote last, and whether there is something to write. Pure.

Invariant: what the Node shows already is not written again, also not by an agent that has just started.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from interpose.kube.agent.config_kinds import ConfigSource
from interpose.kube.agent.node_document import SloState
from interpose.kube.agent.report import (
    NodeReport,
    ReportedEvent,
    annotation_patch,
    condition_patch,
    has_annotation,
    has_condition,
    make_event,
    read_status,
    repeat_event,
    slo_event,
    slo_problem,
)
from interpose.kube.client.api import Object, PatchKind
from interpose.kube.client.objects import metadata, version_of

# How long what we wrote may take to come back with the watch, before somebody else must have changed it.
LAG: Final = 60.0
REPEATED_AFTER: Final = 600.0
MOST_EVENTS: Final = 20  # at once, and an hour in the long run
_MAX_RECENT: Final = 64


class ReportInput(NamedTuple):
    """The reports to write, and the Node as it is."""

    node: Object
    report: NodeReport | None
    slo: SloState
    objects: Mapping[ConfigSource, Object] = MappingProxyType({})  # of policies, as far as they are there


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWrite:
    """A request to make: a patch of an object, by default of the Node; without its kind a new Event."""

    body: dict[str, Any]
    patch: PatchKind | None = None
    subresource: str = ""
    source: ConfigSource | None = None  # the object to patch; one that is gone needs no patch
    event: ReportedEvent | None = None  # by an Event
    repeated: bool = False  # the Event is there already, and counted up


class ReportSink(Protocol):
    """Decides what to write for a report. Only `look` and `done` change its state."""

    kind: str

    def look(self, view: ReportInput) -> None:
        """Take note of what the Node shows."""

    def next(self, view: ReportInput, now: float, wall: float) -> ReportWrite | None:
        """The next write; None if all is written."""

    def ready_at(self, view: ReportInput, now: float) -> float:
        """The time from which on it may be written."""

    def again_at(self, view: ReportInput, now: float) -> float | None:
        """When there may be something to write though there is nothing now and nothing happens; None: never."""

    def done(self, view: ReportInput, write: ReportWrite, now: float) -> None:
        """Note that a write succeeded."""


class _Written(NamedTuple):
    """The last write: which Node, and the report."""

    uid: object
    report: NodeReport | None
    slo: str

    @classmethod
    def of(cls, view: ReportInput) -> "_Written":
        return cls(metadata(view.node).get("uid"), view.report, slo_problem(view.slo))


class NodeReportSink:
    """Writes a report into the Node itself."""

    def __init__(
        self,
        kind: str,
        *,
        is_reported: Callable[[ReportInput], bool],
        body: Callable[[ReportInput, float], dict[str, Any]],
        patch: PatchKind,
        subresource: str = "",
    ) -> None:
        self.kind = kind
        self._is_reported = is_reported
        self._body = body
        self._patch = patch
        self._subresource = subresource
        self._written: _Written | None = None
        self._written_at = 0.0
        self._version = ""  # of the Node when it was written

    def look(self, view: ReportInput) -> None:
        """Nothing to note: `next` compares with the Node."""

    def next(self, view: ReportInput, now: float, wall: float) -> ReportWrite | None:
        """Also if somebody else has taken it away, or the Node is another one of the same name."""
        if self._is_reported(view) or self._awaits_watch(view, now):
            return None
        return ReportWrite(body=self._body(view, wall), patch=self._patch, subresource=self._subresource)

    def ready_at(self, view: ReportInput, now: float) -> float:
        return now

    def again_at(self, view: ReportInput, now: float) -> float | None:
        """What we wrote should be seen by then. As long as nothing new is seen of the Node, nothing is missing."""
        if self._is_reported(view) or not self._awaits_watch(view, now) or version_of(view.node) == self._version:
            return None
        return self._written_at + LAG

    def done(self, view: ReportInput, write: ReportWrite, now: float) -> None:
        self._written, self._written_at = _Written.of(view), now
        self._version = version_of(view.node)

    def _awaits_watch(self, view: ReportInput, now: float) -> bool:
        if _Written.of(view) != self._written:
            return False
        return now < self._written_at + LAG or version_of(view.node) == self._version


def condition_sink() -> NodeReportSink:
    """A sink for the condition of the Node."""
    return NodeReportSink(
        "condition",
        is_reported=lambda view: view.report is None or has_condition(view.report, view.node),
        body=lambda view, wall: {} if view.report is None else condition_patch(view.report, view.node, wall),
        patch=PatchKind.STRATEGIC,
        subresource="status",
    )


def annotation_sink() -> NodeReportSink:
    """A sink for the annotation of the Node."""
    return NodeReportSink(
        "annotation",
        is_reported=lambda view: has_annotation(view.report, view.slo, view.node),
        body=lambda view, _wall: annotation_patch(view.report, view.slo, view.node),
        patch=PatchKind.MERGE,
    )


class EventBudget:
    """How many events there may be: some at once, and as many an hour in the long run."""

    def __init__(self, now: float) -> None:
        self._left = float(MOST_EVENTS)
        self._at = now

    def ready_at(self, now: float) -> float:
        """When the next one may be."""
        self._refill(now)
        return now if self._left >= 1.0 else now + (1.0 - self._left) * 3600.0 / MOST_EVENTS

    def spend(self, now: float) -> None:
        """Count an event that was written."""
        self._refill(now)
        self._left -= 1.0

    def _refill(self, now: float) -> None:
        self._left = min(self._left + (now - self._at) * MOST_EVENTS / 3600.0, MOST_EVENTS)
        self._at = now


class _PastEvent(NamedTuple):
    """An Event that was written: when that was first, and how it is now."""

    since: float
    body: dict[str, Any]


class EventReportSink:
    """Events, one per change of its subject. What comes and goes is counted up, so that the newest is the last one."""

    kind = "event"

    def __init__(self, subject: "EventSubject", budget: EventBudget, *, unseen: bool = False) -> None:
        """`unseen`: nothing on the Node shows what was told; the API server knows whether it was, by the name of it."""
        self._unseen = unseen
        self._subject = subject
        self._budget = budget
        self._recent: dict[ReportedEvent, _PastEvent] = {}

    def look(self, view: ReportInput) -> None:
        """Note what the previous agent reported."""
        self._subject.look(view)

    def next(self, view: ReportInput, now: float, wall: float) -> ReportWrite | None:
        """The next event; the first one of a run may be the last one of the previous run."""
        pending = self._subject.pending_event(view)
        if pending is None:
            return None
        if (past := self._recall(pending, now)) is not None:
            return ReportWrite(body=repeat_event(past.body, wall), event=pending, repeated=True)
        return ReportWrite(
            body=make_event(pending, view.node, wall, once=self._unseen and not self._recent), event=pending
        )

    def ready_at(self, view: ReportInput, now: float) -> float:
        """One that is there already costs nothing."""
        pending = self._subject.pending_event(view)
        return now if pending is not None and self._recall(pending, now) is not None else self._budget.ready_at(now)

    def again_at(self, view: ReportInput, now: float) -> float | None:
        """Never: events are about what happens."""
        return None

    def done(self, view: ReportInput, write: ReportWrite, now: float) -> None:
        self._subject.mark_reported(view)
        if write.event is None:
            raise ValueError("an Event has a reason and a message")
        if not write.repeated:
            self._budget.spend(now)
        since = self._recent[write.event].since if write.repeated else now
        self._recent.pop(write.event, None)
        self._recent[write.event] = _PastEvent(since, write.body)
        if len(self._recent) > _MAX_RECENT:
            del self._recent[next(iter(self._recent))]

    def _recall(self, event: ReportedEvent, now: float) -> _PastEvent | None:
        past = self._recent.get(event)
        return past if past is not None and now < past.since + REPEATED_AFTER else None


class EventSubject(Protocol):
    """The subject of events: configuration or NodeSLO."""

    def look(self, view: ReportInput) -> None:
        """Take note of what the Node shows: before it does so because we wrote it."""

    def pending_event(self, view: ReportInput) -> ReportedEvent | None:
        """The event that was not written yet; None if there is none."""

    def mark_reported(self, view: ReportInput) -> None:
        """Note that the pending event was written."""


class ConfigSubject:
    """Events about the configuration of the node."""

    def __init__(self) -> None:
        self._reported_event: ReportedEvent | None = None
        self._has_observed = False

    def look(self, view: ReportInput) -> None:
        if not self._has_observed and view.report is not None:
            self._has_observed, self._reported_event = True, self._event_on_node(view.report, view)

    def pending_event(self, view: ReportInput) -> ReportedEvent | None:
        if view.report is None:
            return None
        before = self._reported_event if self._has_observed else self._event_on_node(view.report, view)
        return view.report.event if view.report.event != before else None

    def mark_reported(self, view: ReportInput) -> None:
        self._reported_event = view.report.event if view.report is not None else None

    @staticmethod
    def _event_on_node(report: NodeReport, view: ReportInput) -> ReportedEvent | None:
        """The present event, if the previous agent wrote it."""
        as_text = read_status(view.node).get("message") == report.event.message
        return report.event if as_text or has_condition(report, view.node) else None


class SloSubject:
    """Events about problems of the NodeSLO."""

    def __init__(self) -> None:
        self._reported_event: str | None = None

    def look(self, view: ReportInput) -> None:
        if self._reported_event is None:
            self._reported_event = self._problem_on_node(view)

    def pending_event(self, view: ReportInput) -> ReportedEvent | None:
        return slo_event(
            view.slo, self._reported_event if self._reported_event is not None else self._problem_on_node(view)
        )

    def mark_reported(self, view: ReportInput) -> None:
        self._reported_event = slo_problem(view.slo)

    @staticmethod
    def _problem_on_node(view: ReportInput) -> str:
        return str(read_status(view.node).get("nodeSLO", ""))
