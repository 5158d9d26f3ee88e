"""Where the frames of the live view come from: a thread that reads a source, redacts, and comes back when it is gone.

What waits for the screen is bounded. A source that is faster is held up; a relay then drops frames and says how many.
Nothing behind the feed ever sees a frame that was not redacted.
"""

import logging
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Final, Protocol, TypeAlias

from interpose.dump.live.feed_events import Connected, Ended, FeedEvent, Frames, Lost
from interpose.dump.model.frames import Frame

_log = logging.getLogger(__name__)

WAITING_BATCHES: Final = 32
# Seconds until a source that is gone is tried again: soon after a restart, not too often while it is down.
DELAYS: Final = (0.5, 1.0, 2.0, 5.0)
_LOOK: Final = 0.2  # seconds between two looks whether to stop while the screen is behind


class SourceLostError(Exception):
    """The source is gone; it may come back."""


# Takes a batch of frames; blocks while the screen is behind.
Deliver: TypeAlias = Callable[[Sequence[Frame]], None]


class FeedSource(Protocol):
    """A source of frames in batches, read by a thread."""

    @property
    def name(self) -> str:
        """The name of the source in the status line."""

    @property
    def returns(self) -> bool:
        """Whether it is tried again after its end."""

    def read(self, deliver: Deliver, stop: Callable[[], bool]) -> None:
        """Hand on what comes, blocking meanwhile, until there is no more or `stop` says so. Raises SourceLostError."""

    def interrupt(self) -> None:
        """End `read` if it blocks; called from another thread."""


Refine: TypeAlias = Callable[[Frame], Frame]


class Feed:
    """Reads a source in a thread of its own. `news` never blocks."""

    def __init__(self, source: FeedSource, refine: Callable[[], Refine], *, delays: Sequence[float] = DELAYS) -> None:
        self.source = source
        self._refine = refine
        self._delays = delays
        self._queue: queue.Queue[FeedEvent] = queue.Queue(WAITING_BATCHES)
        self._stopped = threading.Event()
        # A source that cannot be interrupted must not keep the program alive.
        self._thread = threading.Thread(target=self._run, name=f"feed {source.name}", daemon=True)

    def start(self) -> None:
        """Start the thread that reads the source."""
        self._thread.start()

    def stop(self, within: float = 1.0) -> None:
        """Stop the thread and wait up to `within` seconds for it."""
        self._stopped.set()
        self.source.interrupt()
        if self._thread.is_alive():
            self._thread.join(within)

    def events(self) -> Iterator[FeedEvent]:
        """What has come, until there is no more for now."""
        while True:
            try:
                yield self._queue.get_nowait()
            except queue.Empty:
                return

    def _run(self) -> None:
        failures = 0
        while not self._stopped.is_set():
            heard, why = self._read()
            if self._stopped.is_set():
                return
            if not self.source.returns:
                self._put(Ended() if not why else Lost(why, None))
                return
            failures = 0 if heard else failures + 1
            delay = self._delays[min(failures, len(self._delays) - 1)]
            self._put(Lost(why, delay))
            self._stopped.wait(delay)

    def _read(self) -> tuple[bool, str]:
        """Read until the end; whether something came, and why it ended."""
        refine = self._refine()
        heard = False

        def deliver(batch: Sequence[Frame]) -> None:
            nonlocal heard
            if not heard:
                heard = True
                self._put(Connected())
            self._put(Frames([refine(frame) for frame in batch]))

        try:
            self.source.read(deliver, self._stopped.is_set)
        except SourceLostError as lost:
            return heard, str(lost)
        except Exception as error:
            # A bug must not look like a relay that is quiet.
            _log.exception("The source of frames failed", extra={"kv": {"source": self.source.name}})
            return heard, f"{type(error).__name__}: {error}"
        return heard, "it closed the connection" if self.source.returns else ""

    def _put(self, event: FeedEvent) -> None:
        while not self._stopped.is_set():
            try:
                self._queue.put(event, timeout=_LOOK)
            except queue.Full:
                continue
            return
