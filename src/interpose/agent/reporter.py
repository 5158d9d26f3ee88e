"""Tells the cluster how the configuration of the node goes: events, condition, annotation.

Only what changed is told, the newest report wins, and each of the three goes its own way: one that is forbidden or
fails holds up no other. An API server that is away is everyday: the newest report goes out when it is back.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol

from interpose.agent.desks import (
    Budget,
    ConfigSubject,
    Desk,
    EventDesk,
    SloSubject,
    View,
    Write,
    annotation_desk,
    condition_desk,
)
from interpose.agent.nodestate import SloState
from interpose.agent.pusher import Idle, idle
from interpose.agent.pushplan import State
from interpose.agent.report import EVENT_NAMESPACE, report_of
from interpose.instrumentation.logging import RateLimited
from interpose.kube.api import EVENTS, NODES, ApiError, Object, PatchKind, Resource, UnreachableError
from interpose.kube.backoff import Backoff

_log = logging.getLogger(__name__)

KINDS: Final = ("event", "condition", "annotation")
# Between two writes of the same kind: a state that comes and goes is not worth more.
_SPACING: Final = 5.0
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 120.0
_LEAST_PAUSE: Final = 0.001


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

    def __init__(self, desk: Desk, chance: Callable[[], float]) -> None:
        self.desk = desk
        self.not_before = 0.0
        self.backoff = Backoff(chance, first=_FIRST_PAUSE, most=_LONGEST_PAUSE)


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
        self._written: Counter[tuple[str, str]] = Counter()
        self._api = api
        self._node = node
        self._seen = seen
        self._now = now
        self._wall = wall
        self._pause = pause
        self._wake = asyncio.Event()
        self._state = State()
        self._slo = SloState()
        self._limited = RateLimited(_log, interval=600.0, clock=now)
        budget = Budget(now())
        self._events = [EventDesk(ConfigSubject(), budget), EventDesk(SloSubject(), budget)] if "event" in kinds else []
        # Events first: they are left out if the Node shows already what they would tell.
        desks: list[Desk] = [*self._events]
        if "condition" in kinds:
            desks.append(condition_desk())
        if "annotation" in kinds:
            desks.append(annotation_desk())
        self._places = [_Place(desk, chance) for desk in desks]

    @property
    def results(self) -> Counter[tuple[str, str]]:
        """By kind, and written, failed or suppressed."""
        return self._written + Counter({("event", "suppressed"): sum(desk.suppressed for desk in self._events)})

    @property
    def pending(self) -> tuple[str, ...]:
        """The kinds that have something to tell which is not told yet."""
        if (view := self._view()) is None:
            return ()
        now, wall = self._now(), self._wall()
        kinds = [place.desk.kind for place in self._places if place.desk.next(view, now, wall) is not None]
        return tuple(dict.fromkeys(kinds))

    def on_state(self, state: State) -> None:
        """The configuration of the node has another state."""
        self._state = state
        self.poke()

    def on_slo(self, slo: SloState) -> None:
        """So has its NodeSLO."""
        self._slo = slo
        self.poke()

    def poke(self) -> None:
        """The Node changed."""
        self._wake.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            self._wake.clear()
            moments = [moment for place in self._places if (moment := await self._attend(place)) is not None]
            await self._pause(self._wake, max(min(moments) - self._now(), _LEAST_PAUSE) if moments else None)

    def _view(self) -> View | None:
        node = self._seen()
        return View(node, report_of(self._state, self._slo), self._slo) if node is not None else None

    async def _attend(self, place: _Place) -> float | None:
        """Write what is to be written; when to come back if that is not possible now."""
        if (view := self._view()) is None:
            return None
        now = self._now()
        write = place.desk.next(view, now, self._wall())
        if write is None:
            return None
        if (ready := max(place.not_before, place.desk.ready_at(now))) > now:
            return ready
        kind = place.desk.kind
        try:
            await self._write(write)
        except (ApiError, UnreachableError) as error:
            return self._failed(place, str(error), error.retry_after if isinstance(error, ApiError) else None)
        except Exception as error:  # a mistake of ours must not end the loop
            return self._failed(place, f"{type(error).__name__}: {error}", None)
        self._written[kind, "written"] += 1
        self.problems.pop(kind, None)
        place.backoff.reset()
        place.not_before = self._now() + (0.0 if write.patch is None else _SPACING)
        place.desk.done(view, write, self._now())
        return None

    def _failed(self, place: _Place, problem: str, asked: float | None) -> float:
        kind = place.desk.kind
        self._written[kind, "failed"] += 1
        self.problems[kind] = problem
        place.not_before = self._now() + place.backoff.next(asked)
        self._limited.log(logging.WARNING, "Report could not be written", key=kind, kind=kind, err=problem)
        return place.not_before

    async def _write(self, write: Write) -> None:
        if write.patch is None:
            await self._api.create(EVENTS, write.body, namespace=EVENT_NAMESPACE)
            return
        await self._api.patch(NODES, self._node, write.body, kind=write.patch, subresource=write.subresource)
