"""From frames to events of calls, with whom they are about. One per live view; begins anew with each connection."""

from collections.abc import Mapping, Sequence
from typing import Any

from interpose.dump.model.call import Assembler, Event
from interpose.dump.model.frames import Frame
from interpose.dump.model.subject import Subjects


class Pipeline:
    """Redacted frames in, events out. What is known about pods survives a connection, calls in flight do not."""

    def __init__(self) -> None:
        self._subjects = Subjects()
        self.restart()
        self.facts: Mapping[str, Any] = {}  # of the newest header

    def restart(self) -> None:
        """The frames that come are those of another connection."""
        self._assembler = Assembler(self._subjects.identify, self._subjects.learn)

    def context(self) -> dict[str, Any]:
        """What is known about pods and containers, for a recording that begins now."""
        return self._subjects.context()

    def feed(self, frames: Sequence[Frame]) -> list[Event]:
        """What these frames did."""
        events = self._assembler.feed_all(frames)
        if self._assembler.header is not None:
            self.facts = self._assembler.header.facts
        return events
