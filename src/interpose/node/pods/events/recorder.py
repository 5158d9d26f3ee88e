"""Records the events of pods: listens to progress events, and writes pod events into the folders of pods.

Progress is reported by code that must not wait, so events are written by a task beside it; `flush` waits until all
events are written. An event that cannot be written is logged: events are for people, nothing depends on them.
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
    """Records the events of all pods. `folder` gives the folder of a pod by its uid."""

    def __init__(self, folder: Callable[[str], str], clocks: Clocks) -> None:
        self._folder = folder
        self._clocks = clocks
        self._pending: dict[str, list[PodEvent]] = {}
        self._writer: asyncio.Task[None] | None = None
        self._tasks = TaskBag()
        self._limited_log = RateLimited(_log, clock=clocks.elapsed)

    def recording(self, uid: str, progress: ProgressListener) -> ProgressListener:
        """A listener for one pod that records the events and passes them on."""
        return _RecordingListener(self, uid, progress)

    def record(self, uid: str, progress: ProgressEvent) -> None:
        """Record the pod event for a progress event, if there is one. Does not wait for the disk."""
        event = event_of(progress, self._clocks.now())
        if event is None or sum(map(len, self._pending.values())) >= _MOST_PENDING:
            return
        self._pending.setdefault(uid, []).append(event)
        if self._writer is None or self._writer.done():
            self._writer = self._tasks.spawn(self._write(), name="events of pods")

    async def begin(self, pod: PodSpec, node: str) -> None:
        """Begin the events of a pod. The caller holds the lock of the pod."""
        first = make_scheduled_event(node, pod.source, self._clocks.now())
        await self._write_logged(pod.uid, begin_events, first)

    async def flush(self) -> None:
        """Wait until all events are written, or could not be."""
        while self._writer is not None and not self._writer.done():
            await asyncio.wait((self._writer,))

    async def _write(self) -> None:
        while self._pending:
            uid = next(iter(self._pending))
            await self._write_logged(uid, append_events, self._pending.pop(uid))

    async def _write_logged(self, uid: str, write: Callable[..., None], content: object) -> None:
        try:
            await asyncio.to_thread(write, self._folder(uid), content)
        except (OSError, ValueError) as error:
            self._limited_log.log(logging.WARNING, "Cannot write pod events", key="events", uid=uid, err=str(error))


class _RecordingListener:
    def __init__(self, recorder: EventRecorder, uid: str, progress: ProgressListener) -> None:
        self._recorder = recorder
        self._uid = uid
        self._progress = progress

    def on_progress(self, event: ProgressEvent) -> None:
        self._progress.on_progress(event)
        self._recorder.record(self._uid, event)
