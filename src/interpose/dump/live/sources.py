"""The two sources of the live view: a running relay, and a recording, which may still grow."""

import contextlib
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from interpose.dump.live.feed import Deliver, SourceLostError
from interpose.dump.model.frame_reader import FrameStream
from interpose.dump.model.frames import Frame
from interpose.dump.recording.reader import follow
from interpose.errors import ConfigError

BATCH: Final = 500  # frames of a recording that are handed on at once


class RelaySource:
    """Frames of a relay. `attach` gives chunks of frames and raises SourceLostError if there is no relay."""

    returns: Final = True

    def __init__(self, name: str, attach: Callable[[], Iterable[bytes]]) -> None:
        self.name = name
        self._attach = attach
        self._open: Iterable[bytes] | None = None

    def read(self, deliver: Deliver, stop: Callable[[], bool]) -> None:
        """The frames of one connection."""
        stream = FrameStream()
        self._open = self._attach()
        for chunk in self._open:
            if stop():
                return
            if frames := stream.feed(chunk):
                deliver(frames)

    def interrupt(self) -> None:
        """End the connection, if its owner lets us from here."""
        close = getattr(self._open, "close", None)
        if close is not None:
            # A generator that waits in another thread cannot be closed: its thread ends with the program.
            with contextlib.suppress(ValueError):
                close()


class RecordingSource:
    """A recording from its beginning, and then what is added to it."""

    returns: Final = False

    def __init__(self, path: Path, *, sleep: Callable[[float], object] = time.sleep) -> None:
        self.name = path.name
        self._path = path
        self._sleep = sleep

    def read(self, deliver: Deliver, stop: Callable[[], bool]) -> None:
        """The frames of the file, until `stop`."""
        batch: list[Frame] = []

        def hand_on() -> None:
            nonlocal batch
            if batch:
                deliver(batch)
            batch = []

        def wait(seconds: float) -> None:
            hand_on()  # there is no more for now
            self._sleep(seconds)

        try:
            for frame in follow(self._path, stop, beginning=True, wait=wait):
                batch.append(frame)
                if len(batch) >= BATCH:
                    hand_on()
        except (ConfigError, OSError) as error:
            hand_on()
            raise SourceLostError(str(error)) from None
        hand_on()

    def interrupt(self) -> None:
        """Does nothing: reads of files do not block for long."""
