"""The three seams of the relay, all subscribed per method.

An Interceptor handles a unary call before the runtime does: it may change the request, refuse it, and change the reply.
A StreamEditor may change the replies of a stream, one by one as they pass. A Tap observes: it gets copies of whole
messages and can neither delay nor change anything.

Pure: what a call is and what may be done with it. `chain` runs the interceptors; `intercepted`, `stream_editor` and
`taps` move the bytes.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from enum import IntEnum, StrEnum
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from interpose.cri.errors import OpaqueMessageError, UnreadableMessageError
from interpose.cri.methods import Method

CLIENT = "client"
_NO_CLAIMS: Mapping[str, str] = MappingProxyType({})


class Parser(Protocol):
    """Turns bytes into a message and back. Messages keep unknown fields."""

    def parse(self, data: bytes) -> Any:
        """The message. Raises UnreadableMessageError."""

    def serialize(self, message: Any) -> bytes:
        """Its bytes, the same for the same content."""


class Body:
    """One message, parsed on first access.

    A message without changes is sent as the bytes that came: after parsing, a message counts as changed only if it now
    serializes to something else than right after parsing.
    """

    __slots__ = ("_message", "_parser", "_raw", "_snapshot", "_understood", "_unreadable", "received")

    def __init__(self, raw: bytes, parser: Parser, *, unreadable: str = "", understood: bool = False) -> None:
        self.received = raw  # as it came, whatever was done to it since
        self._raw = raw
        self._parser = parser
        self._unreadable = unreadable  # why no interceptor can read it
        self._understood = understood  # the runtime can, although interceptors cannot
        self._message: Any = None
        self._snapshot = b""

    @property
    def message(self) -> Any:
        """The parsed message, to be edited in place. Raises UnreadableMessageError."""
        if self._message is None:
            self._check()
            self._message = self._parser.parse(self._raw)
            snapshot = self._parser.serialize(self._message)
            self._snapshot = self._raw if snapshot == self._raw else snapshot  # a large one only once
        return self._message

    @property
    def readable(self) -> bool:
        """Whether the plain bytes are known; not so behind an unknown encoding."""
        return not self._unreadable

    @property
    def untouched(self) -> bool:
        """Whether the message was never parsed, so that it is as it came."""
        return self._message is None and self._raw is self.received

    def original(self) -> Any:
        """A parsed copy of the message as it came, before any change. Raises UnreadableMessageError."""
        self._check()
        return self._parser.parse(self.received)

    def data(self) -> bytes:
        """The bytes of the message as it is now."""
        if self._message is None:
            return self._raw
        now = self._parser.serialize(self._message)
        return self._raw if now == self._snapshot else now

    def restore(self, raw: bytes) -> None:
        """Drop all changes; the message has these bytes again."""
        self._raw = raw
        self._message = None

    def _check(self) -> None:
        if self._unreadable:
            raise (OpaqueMessageError if self._understood else UnreadableMessageError)(self._unreadable)


class Call:
    """A call on its way to the runtime."""

    __slots__ = (
        "_afterwards",
        "_metadata",
        "alone",
        "body",
        "changed_by",
        "claims",
        "deadline",
        "method",
        "origin",
        "path",
        "peer",
    )

    def __init__(
        self,
        *,
        method: Method,
        path: bytes,
        body: Body,
        metadata: Callable[[], Sequence[tuple[bytes, bytes]]] = tuple,
        peer: Any = None,
        deadline: float | None = None,
        origin: str = CLIENT,
        afterwards: list[Callable[[], None]] | None = None,
        watched: bool = False,
        alone: bool = False,
    ) -> None:
        self.method = method
        self.path = path
        self.body = body
        self._metadata = metadata
        self.peer = peer
        self.deadline = deadline  # on the loop's clock; None: the caller waits for ever
        self.origin = origin  # CLIENT, or the name of the part of the relay that made the call
        self._afterwards = afterwards
        self.alone = alone  # of a pod that ends or goes: unlike in CRI, the containers in it live on
        self.claims: Mapping[str, str] = _NO_CLAIMS  # fields of the resources that were changed on the way, and by whom
        self.changed_by: list[str] | None = (
            [] if watched else None
        )  # set for calls with taps only, it costs comparisons

    @property
    def metadata(self) -> Sequence[tuple[bytes, bytes]]:
        """All fields of the request but the pseudo-header ones."""
        return self._metadata()

    def afterwards(self, act: Callable[[], None]) -> None:
        """Run `act` when the reply has been written, before anything else is read. It must not raise."""
        if self._afterwards is None:
            act()
        else:
            self._afterwards.append(act)

    def credit(self, names: Iterable[str]) -> None:
        """Name those who changed the call, if it was not the interceptor itself but, for example, a hook server."""
        if self.changed_by is not None:
            self.changed_by.extend(name for name in dict.fromkeys(names) if name not in self.changed_by)

    @property
    def request(self) -> Any:
        """The parsed request, to be edited in place."""
        return self.body.message


class Reply:
    """The reply of a call. `code` 0 is OK; only then is there a message."""

    __slots__ = ("body", "code", "message", "raw")

    def __init__(self, *, code: int, message: str = "", body: Body | None = None, raw: Any = None) -> None:
        self.code = code
        self.message = message
        self.body = body
        self.raw = raw  # the backend's own reply, sent on untouched unless the body was changed

    @property
    def response(self) -> Any:
        """The parsed response, to be edited in place."""
        if self.body is None:
            raise UnreadableMessageError("the call failed: there is no response message")
        return self.body.message


def refusal(code: int, message: str) -> Reply:
    """A reply of an interceptor that does not let the call pass. A value, not an exception: it is a decision."""
    return Reply(code=code, message=message)


Proceed: TypeAlias = Callable[[], Awaitable[Reply]]


class Interceptor(Protocol):
    """Handles the unary calls of the CRI methods it names: it may change the request, refuse it, or change the reply.

    The relay calls `intercept` once for each call, on the event loop, in the order in which interceptors were given to
    `Relay.subscribe`. Calls of our own parts enter the chain below the part that makes them. The caller's cancellation
    cancels the coroutine. An exception never fails a call: before `proceed` the call goes on with the bytes it entered
    with, after it the reply of `proceed` is sent; it is logged once and counted in
    `interpose_interceptor_errors_total`.

    An interceptor that gives every container 100 CPU shares::

        class FixedShares:
            name = "fixed-shares"
            methods = ("CreateContainer",)

            async def intercept(self, call: Call, proceed: Proceed) -> Reply:
                call.request.config.linux.resources.cpu_shares = 100
                return await proceed()
    """

    @property
    def name(self) -> str: ...

    @property
    def methods(self) -> Collection[str]:
        """Names of unary CRI methods. May change at run time, followed by `Relay.refresh`."""

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Return the reply of `await proceed()`, which may be called at most once, or a reply of its own.

        `call.request` and `reply.response` are parsed messages to be edited in place; reading them raises
        UnreadableMessageError. `refusal` makes the reply that rejects a call.

        One that never raises after it has begun to edit may say so with an attribute `tidy = True`; the bytes the call
        entered with are then not kept for it.
        """


class StreamEditor(Protocol):
    """Changes the replies of the server-streaming CRI methods it names, one message at a time.

    The relay calls `edit` in the frame loop, while other calls wait: no blocking work. Editors run in the order in
    which they were given to `Relay.subscribe`, each on the result of the one before. An exception, or a result that is
    not bytes, forwards the message as it was; it is logged once and counted in
    `interpose_stream_editor_errors_total`.

    An editor that removes the labels from container events::

        class WithoutLabels:
            name = "without-labels"
            methods = ("GetContainerEvents",)

            def edit(self, method: Method, message: bytes) -> bytes:
                event = cri_pb2.ContainerEventResponse.FromString(message)
                for status in event.containers_statuses:
                    status.labels.clear()
                return event.SerializeToString()
    """

    @property
    def name(self) -> str: ...

    @property
    def methods(self) -> Collection[str]:
        """Names of server-streaming CRI methods. May change at run time, followed by `Relay.refresh`.

        A change has effect on streams that begin later. For an endless stream, name its method from the start and
        return messages as they came while there is nothing to change.
        """

    def edit(self, method: Method, message: bytes) -> bytes:
        """Return the message to send to the client: `message` itself, or other bytes.

        `message` is one whole, uncompressed protobuf message of the method's response type.
        """


class Direction(StrEnum):
    """Which message a tap sees."""

    REQUEST = "request"  # as the caller sent it
    FORWARDED = "forwarded"  # as the runtime got it, if that differs
    RECEIVED = "received"  # as the runtime answered, if the caller gets something else
    REPLY = "reply"  # as the caller gets it


class Interest(IntEnum):
    """How much of a method's calls a tap sees. Less is cheaper."""

    NONE = 0
    CALLS = 1  # beginning and end of each call
    MESSAGES = 2  # and each message


class Sighting:
    """A call as taps see it: the same object from its beginning to its end."""

    __slots__ = ("_headers", "intercepted", "method", "number", "origin", "path", "peer")

    def __init__(
        self,
        number: int,
        path: bytes,
        method: Method | None,
        *,
        origin: str = CLIENT,
        peer: Any = None,
        headers: Any = None,
        intercepted: bool = False,
    ) -> None:
        self.number = number  # tells calls apart
        self.path = path
        self.method = method  # None: no CRI method that we know
        self.origin = origin
        self.peer = peer
        self.intercepted = intercepted
        self._headers = headers

    @property
    def metadata(self) -> Sequence[tuple[bytes, bytes]]:
        """All fields of the request but the pseudo-header ones."""
        if self._headers is None:
            return ()
        return [item for item in self._headers.items() if not item[0].startswith(b":")]


class Tap(Protocol):
    """Observes calls without changing or delaying them.

    The relay calls `on_begin`, then `on_message` or `on_unseen` for each message if the interest is MESSAGES, then
    `on_end`, all in the frame loop while other calls wait: a tap copies what it needs and returns. The same `Sighting`
    is passed from beginning to end; `Sighting.number` tells calls apart. Return values are ignored. An exception never
    reaches the call; it is logged once and counted in `interpose_tap_errors_total`.

    A tap that counts failed image pulls::

        class FailedPulls:
            name = "failed-pulls"

            def __init__(self) -> None:
                self.count = 0

            def interest(self, method: str) -> Interest:
                return Interest.CALLS if method == "PullImage" else Interest.NONE

            def on_begin(self, call: Sighting) -> None: ...

            def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None: ...

            def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None: ...

            def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
                self.count += code != 0
    """

    @property
    def name(self) -> str: ...

    def interest(self, method: str) -> Interest:
        """The interest in a CRI method; an empty name stands for all paths that are no CRI method. Read when the tap is
        added and at each `Relay.refresh`."""

    def on_begin(self, call: Sighting) -> None:
        """Called when a call begins, before its messages."""

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """One whole, uncompressed message of the call; `direction` says between whom it passed."""

    def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None:
        """Called in place of `on_message` for a message that cannot be copied: too large, or in an unknown encoding.

        `size` in bytes is as far as it is known, `why` is a text for people.
        """

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        """Called once at the end, with the gRPC status; `changed_by` names who changed the request or the reply."""


class Backend(Protocol):
    """A runtime or image service behind the relay. `on_up` is called whenever a connection to it is made (again)."""

    on_up: Callable[[], None] | None

    @property
    def path(self) -> str: ...

    @property
    def up(self) -> bool: ...

    @property
    def connections(self) -> int: ...

    @property
    def dials(self) -> int: ...

    @property
    def failures(self) -> int: ...

    @property
    def last_error(self) -> str: ...

    @property
    def state_age(self) -> float: ...

    def start(self) -> None: ...

    def tick(self) -> None: ...

    async def close(self) -> None: ...
