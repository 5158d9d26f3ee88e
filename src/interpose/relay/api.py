"""The three seams of the relay, all subscribed per method.

An Interceptor handles a unary call before the runtime does: it may change the request, refuse it, and change the reply.
A StreamEditor may change the replies of a stream, one by one as they pass. A Tap observes: it gets copies of whole
messages and can neither delay nor change anything.

Pure: what a call is and what may be done with it. `chain` runs the interceptors; `intercepted`, `stream_editor` and
`taps` move the bytes.
"""

from collections.abc import Callable, Collection, Sequence
from enum import IntEnum, StrEnum
from typing import Any, Protocol

from interpose.cri.methods import Method
from interpose.relay.call import CLIENT, Body, Call, Parser, Proceed, Reply, refusal

__all__ = (
    "CLIENT",
    "Backend",
    "Body",
    "Call",
    "Direction",
    "Interceptor",
    "Interest",
    "Parser",
    "Proceed",
    "Reply",
    "Sighting",
    "StreamEditor",
    "Tap",
    "refusal",
)


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
        UnreadableMessageError. `call.body.read()` and `reply.read()` are for who only looks.
        `refusal` makes the reply that rejects a call.

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

    @property
    def metadata_key(self) -> bytes | None:
        """Bytes that are equal for calls with equal metadata, at hand without reading it; None if there are none."""
        wire: bytes | None = getattr(self._headers, "wire", None)
        return wire


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
