"""Where reports are written: each desk knows what it told last, and whether there is something to tell. Pure.

Invariant: what the Node shows already is not told again, also not by an agent that has just started.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol

from interpose.agent.nodestate import SloState
from interpose.agent.report import (
    Report,
    Told,
    annotation_patch,
    annotation_shown,
    condition_patch,
    condition_shown,
    event,
    shown_status,
    slo_problem,
    slo_told,
)
from interpose.kube.api import Object, PatchKind

# How long what we wrote may take to come back with the watch, before somebody else must have changed it.
LAG: Final = 60.0
REPEATED_AFTER: Final = 600.0
MOST_EVENTS: Final = 20  # at once, and an hour in the long run
_MAX_RECENT: Final = 64


class View(NamedTuple):
    """What there is to tell, and the Node as it is."""

    node: Object
    report: Report | None
    slo: SloState


@dataclass(frozen=True, slots=True, kw_only=True)
class Write:
    """A request to make: a patch of the Node, or without its kind a new Event."""

    told: Told
    body: dict[str, Any]
    patch: PatchKind | None = None
    subresource: str = ""


class Desk(Protocol):
    """Told what there is to tell, it says what to write."""

    kind: str

    def next(self, view: View, now: float, wall: float) -> Write | None:
        """What is to be written; None if all is told."""

    def ready_at(self, now: float) -> float:
        """From when on it may be written."""

    def done(self, view: View, write: Write, now: float) -> None:
        """It was written."""


class NodeDesk:
    """Something that is to be seen on the Node."""

    def __init__(
        self,
        kind: str,
        *,
        shown: Callable[[Report, Object], bool],
        body: Callable[[Report, Object, float], dict[str, Any]],
        patch: PatchKind,
        subresource: str = "",
    ) -> None:
        self.kind = kind
        self._shown = shown
        self._body = body
        self._patch = patch
        self._subresource = subresource
        self._written: Report | None = None
        self._written_at = 0.0

    def next(self, view: View, now: float, wall: float) -> Write | None:
        """Also if somebody else has taken it away."""
        report = view.report
        if report is None or self._shown(report, view.node):
            return None
        if report == self._written and now < self._written_at + LAG:
            return None
        body = self._body(report, view.node, wall)
        return Write(told=report.told, body=body, patch=self._patch, subresource=self._subresource)

    def ready_at(self, now: float) -> float:
        """At once."""
        return now

    def done(self, view: View, write: Write, now: float) -> None:
        self._written, self._written_at = view.report, now


def condition_desk() -> NodeDesk:
    """The condition of the Node."""
    return NodeDesk(
        "condition",
        shown=condition_shown,
        body=condition_patch,
        patch=PatchKind.STRATEGIC,
        subresource="status",
    )


def annotation_desk() -> NodeDesk:
    """The annotation of the Node."""
    return NodeDesk(
        "annotation",
        shown=annotation_shown,
        body=lambda report, node, _wall: annotation_patch(report, node),
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


class EventDesk:
    """Events, one per change of its subject."""

    kind = "event"

    def __init__(self, subject: "Subject", budget: Budget) -> None:
        self.suppressed = 0
        self._subject = subject
        self._budget = budget
        self._recent: dict[Told, float] = {}

    def next(self, view: View, now: float, wall: float) -> Write | None:
        """What was told a short while ago is not told again: then it comes and goes."""
        told = self._subject.news(view)
        if told is None:
            return None
        if told in self._recent and now < self._recent[told] + REPEATED_AFTER:
            self.suppressed += 1
            self._subject.told(view)
            return None
        return Write(told=told, body=event(told, view.node, wall))

    def ready_at(self, now: float) -> float:
        return self._budget.ready_at(now)

    def done(self, view: View, write: Write, now: float) -> None:
        self._budget.spend(now)
        self._subject.told(view)
        self._recent.pop(write.told, None)
        self._recent[write.told] = now
        if len(self._recent) > _MAX_RECENT:
            del self._recent[next(iter(self._recent))]


class Subject(Protocol):
    """What events are about."""

    def news(self, view: View) -> Told | None:
        """What has not been told; None if there is nothing."""

    def told(self, view: View) -> None:
        """That is told now."""


class ConfigSubject:
    """How the configuration of the node goes."""

    def __init__(self) -> None:
        self._told: Told | None = None
        self._begun = False

    def news(self, view: View) -> Told | None:
        report = view.report
        if report is None:
            return None
        if not self._begun:
            # Only now: later the Node may show it because we wrote it, and the event still be missing.
            self._begun = True
            if condition_shown(report, view.node) or annotation_shown(report, view.node):
                self._told = report.told
        return report.told if report.told != self._told else None

    def told(self, view: View) -> None:
        self._told = view.report.told if view.report is not None else None


class SloSubject:
    """What is wrong with the NodeSLO."""

    def __init__(self) -> None:
        self._told: str | None = None

    def news(self, view: View) -> Told | None:
        if self._told is None:
            self._told = str(shown_status(view.node).get("nodeSLO", ""))
        return slo_told(view.slo, self._told)

    def told(self, view: View) -> None:
        self._told = slo_problem(view.slo)
