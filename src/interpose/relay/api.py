"""The three seams of the relay, all subscribed per method.

An Interceptor stands in the way of a unary call: it may change the request, refuse it, and change the reply. A
StreamEditor may change the replies of a stream, one by one as they pass. A Tap looks on: it gets copies of whole
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
    """Turns bytes into a message and back. Messages keep what they do not know."""

    def parse(self, data: bytes) -> Any:
        """A message, or Unreadable."""

    def serialize(self, message: Any) -> bytes:
        """Its bytes, the same for the same content."""


class Body:
    """One message, parsed when first asked for.

    What nobody changed is sent as the bytes that came: after parsing, a message counts as changed only if it now
    serializes to something else than right after parsing.
    """

    __slots__ = ("_message", "_parser", "_raw", "_snapshot", "_understood", "_unreadable", "received")

    def __init__(self, raw: bytes, parser: Parser, *, unreadable: str = "", understood: bool = False) -> None:
        self.received = raw  # as it came, whatever was done to it since
        self._raw = raw
        self._parser = parser
        self._unreadable = unreadable  # why nobody can read it
        self._understood = understood  # nobody but the runtime
        self._message: Any = None
        self._snapshot = b""

    @property
    def message(self) -> Any:
        """The parsed message, to be edited in place. Raises Unreadable."""
        if self._message is None:
            self._check()
            self._message = self._parser.parse(self._raw)
            snapshot = self._parser.serialize(self._message)
            self._snapshot = self._raw if snapshot == self._raw else snapshot  # a large one only once
        return self._message

    @property
    def readable(self) -> bool:
        """Whether the plain bytes are known; not so behind an encoding nobody knows."""
        return not self._unreadable

    @property
    def untouched(self) -> bool:
        """Whether nobody has as much as looked into it, so that it is as it came."""
        return self._message is None and self._raw is self.received

    def original(self) -> Any:
        """A parsed copy of the message as it came; for whoever has to know what was asked for. Raises Unreadable."""
        self._check()
        return self._parser.parse(self.received)

    def data(self) -> bytes:
        """The message as it is now."""
        if self._message is None:
            return self._raw
        now = self._parser.serialize(self._message)
        return self._raw if now == self._snapshot else now

    def restore(self, raw: bytes) -> None:
        """Forget what was done to the message."""
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
        self.origin = origin  # CLIENT, or the name of the part of ours that made the call
        self._afterwards = afterwards
        self.alone = alone  # of a pod that ends or goes: unlike in CRI, the containers in it live on
        self.claims: Mapping[str, str] = _NO_CLAIMS  # fields of the resources that were changed on the way, and by whom
        self.changed_by: list[str] | None = [] if watched else None  # kept for taps only, it costs comparisons

    @property
    def metadata(self) -> Sequence[tuple[bytes, bytes]]:
        """All fields of the request but the pseudo-header ones."""
        return self._metadata()

    def afterwards(self, act: Callable[[], None]) -> None:
        """Do this when the reply has been written, and before anything else is read. It must not raise."""
        if self._afterwards is None:
            act()
        else:
            self._afterwards.append(act)

    def credit(self, names: Iterable[str]) -> None:
        """Say who changed the call, if that is not the interceptor itself but somebody it asked."""
        if self.changed_by is not None:
            self.changed_by.extend(name for name in dict.fromkeys(names) if name not in self.changed_by)

    @property
    def request(self) -> Any:
        """The parsed request, to be edited in place."""
        return self.body.message


class Reply:
    """What came back. `code` 0 is OK; only then is there a message."""

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
        """Names of unary CRI methods. May change at run time; whoever changes it calls `Relay.refresh`."""

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
    `interpose_stream_editor_errors_total`. For an example see `status_rewriter.EventRewriter`.
    """

    @property
    def name(self) -> str: ...

    @property
    def methods(self) -> Collection[str]:
        """Names of server-streaming CRI methods. May change at run time; whoever changes it calls `Relay.refresh`.

        Only streams that begin later notice. For a stream without end, name its method from the start and return
        what needs no change as it came.
        """

    def edit(self, method: Method, message: bytes) -> bytes:
        """The message to send on: the same bytes, or others. An exception sends it on as it came."""


class Direction(StrEnum):
    """Which message a tap sees."""

    REQUEST = "request"  # as the caller sent it
    FORWARDED = "forwarded"  # as the runtime got it, if that differs
    RECEIVED = "received"  # as the runtime answered, if the caller gets something else
    REPLY = "reply"  # as the caller gets it


class Interest(IntEnum):
    """How much of a method a tap wants to see. Less is cheaper."""

    NONE = 0
    CALLS = 1  # that they come, and how they end
    MESSAGES = 2  # and what is said


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
    reaches the call; it is logged once and counted in `interpose_tap_errors_total`. For an example see
    `exit_watcher.ExitWatcher`.
    """

    @property
    def name(self) -> str: ...

    def interest(self, method: str) -> Interest:
        """In a CRI method; an empty name stands for all others. May change; whoever changes it calls
        `Relay.refresh`."""

    def on_begin(self, call: Sighting) -> None:
        """A call has come."""

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """One whole, uncompressed message of the call; `direction` says between whom it passed."""

    def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None:
        """A message that cannot be shown; its size as far as it is known."""

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        """The call is over, with this status; `changed_by` names who changed the request or the reply."""


class Backend(Protocol):
    """A runtime or image service behind the relay. `on_up` is told whenever it came (back)."""

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
