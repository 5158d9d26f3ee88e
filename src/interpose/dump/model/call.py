"""A call as it was seen, put together from its frames.

Pure. `Assembler` takes frames one by one and says what each did; what it holds is bounded: calls that are over are let
go of, a stream keeps its newest messages only, and of all calls in flight the bodies have to fit into a budget.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final, NamedTuple

from interpose.cri.methods import METHODS, Method
from interpose.dump.model.docker_calls import SERVICE, HttpCall, http_call, method_name, short_name
from interpose.dump.model.frames import (
    NO_FLAGS,
    Begin,
    Context,
    Dropped,
    End,
    Flags,
    Frame,
    Header,
    Message,
    MessageSide,
    Metadata,
    Packing,
    is_continued,
)

# Messages of one call that are kept in memory: an endless stream is looked at through its end.
KEPT_MESSAGES: Final = 1000
# Calls in flight that are kept: more than the relay lets in by default.
KEPT_CALLS: Final = 10_000
# Bytes of bodies of all calls in flight. With more, those of the oldest are let go of; so are most of the messages of a
# stream then, for they cost memory without a body, too.
KEPT_BYTES: Final = 64 << 20
BODY_DROPPED: Final = b"too much was in flight to keep it"
_KEPT_WITHOUT_BODY: Final = 16
# More than CRI has; those of Docker's API have names in them, so there may be any number.
_KNOWN_PATHS: Final = 512
_MESSAGE_BYTES: Final = 256  # that one takes besides its body
# In the facts of a context: whom the calls are about that were in flight then, by number.
CALLS: Final = "calls"
# In the facts of a header: the same in all files of one relay process, and in no other's.
SESSION: Final = "session"
# The same: which of the files of one writer, from 1.
PART: Final = "part"


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


NO_SUBJECT: Final = Subject()
_SUBJECT_TEXTS: Final = len(fields(Subject))
_LONGEST_NUMBER: Final = 20  # digits


def subjects_to_facts(subjects: Mapping[int, Subject]) -> dict[str, list[str]]:
    """Subjects of calls by number, for the facts of a context."""
    return {str(number): list(astuple(subject)) for number, subject in subjects.items() if subject}


def subjects_from_facts(facts: Mapping[str, Any]) -> dict[int, Subject]:
    """The subjects of calls in the facts of a context, as `subjects_to_facts` wrote them; bad rows are skipped."""
    told = facts.get(CALLS)
    rows = told.items() if isinstance(told, Mapping) else ()
    return {
        int(number): Subject(**dict(zip((field.name for field in fields(Subject)), row, strict=True)))
        for number, row in rows
        if number.isdecimal()
        and len(number) <= _LONGEST_NUMBER
        and isinstance(row, list)
        and len(row) == _SUBJECT_TEXTS
        if all(isinstance(text, str) for text in row)
    }


def part_of(header: Header) -> int:
    """Which file of its writer a header is of; 0 if it does not say."""
    part = header.facts.get(PART)
    return part if isinstance(part, int) else 0


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
    metadata: Metadata
    messages: list[Message] = field(default_factory=list)
    forgotten: int = 0  # messages that were let go of
    forgotten_replies: int = 0  # of them, those that the caller got
    forgotten_size: int = 0  # and their bytes
    end: End | None = None
    lost: bool = False  # its end is not in the recording and will not come
    subject: Subject = NO_SUBJECT

    @property
    def name(self) -> str:
        """The method, without its service; of an HTTP call its method and path."""
        return _call_names(self.path).name

    @property
    def method_name(self) -> str:
        """The name that calls of the same kind share: without the names of things that HTTP has in its paths."""
        return _call_names(self.path).method_name

    @property
    def service(self) -> str:
        """The service of the method: `runtime.v1.RuntimeService`."""
        return self.path.strip("/").rpartition("/")[0] if self.http is None else SERVICE

    @property
    def http(self) -> HttpCall | None:
        """The call of Docker's API that this is; None if it is one of gRPC."""
        return _call_names(self.path).http

    @property
    def method(self) -> Method | None:
        """The row of the table; None if it is not a CRI method that we know."""
        return _call_names(self.path).method

    @property
    def intercepted(self) -> bool:
        """Whether somebody could change it."""
        return self.flags is not NO_FLAGS and bool(self.flags & Flags.INTERCEPTED)

    @property
    def continued(self) -> bool:
        """Whether it began before what was seen."""
        return is_continued(self.flags)

    @property
    def originated(self) -> bool:
        """Whether a part of the relay made the call."""
        return self.origin != "client"

    @property
    def changed(self) -> bool:
        """Whether request or reply was changed on the way."""
        return bool(self.end and self.end.changed_by) or any(
            message.side in (MessageSide.FORWARDED, MessageSide.RECEIVED) for message in self.messages
        )

    @property
    def failed(self) -> bool:
        """Whether it ended with anything but OK."""
        return self.end is not None and self.end.code != 0

    @property
    def duration(self) -> int | None:
        """Nanoseconds; None while it is in flight."""
        return None if self.end is None else self.end.elapsed

    @property
    def message_bytes(self) -> int:
        """Bytes of the messages between caller and relay, also of those whose bodies were dropped."""
        return (
            sum(message.size for message in self.messages_of(MessageSide.REQUEST, MessageSide.REPLY))
            + self.forgotten_size
        )

    def messages_of(self, *sides: MessageSide) -> list[Message]:
        """Its messages of these sides."""
        return [message for message in self.messages if message.side in sides]


class _CallNames(NamedTuple):
    """What the path of a call says."""

    name: str
    method_name: str
    method: Method | None
    http: HttpCall | None


@lru_cache(maxsize=_KNOWN_PATHS)
def _call_names(path: str) -> _CallNames:
    call = http_call(path)
    if call is not None:
        return _CallNames(short_name(call), method_name(call), None, call)
    name = path.rpartition("/")[2]
    method = METHODS.get(name)
    return _CallNames(name, name, method if method is not None and path in method.paths else None, None)


def begin_frame(flow: Flow) -> Begin:
    """The frame that a call began with."""
    return Begin(
        number=flow.number,
        time=flow.time,
        path=flow.path,
        origin=flow.origin,
        pid=flow.pid,
        uid=flow.uid,
        flags=flow.flags,
        metadata=flow.metadata,
    )


class CallEventKind(StrEnum):
    """What a frame did to a call."""

    BEGIN = "begin"
    MESSAGE = "message"
    END = "end"
    DROPPED = "dropped"
    OTHER = "other"


class CallEvent(NamedTuple):
    """What a frame did, to which call, and the frame. `wire` are its bytes, if they are at hand and hold nothing that
    the frame does not."""

    kind: CallEventKind
    flow: Flow | None
    frame: Frame
    wire: bytes = b""


# Looks at a call that has a new message and says whom it is about.
Identify = Callable[[Flow, Message], Subject]
# Is told what was known when a file began: the facts of a context.
Learn = Callable[[Mapping[str, Any]], object]
# A member of an enumeration takes longer to look up than all else that is done with it here.
_BEGIN: Final = CallEventKind.BEGIN
_MESSAGE: Final = CallEventKind.MESSAGE
_END: Final = CallEventKind.END
_OTHER: Final = CallEventKind.OTHER


class Assembler:
    """Frames in, events out. A message or end of a call that began before we looked gives no event of a call."""

    def __init__(
        self,
        identify: Identify | None = None,
        learn: Learn | None = None,
        *,
        kept_messages: int = KEPT_MESSAGES,
        kept_bytes: int = KEPT_BYTES,
    ) -> None:
        self._identify = identify
        self._learn = learn
        self._kept_messages = kept_messages
        self._kept_bytes = kept_bytes
        self._weights: dict[int, int] = {}  # bytes of the calls that have some, oldest first
        self._weight = 0  # of all of them
        self._context_subjects: dict[int, Subject] = {}  # by the context, of calls that began before
        self.header: Header | None = None
        self.context: Context | None = None
        self.dropped = 0  # frames
        self.open: dict[int, Flow] = {}

    def feed(self, frame: Frame, wire: bytes = b"") -> CallEvent:
        """Add a frame to its call and return what it did. `wire` are its bytes, for the event."""
        if isinstance(frame, Message):
            return self._message(frame, wire)
        if isinstance(frame, Begin):
            return self._begin(frame, wire)
        if isinstance(frame, End):
            flow = self._close(frame.number)
            if flow is None:
                return CallEvent(_OTHER, None, frame, wire)
            flow.end = frame
            return CallEvent(_END, flow, frame, wire)
        if isinstance(frame, Dropped):
            self.dropped += frame.frames
            return CallEvent(CallEventKind.DROPPED, None, frame)
        if isinstance(frame, Header):
            if self.header is not None and self.header.facts.get(SESSION) != frame.facts.get(SESSION):
                # Numbers of another process mean other calls.
                self.open.clear()
                self._weights.clear()
                self._context_subjects.clear()
                self._weight = 0
            self.header = frame
        elif isinstance(frame, Context):
            self.context = frame
            if self._learn is not None:
                self._learn(frame.facts)
            self._context_subjects = subjects_from_facts(frame.facts)
        return CallEvent(_OTHER, None, frame)

    def feed_all(self, frames: Sequence[Frame]) -> list[CallEvent]:
        return [self.feed(frame) for frame in frames]

    def _begin(self, frame: Begin, wire: bytes) -> CallEvent:
        continued = is_continued(frame.flags)
        if continued and frame.number in self.open:
            # Files of one recording read one after the other.
            return CallEvent(_OTHER, self.open[frame.number], frame, wire)
        if self._close(frame.number) is None and len(self.open) >= KEPT_CALLS:
            self._close(next(iter(self.open)))
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
        if continued:
            flow.subject = self._context_subjects.get(frame.number, NO_SUBJECT)
        return CallEvent(_BEGIN, flow, frame, wire)

    def lose(self, number: int) -> Flow | None:
        """Let go of a call whose end will not come."""
        flow = self._close(number)
        if flow is not None:
            flow.lost = True
        return flow

    def _close(self, number: int) -> Flow | None:
        """A call is let go of, if there is one."""
        flow = self.open.pop(number, None)
        self._weight -= self._weights.pop(number, 0)
        return flow

    def _message(self, frame: Message, wire: bytes) -> CallEvent:
        flow = self.open.get(frame.number)
        if flow is None:
            return CallEvent(_OTHER, None, frame, wire)
        flow.messages.append(frame)
        self._weigh(flow.number, _weight(frame))
        if len(flow.messages) > self._kept_messages:
            # The request stays: it says what the stream is.
            self._weigh(flow.number, -sum(map(_weight, _forget(flow, 1))))
        if self._weight > self._kept_bytes:
            self._lighten(flow)
        if self._identify is not None:
            flow.subject = self._identify(flow, frame)
        return CallEvent(_MESSAGE, flow, frame, wire)

    def _weigh(self, number: int, weight: int) -> None:
        self._weights[number] = self._weights.get(number, 0) + weight
        self._weight += weight

    def _lighten(self, newest: Flow) -> None:
        """Let go of bodies until the rest fits, those of the call that has a new message last, and not of that one."""
        last = newest.messages[-1]
        own = self._weights.pop(newest.number)
        while self._weights and self._weight > self._kept_bytes:
            number = next(iter(self._weights))
            self._weight -= self._weights.pop(number)
            _drop_bodies(self.open[number])
        if self._weight > self._kept_bytes:
            _drop_bodies(newest)
            newest.messages[-1] = last
            self._weight -= own
            own = _weight(last)
            self._weight += own
        self._weights[newest.number] = own


def _forget(flow: Flow, count: int) -> list[Message]:
    """The oldest messages behind the first, which are let go of."""
    oldest = flow.messages[1 : 1 + count]
    del flow.messages[1 : 1 + count]
    replies = [message.size for message in oldest if message.side is MessageSide.REPLY]
    flow.forgotten += len(oldest)
    flow.forgotten_replies += len(replies)
    flow.forgotten_size += sum(replies)
    return oldest


def _weight(message: Message) -> int:
    return 0 if message.body is BODY_DROPPED else len(message.body) + _MESSAGE_BYTES


def _drop_bodies(flow: Flow) -> None:
    """Take the bodies away; which messages there were stays known, of the first one and the newest."""
    surplus = len(flow.messages) - _KEPT_WITHOUT_BODY
    if surplus > 0:
        _forget(flow, surplus)
    flow.messages[:] = [message._replace(packing=Packing.ABSENT, body=BODY_DROPPED) for message in flow.messages]
