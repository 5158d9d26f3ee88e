"""A call as it was seen, put together from its frames.

Pure. `Assembler` takes frames one by one and says what each did; what it holds is bounded: calls that are over are let
go of, and a stream keeps its newest messages only.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from interpose.dump.frames import Begin, Context, Dropped, End, Flags, Frame, Header, Message, Side
from interpose.relay.methods import METHODS, Method

# Messages of one call that are kept in memory: an endless stream is looked at through its end.
KEPT_MESSAGES: Final = 1000
# Calls in flight that are kept: more than the relay lets in by default.
KEPT_CALLS: Final = 10_000
# In the facts of a header: the same in all files of one relay process, and in no other's.
SESSION: Final = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """Whom a call is about, as far as it is known. Empty: not known, or not about one."""

    namespace: str = ""
    pod: str = ""
    pod_uid: str = ""
    pod_id: str = ""
    container: str = ""
    container_id: str = ""
    image: str = ""

    def __bool__(self) -> bool:
        return bool(self.pod or self.pod_id or self.container or self.container_id or self.image)

    def __str__(self) -> str:
        """`namespace/pod:container`, with ids where names are not known."""
        pod = "/".join(part for part in (self.namespace, self.pod) if part) or self.pod_id[:13]
        container = self.container or self.container_id[:13]
        return ":".join(part for part in (pod, container) if part) or self.image


NOBODY: Final = Subject()


@dataclass(slots=True, kw_only=True)
class Flow:
    """One call with its messages."""

    number: int
    time: int  # nanoseconds since the epoch
    path: str
    origin: str
    pid: int
    uid: int
    flags: Flags
    metadata: tuple[tuple[str, str], ...]
    messages: list[Message] = field(default_factory=list)
    forgotten: int = 0  # messages that were let go of
    end: End | None = None
    subject: Subject = NOBODY

    @property
    def name(self) -> str:
        """The method, without its service."""
        return self.path.rpartition("/")[2]

    @property
    def service(self) -> str:
        """`runtime.v1.RuntimeService`."""
        return self.path.strip("/").rpartition("/")[0]

    @property
    def method(self) -> Method | None:
        """The row of the table; None if it is no CRI method that we know."""
        method = METHODS.get(self.name)
        return method if method is not None and self.path in method.paths else None

    @property
    def intercepted(self) -> bool:
        """Whether somebody could change it."""
        return bool(self.flags & Flags.INTERCEPTED)

    @property
    def originated(self) -> bool:
        """Whether a part of the relay made the call."""
        return self.origin != "client"

    @property
    def changed(self) -> bool:
        """Whether request or reply was changed on the way."""
        return bool(self.end and self.end.changed_by) or any(
            one.side in (Side.FORWARDED, Side.RECEIVED) for one in self.messages
        )

    @property
    def failed(self) -> bool:
        """Whether it ended with anything but OK."""
        return self.end is not None and self.end.code != 0

    @property
    def duration(self) -> int | None:
        """Nanoseconds; None while it is in flight."""
        return None if self.end is None else self.end.elapsed

    def of(self, *sides: Side) -> list[Message]:
        """Its messages of these sides."""
        return [one for one in self.messages if one.side in sides]


class What(StrEnum):
    """What a frame did."""

    BEGIN = "begin"
    MESSAGE = "message"
    END = "end"
    DROPPED = "dropped"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Event:
    """What a frame did, to which call, and the frame."""

    what: What
    flow: Flow | None
    frame: Frame


# Looks at a call that has a new message and says whom it is about; told of every context, too.
Identify = Callable[[Flow, Message], Subject]


class Assembler:
    """Frames in, events out. A message or end of a call that began before we looked gives no event of a call."""

    def __init__(self, identify: Identify | None = None, *, kept_messages: int = KEPT_MESSAGES) -> None:
        self._identify = identify
        self._kept_messages = kept_messages
        self.header: Header | None = None
        self.context: Context | None = None
        self.dropped = 0  # frames
        self.open: dict[int, Flow] = {}

    def feed(self, frame: Frame) -> Event:
        """One frame."""
        if isinstance(frame, Message):
            return self._message(frame)
        if isinstance(frame, Begin):
            return self._begin(frame)
        if isinstance(frame, End):
            flow = self.open.pop(frame.number, None)
            if flow is None:
                return Event(What.OTHER, None, frame)
            flow.end = frame
            return Event(What.END, flow, frame)
        if isinstance(frame, Dropped):
            self.dropped += frame.frames
            return Event(What.DROPPED, None, frame)
        if isinstance(frame, Header):
            if self.header is not None and self.header.facts.get(SESSION) != frame.facts.get(SESSION):
                self.open.clear()  # numbers of another process mean other calls
            self.header = frame
        elif isinstance(frame, Context):
            self.context = frame
        return Event(What.OTHER, None, frame)

    def feed_all(self, frames: Sequence[Frame]) -> list[Event]:
        """Several frames."""
        return [self.feed(one) for one in frames]

    def _begin(self, frame: Begin) -> Event:
        if frame.flags & Flags.CONTINUED and frame.number in self.open:
            return Event(What.OTHER, self.open[frame.number], frame)  # files of one recording read one after the other
        if len(self.open) >= KEPT_CALLS:
            self.open.pop(next(iter(self.open)))
        flow = self.open[frame.number] = Flow(
            number=frame.number,
            time=frame.time,
            path=frame.path,
            origin=frame.origin,
            pid=frame.pid,
            uid=frame.uid,
            flags=frame.flags,
            metadata=frame.metadata,
        )
        return Event(What.BEGIN, flow, frame)

    def _message(self, frame: Message) -> Event:
        flow = self.open.get(frame.number)
        if flow is None:
            return Event(What.OTHER, None, frame)
        flow.messages.append(frame)
        if len(flow.messages) > self._kept_messages:
            # The request stays: it says what the stream is.
            del flow.messages[1]
            flow.forgotten += 1
        if self._identify is not None:
            flow.subject = self._identify(flow, frame)
        return Event(What.MESSAGE, flow, frame)
