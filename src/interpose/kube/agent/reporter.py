"""Reports the state of the node's configuration to the cluster: events, condition, annotation, status of an object.

Only changes are written, the newest report wins, and the kinds are independent: one that is forbidden, fails or hangs
does not delay another. If the API server is away, the newest report is written when it is back.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, Protocol

from interpose.core.backoff import Backoff
from interpose.kube.agent.config_kinds import RESOURCES, ConfigSource
from interpose.kube.agent.node_document import SloState
from interpose.kube.agent.object_status import ObjectStatusSink
from interpose.kube.agent.push_state import PushState
from interpose.kube.agent.report import EVENT_NAMESPACE, NodeReport, report_of
from interpose.kube.agent.report_sinks import (
    ConfigSubject,
    EventBudget,
    EventReportSink,
    ReportInput,
    ReportSink,
    ReportWrite,
    SloSubject,
    annotation_sink,
    condition_sink,
)
from interpose.kube.client.api import EVENTS, NODES, ApiError, Object, PatchKind, Resource
from interpose.log import RateLimited
from interpose.net.http.errors import UnreachableError
from interpose.tasks import LEAST_PAUSE, Idle, TaskBag, idle

_log = logging.getLogger(__name__)

KINDS: Final = ("event", "condition", "annotation", "status")
# Between two writes of the same kind: a state that comes and goes is not worth more.
_SPACING: Final = 5.0
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 120.0


class Writes(Protocol):
    """The part of the API client that reports need."""

    async def create(self, resource: Resource, body: Object, *, namespace: str = "") -> Object:
        """Create an object, see `Api.create`."""

    async def patch(
        self, resource: Resource, name: str, patch: Any, *, kind: PatchKind, namespace: str = "", subresource: str = ""
    ) -> Object:
        """Change parts of an object, see `Api.patch`."""


class _SinkState:
    """A sink, and when it may be written to."""

    def __init__(self, sink: ReportSink, chance: Callable[[], float]) -> None:
        self.sink = sink
        self.wake = asyncio.Event()
        self.not_before = 0.0
        self.backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, random=chance)


class Reporter:
    """Writes reports. `observed_node` returns the watched Node; nothing is written before it is known.

    `observed_objects` returns the watched objects of policies that are there.
    """

    def __init__(
        self,
        api: Writes,
        *,
        node: str,
        observed_node: Callable[[], Object | None],
        observed_objects: Callable[[], Mapping[ConfigSource, Object]] = dict,
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
        self._observed_node = observed_node
        self._observed_objects = observed_objects
        self._now = now
        self._wall = wall
        self._pause = pause
        self._report: NodeReport | None = None
        self._slo = SloState()
        self._limited = RateLimited(_log, interval=600.0, clock=now)
        budget = EventBudget(now())
        # Events look first: they are left out if the Node shows already what they would tell.
        sinks: list[ReportSink] = []
        if "event" in kinds:
            sinks += [
                EventReportSink(ConfigSubject(), budget, unseen=not {"annotation", "condition"} & set(kinds)),
                EventReportSink(SloSubject(), budget, unseen="annotation" not in kinds),
            ]
        if "condition" in kinds:
            sinks.append(condition_sink())
        if "annotation" in kinds:
            sinks.append(annotation_sink())
        if "status" in kinds:
            sinks.append(ObjectStatusSink(node))
        self._sinks = [_SinkState(sink, chance) for sink in sinks]

    @property
    def pending(self) -> tuple[str, ...]:
        """The kinds whose present report is not written yet."""
        if (view := self._view()) is None:
            return ()
        now, wall = self._now(), self._wall()
        kinds = [state.sink.kind for state in self._sinks if state.sink.next(view, now, wall) is not None]
        return tuple(dict.fromkeys(kinds))

    def on_state(self, state: PushState) -> None:
        """Called when the state of the configuration changed."""
        self._report = report_of(state)
        self.poke()

    def on_slo(self, slo: SloState) -> None:
        """Called when the state of the NodeSLO changed."""
        self._slo = slo
        self.poke()

    def poke(self) -> None:
        """Wake all sinks: the Node or a report changed."""
        for state in self._sinks:
            state.wake.set()

    async def run(self) -> None:
        """Write reports until cancelled."""
        bag = TaskBag()
        try:
            for state in self._sinks:
                bag.spawn(self._run_sink(state), name=f"report by {state.sink.kind}")
            await asyncio.Event().wait()
        finally:
            await bag.cancel()

    async def _run_sink(self, state: _SinkState) -> None:
        while True:
            state.wake.clear()
            try:
                due = await self._serve_sink(state)
            except (ApiError, UnreachableError) as error:
                due = self._failed(state, str(error), error.retry_after if isinstance(error, ApiError) else None)
            except Exception as error:  # a mistake of ours must not end the loop
                due = self._failed(state, f"{type(error).__name__}: {error}", None)
            await self._pause(state.wake, None if due is None else max(due - self._now(), LEAST_PAUSE))

    def _view(self) -> ReportInput | None:
        node = self._observed_node()
        return ReportInput(node, self._report, self._slo, self._observed_objects()) if node is not None else None

    async def _serve_sink(self, state: _SinkState) -> float | None:
        """Write what is to be written; when to come back if nothing happens before."""
        if (view := self._view()) is None:
            return None
        now, sink = self._now(), state.sink
        sink.look(view)
        write = sink.next(view, now, self._wall())
        if write is None:
            return sink.again_at(view, now)
        if (ready := max(state.not_before, sink.ready_at(view, now))) > now:
            return ready
        self.results[sink.kind, "written"] += await self._write(write)
        self.problems.pop(sink.kind, None)
        state.backoff.reset()
        state.not_before = self._now() + (0.0 if write.event is not None and not write.repeated else _SPACING)
        sink.done(view, write, self._now())
        return self._now()  # something may have happened meanwhile

    def _failed(self, state: _SinkState, problem: str, retry_after: float | None) -> float:
        kind = state.sink.kind
        self.results[kind, "failed"] += 1
        self.problems[kind] = problem
        state.not_before = self._now() + state.backoff.next(retry_after)
        self._limited.log(logging.WARNING, "Failed to write report", key=kind, kind=kind, err=problem)
        return state.not_before

    async def _write(self, write: ReportWrite) -> bool:
        """False if the very same was there already."""
        if write.source is not None:
            return await self._patch_object(write.source, write)
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

    async def _patch_object(self, source: ConfigSource, write: ReportWrite) -> bool:
        """False if the object is gone, and with it what was to be changed."""
        try:
            await self._api.patch(
                RESOURCES[source.kind],
                source.name,
                write.body,
                kind=PatchKind.MERGE,
                namespace=source.namespace,
                subresource=write.subresource,
            )
        except ApiError as error:
            if error.code != 404:
                raise
            return False
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
