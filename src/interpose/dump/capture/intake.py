"""What comes out of a relay, made fit to be shown or kept: bytes of frames in, redacted frames and what they did out.

Nothing behind it ever sees what redaction hides. Used by the dump worker and by whoever is attached to a relay.
"""

from collections.abc import Callable

from interpose.dump.model.call import Assembler, CallEvent
from interpose.dump.model.frame_reader import FrameStream
from interpose.dump.model.frames import Frame, Header
from interpose.dump.model.subject import Subjects

# Enough to compare a request with what became of it. What a stream said earlier is written already.
KEPT_MESSAGES = 16


class Intake:
    """One stream of frames. `redact` takes away what must not be seen."""

    def __init__(self, redact: Callable[[Frame], Frame], *, kept_messages: int = KEPT_MESSAGES) -> None:
        self._redact = redact
        self.stream = FrameStream()
        self.subjects = Subjects()
        self.assembler = Assembler(self.subjects.identify, self.subjects.learn, kept_messages=kept_messages)

    @property
    def header(self) -> Header | None:
        """Where it comes from, once that is known."""
        return self.assembler.header

    def feed(self, data: bytes) -> list[CallEvent]:
        """The events that the frames in these bytes complete, redacted."""
        events: list[CallEvent] = []
        for placed in self.stream.feed_placed(data):
            frame = self._redact(placed.frame)
            events.append(self.assembler.feed(frame, placed.wire if frame is placed.frame else b""))
        return events
