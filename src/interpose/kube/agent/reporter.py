"""Tells the cluster how the configuration of the node goes: events, condition, annotation.

Only what changed is told, the newest report wins, and each kind goes its own way: one that is forbidden, fails or hangs
holds up no other. An API server that is away is everyday: the newest report goes out when it is back.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

from interpose.core.backoff import Backoff
from interpose.kube.agent.node_document import SloState
from interpose.kube.agent.push_state import PushState
from interpose.kube.agent.report import EVENT_NAMESPACE, NodeReport, report_of
from interpose.kube.agent.report_sinks import (
    Budget,
    ConfigSubject,
    EventReportSink,
    ReportInput,
    ReportSink,
    ReportWrite,
    SloSubject,
    annotation_desk,
    condition_desk,
)
from interpose.kube.client.api import EVENTS, NODES, ApiError, Object, PatchKind, Resource
from interpose.log import RateLimited
from interpose.net.http.errors import UnreachableError
from interpose.tasks import LEAST_PAUSE, Idle, TaskBag, idle

_log = logging.getLogger(__name__)

KINDS: Final = ("event", "condition", "annotation")
# Between two writes of the same kind: a state that comes and goes is not worth more.
_SPACING: Final = 5.0
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 120.0


class Writes(Protocol):
    """What is needed of an API server."""

    async def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        """A new object."""

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, namespace: str = "", subresource: str = ""
    ) -> Object:
        """Change parts of an object."""


class _Place:
    """A desk, and when it may be gone to."""

    def __init__(self, desk: ReportSink, chance: Callable[[], float]) -> None:
        self.desk = desk
        self.wake = asyncio.Event()
        self.not_before = 0.0
        self.backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random=chance)


class Reporter:
    """`seen` is the Node as it is followed; nothing is told before it is known. Counters are plain numbers."""

    def __init__(
        self,
        api: Writes,
        *,
        node: str,
        seen: Callable[[], Object | None],
        kinds: Collection[str] = KINDS,
        now: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
        chance: Callable[[], float] = random.random,
        pause: Idle = idle,
    ) -> None:
        self.problems: dict[str, str] = {}  # why the last try of a kind failed
        self.results: Counter[tuple[str, str]] = Counter()  # by kind, and written or failed
        self._api = api
        self._node = node
        self._seen = seen
        self._now = now
        self._wall = wall
        self._pause = pause
        self._report: NodeReport | None = None
        self._slo = SloState()
        self._limited = RateLimited(_log, interval=600.0, clock=now)
        budget = Budget(now())
        # Events look first: they are left out if the Node shows already what they would tell.
        desks: list[ReportSink] = []
        if "event" in kinds:
            desks += [
                EventReportSink(ConfigSubject(), budget, unseen=not {"annotation", "condition"} & set(kinds)),
                EventReportSink(SloSubject(), budget, unseen="annotation" not in kinds),
            ]
        if "condition" in kinds:
            desks.append(condition_desk())
        if "annotation" in kinds:
            desks.append(annotation_desk())
        self._places = [_Place(desk, chance) for desk in desks]

    @property
    def pending(self) -> tuple[str, ...]:
        """The kinds that have something to tell which is not told yet."""
        if (view := self._view()) is None:
            return ()
        now, wall = self._now(), self._wall()
        kinds = [place.desk.kind for place in self._places if place.desk.next(view, now, wall) is not None]
        return tuple(dict.fromkeys(kinds))

    def on_state(self, state: PushState) -> None:
        """The configuration of the node has another state."""
        self._report = report_of(state)
        self.poke()

    def on_slo(self, slo: SloState) -> None:
        """So has its NodeSLO."""
        self._slo = slo
        self.poke()

    def poke(self) -> None:
        """The Node changed."""
        for place in self._places:
            place.wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        bag = TaskBag()
        try:
            for place in self._places:
                bag.spawn(self._keep(place), name=f"report by {place.desk.kind}")
            await asyncio.Event().wait()
        finally:
            await bag.cancel()

    async def _keep(self, place: _Place) -> None:
        while True:
            place.wake.clear()
            try:
                moment = await self._attend(place)
            except (ApiError, UnreachableError) as error:
                moment = self._failed(place, str(error), error.retry_after if isinstance(error, ApiError) else None)
            except Exception as error:  # a mistake of ours must not end the loop
                moment = self._failed(place, f"{type(error).__name__}: {error}", None)
            await self._pause(place.wake, None if moment is None else max(moment - self._now(), LEAST_PAUSE))

    def _view(self) -> ReportInput | None:
        node = self._seen()
        return ReportInput(node, self._report, self._slo) if node is not None else None

    async def _attend(self, place: _Place) -> float | None:
        """Write what is to be written; when to come back if nothing happens before."""
        if (view := self._view()) is None:
            return None
        now, desk = self._now(), place.desk
        desk.look(view)
        write = desk.next(view, now, self._wall())
        if write is None:
            return desk.again_at(view, now)
        if (ready := max(place.not_before, desk.ready_at(view, now))) > now:
            return ready
        self.results[desk.kind, "written"] += await self._write(write)
        self.problems.pop(desk.kind, None)
        place.backoff.reset()
        place.not_before = self._now() + (0.0 if write.told is not None and not write.repeated else _SPACING)
        desk.done(view, write, self._now())
        return self._now()  # something may have happened meanwhile

    def _failed(self, place: _Place, problem: str, asked: float | None) -> float:
        kind = place.desk.kind
        self.results[kind, "failed"] += 1
        self.problems[kind] = problem
        place.not_before = self._now() + place.backoff.next(asked)
        self._limited.log(logging.WARNING, "Failed to write report", key=kind, kind=kind, err=problem)
        return place.not_before

    async def _write(self, write: ReportWrite) -> bool:
        """False if the very same was there already."""
        if write.patch is not None:
            await self._api.patch(NODES, self._node, write.body, kind=write.patch, subresource=write.subresource)
            return True
        try:
            if not write.repeated or not await self._count_up(write.body):
                await self._api.create(EVENTS, write.body, namespace=EVENT_NAMESPACE)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            return False  # the agent before us told it
        return True

    async def _count_up(self, body: Object) -> bool:
        """False if the Event is gone: API servers keep them for an hour."""
        name, patch = body["metadata"]["name"], {key: body[key] for key in ("count", "lastTimestamp")}
        try:
            await self._api.patch(EVENTS, name, patch, kind=PatchKind.MERGE, namespace=EVENT_NAMESPACE)
        except ApiError as error:
            if error.code != 404:
                raise
            return False
        return True
