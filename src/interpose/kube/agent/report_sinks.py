"""Where reports are written: each desk knows what it told last, and whether there is something to tell. Pure.

Invariant: what the Node shows already is not told again, also not by an agent that has just started.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from interpose.kube.agent.node_document import SloState
from interpose.kube.agent.report import (
    NodeReport,
    ReportedEvent,
    annotation_patch,
    annotation_shown,
    condition_patch,
    condition_shown,
    event,
    event_again,
    shown_status,
    slo_problem,
    slo_told,
)
from interpose.kube.client.api import Object, PatchKind
from interpose.kube.client.objects import metadata, version_of

# How long what we wrote may take to come back with the watch, before somebody else must have changed it.
LAG: Final = 60.0
REPEATED_AFTER: Final = 600.0
MOST_EVENTS: Final = 20  # at once, and an hour in the long run
_MAX_RECENT: Final = 64


class ReportInput(NamedTuple):
    """What there is to tell, and the Node as it is."""

    node: Object
    report: NodeReport | None
    slo: SloState


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWrite:
    """A request to make: a patch of the Node, or without its kind a new Event."""

    body: dict[str, Any]
    patch: PatchKind | None = None
    subresource: str = ""
    told: ReportedEvent | None = None  # by an Event
    repeated: bool = False  # the Event is there already, and counted up


class ReportSink(Protocol):
    """Told what there is to tell, it says what to write. Only `look` and `done` change what it knows."""

    kind: str

    def look(self, view: ReportInput) -> None:
        """Take note of what the Node shows."""

    def next(self, view: ReportInput, now: float, wall: float) -> ReportWrite | None:
        """What is to be written; None if all is told."""

    def ready_at(self, view: ReportInput, now: float) -> float:
        """From when on it may be written."""

    def again_at(self, view: ReportInput, now: float) -> float | None:
        """When there may be something to write though there is nothing now and nothing happens; None: never."""

    def done(self, view: ReportInput, write: ReportWrite, now: float) -> None:
        """It was written."""


class _Written(NamedTuple):
    """What a Node was told last: which Node, and what."""

    uid: object
    report: NodeReport | None
    slo: str

    @classmethod
    def of(cls, view: ReportInput) -> "_Written":
        return cls(metadata(view.node).get("uid"), view.report, slo_problem(view.slo))


class NodeReportSink:
    """Something that is to be seen on the Node."""

    def __init__(
        self,
        kind: str,
        *,
        shown: Callable[[ReportInput], bool],
        body: Callable[[ReportInput, float], dict[str, Any]],
        patch: PatchKind,
        subresource: str = "",
    ) -> None:
        self.kind = kind
        self._shown = shown
        self._body = body
        self._patch = patch
        self._subresource = subresource
        self._written: _Written | None = None
        self._written_at = 0.0
        self._version = ""  # of the Node when it was written

    def look(self, view: ReportInput) -> None:
        """The Node is asked each time."""

    def next(self, view: ReportInput, now: float, wall: float) -> ReportWrite | None:
        """Also if somebody else has taken it away, or the Node is another one of the same name."""
        if self._shown(view) or self._is_on_its_way(view, now):
            return None
        return ReportWrite(body=self._body(view, wall), patch=self._patch, subresource=self._subresource)

    def ready_at(self, view: ReportInput, now: float) -> float:
        """At once."""
        return now

    def again_at(self, view: ReportInput, now: float) -> float | None:
        """What we wrote should be seen by then. As long as nothing new is seen of the Node, nothing is missing."""
        if self._shown(view) or not self._is_on_its_way(view, now) or version_of(view.node) == self._version:
            return None
        return self._written_at + LAG

    def done(self, view: ReportInput, write: ReportWrite, now: float) -> None:
        self._written, self._written_at = _Written.of(view), now
        self._version = version_of(view.node)

    def _is_on_its_way(self, view: ReportInput, now: float) -> bool:
        if _Written.of(view) != self._written:
            return False
        return now < self._written_at + LAG or version_of(view.node) == self._version


def condition_desk() -> NodeReportSink:
    """The condition of the Node."""
    return NodeReportSink(
        "condition",
        shown=lambda view: view.report is None or condition_shown(view.report, view.node),
        body=lambda view, wall: {} if view.report is None else condition_patch(view.report, view.node, wall),
        patch=PatchKind.STRATEGIC,
        subresource="status",
    )


def annotation_desk() -> NodeReportSink:
    """The annotation of the Node."""
    return NodeReportSink(
        "annotation",
        shown=lambda view: annotation_shown(view.report, view.slo, view.node),
        body=lambda view, _wall: annotation_patch(view.report, view.slo, view.node),
        patch=PatchKind.MERGE,
    )


class Budget:
    """How many events there may be: some at once, and as many an hour in the long run."""

    def __init__(self, now: float) -> None:
        self._left = float(MOST_EVENTS)
        self._at = now

    def ready_at(self, now: float) -> float:
        """When the next one may be."""
        self._refill(now)
        return now if self._left >= 1.0 else now + (1.0 - self._left) * 3600.0 / MOST_EVENTS

    def spend(self, now: float) -> None:
        """There was one."""
        self._refill(now)
        self._left -= 1.0

    def _refill(self, now: float) -> None:
        self._left = min(self._left + (now - self._at) * MOST_EVENTS / 3600.0, MOST_EVENTS)
        self._at = now


class _Past(NamedTuple):
    """An Event that was written: when that was first, and how it is now."""

    since: float
    body: dict[str, Any]


class EventReportSink:
    """Events, one per change of its subject. What comes and goes is counted up, so that the newest is the last one."""

    kind = "event"

    def __init__(self, subject: "EventSubject", budget: Budget, *, unseen: bool = False) -> None:
        """`unseen`: nothing on the Node shows what was told; the API server knows whether it was, by the name of it."""
        self._unseen = unseen
        self._subject = subject
        self._budget = budget
        self._recent: dict[ReportedEvent, _Past] = {}

    def look(self, view: ReportInput) -> None:
        """Of what an agent before us told."""
        self._subject.look(view)

    def next(self, view: ReportInput, now: float, wall: float) -> ReportWrite | None:
        """The first one of a run may be what the run before told last."""
        told = self._subject.news(view)
        if told is None:
            return None
        if (past := self._recall(told, now)) is not None:
            return ReportWrite(body=event_again(past.body, wall), told=told, repeated=True)
        return ReportWrite(body=event(told, view.node, wall, once=self._unseen and not self._recent), told=told)

    def ready_at(self, view: ReportInput, now: float) -> float:
        """One that is there already costs nothing."""
        told = self._subject.news(view)
        return now if told is not None and self._recall(told, now) is not None else self._budget.ready_at(now)

    def again_at(self, view: ReportInput, now: float) -> float | None:
        """Never: events are about what happens."""
        return None

    def done(self, view: ReportInput, write: ReportWrite, now: float) -> None:
        self._subject.told(view)
        if write.told is None:
            raise ValueError("an Event has a reason and a message")
        if not write.repeated:
            self._budget.spend(now)
        since = self._recent[write.told].since if write.repeated else now
        self._recent.pop(write.told, None)
        self._recent[write.told] = _Past(since, write.body)
        if len(self._recent) > _MAX_RECENT:
            del self._recent[next(iter(self._recent))]

    def _recall(self, told: ReportedEvent, now: float) -> _Past | None:
        past = self._recent.get(told)
        return past if past is not None and now < past.since + REPEATED_AFTER else None


class EventSubject(Protocol):
    """What events are about."""

    def look(self, view: ReportInput) -> None:
        """Take note of what the Node shows: before it does so because we wrote it."""

    def news(self, view: ReportInput) -> ReportedEvent | None:
        """What has not been told; None if there is nothing."""

    def told(self, view: ReportInput) -> None:
        """That is told now."""


class ConfigSubject:
    """How the configuration of the node goes."""

    def __init__(self) -> None:
        self._told: ReportedEvent | None = None
        self._began = False

    def look(self, view: ReportInput) -> None:
        if not self._began and view.report is not None:
            self._began, self._told = True, self._shown(view.report, view)

    def news(self, view: ReportInput) -> ReportedEvent | None:
        if view.report is None:
            return None
        before = self._told if self._began else self._shown(view.report, view)
        return view.report.told if view.report.told != before else None

    def told(self, view: ReportInput) -> None:
        self._told = view.report.told if view.report is not None else None

    @staticmethod
    def _shown(report: NodeReport, view: ReportInput) -> ReportedEvent | None:
        """What there is to tell, if an agent before us told it."""
        as_text = shown_status(view.node).get("message") == report.told.message
        return report.told if as_text or condition_shown(report, view.node) else None


class SloSubject:
    """What is wrong with the NodeSLO."""

    def __init__(self) -> None:
        self._told: str | None = None

    def look(self, view: ReportInput) -> None:
        if self._told is None:
            self._told = self._shown(view)

    def news(self, view: ReportInput) -> ReportedEvent | None:
        return slo_told(view.slo, self._told if self._told is not None else self._shown(view))

    def told(self, view: ReportInput) -> None:
        self._told = slo_problem(view.slo)

    @staticmethod
    def _shown(view: ReportInput) -> str:
        return str(shown_status(view.node).get("nodeSLO", ""))
