"""Records what happens with pods while it happens: hears of steps, and writes their events into the folders of pods.

Steps are told by code that must not wait, so events are written by a task beside it; `flush` waits until all that was
heard is written. What cannot be written is told to the log: events are for people, nothing depends on them.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from interpose.log import RateLimited
from interpose.node.pods.clock import Clocks
from interpose.node.pods.events.events import PodEvent, event_of, make_scheduled_event
from interpose.node.pods.events.file import append_events, begin_events
from interpose.node.pods.spec import PodSpec
from interpose.node.pods.sync.result import ProgressEvent, ProgressListener
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_MOST_PENDING: Final = 1000  # events, while a disk does not take them


class EventRecorder:
    """The events of all pods. `folder` is where those of a uid are."""

    def __init__(self, folder: Callable[[str], str], clocks: Clocks) -> None:
        self._folder = folder
        self._clocks = clocks
        self._pending: dict[str, list[PodEvent]] = {}
        self._writer: asyncio.Task[None] | None = None
        self._tasks = TaskBag()
        self._remarks = RateLimited(_log, clock=clocks.elapsed)

    def recorded(self, uid: str, progress: ProgressListener) -> ProgressListener:
        """Who is told of steps of one pod, such that they are recorded, too."""
        return _Recorded(self, uid, progress)

    def record(self, uid: str, news: ProgressEvent) -> None:
        """Something happened with a pod."""
        event = event_of(news, self._clocks.now())
        if event is None or sum(map(len, self._pending.values())) >= _MOST_PENDING:
            return
        self._pending.setdefault(uid, []).append(event)
        if self._writer is None or self._writer.done():
            self._writer = self._tasks.spawn(self._write(), name="events of pods")

    async def begin(self, pod: PodSpec, node: str) -> None:
        """A pod is wanted; the caller has its lock."""
        first = make_scheduled_event(node, pod.source, self._clocks.now())
        await self._guarded(pod.uid, begin_events, first)

    async def flush(self) -> None:
        """Wait until all that was heard is written, or could not be."""
        while self._writer is not None and not self._writer.done():
            await asyncio.wait((self._writer,))

    async def _write(self) -> None:
        while self._pending:
            uid = next(iter(self._pending))
            await self._guarded(uid, append_events, self._pending.pop(uid))

    async def _guarded(self, uid: str, write: Callable[..., None], what: object) -> None:
        try:
            await asyncio.to_thread(write, self._folder(uid), what)
        except (OSError, ValueError) as error:
            self._remarks.log(logging.WARNING, "Cannot write pod events", key="events", uid=uid, err=str(error))


class _Recorded:
    def __init__(self, recorder: EventRecorder, uid: str, progress: ProgressListener) -> None:
        self._recorder = recorder
        self._uid = uid
        self._progress = progress

    def on_progress(self, news: ProgressEvent) -> None:
        """Told on, and recorded."""
        self._progress.on_progress(news)
        self._recorder.record(self._uid, news)
