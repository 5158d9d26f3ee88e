"""A call on its way through the chain: its request, its reply, and the bytes of both. Pure."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeAlias

from interpose.cri.errors import OpaqueMessageError, UnreadableMessageError
from interpose.cri.methods import Method

CLIENT: Final = "client"
_NO_CLAIMS: Final[Mapping[str, str]] = MappingProxyType({})


class Parser(Protocol):
    """Turns bytes into a message and back. Messages keep unknown fields."""

    def parse(self, data: bytes) -> Any:
        """The message. Raises UnreadableMessageError."""

    def serialize(self, message: Any) -> bytes:
        """Its bytes, the same for the same content."""


class Body:
    """One message, parsed on first access.

    A message without changes is sent as the bytes that came: after parsing, a message counts as changed only if it now
    serializes to something else than right after parsing. That price is paid by who may edit it: `read` is cheaper.
    """

    __slots__ = ("_message", "_parser", "_raw", "_snapshot", "_understood", "_unreadable", "received")

    def __init__(self, raw: bytes, parser: Parser, *, unreadable: str = "", understood: bool = False) -> None:
        self.received = raw  # as it came, whatever was done to it since
        self._raw = raw
        self._parser = parser
        self._unreadable = unreadable  # why no interceptor can read it
        self._understood = understood  # the runtime can, although interceptors cannot
        self._message: Any = None
        self._snapshot: bytes | None = None  # None as long as nobody may have edited it

    @property
    def message(self) -> Any:
        """The parsed message, to be edited in place. Raises UnreadableMessageError."""
        message = self.read()
        if self._snapshot is None:
            snapshot = self._parser.serialize(message)
            self._snapshot = self._raw if snapshot == self._raw else snapshot  # a large one only once
        return message

    def read(self) -> Any:
        """The parsed message, not to be edited: a change may be lost. Raises UnreadableMessageError."""
        if self._message is None:
            self._check()
            self._message = self._parser.parse(self._raw)
        return self._message

    @property
    def readable(self) -> bool:
        """Whether the plain bytes are known; not so behind an unknown encoding."""
        return not self._unreadable

    @property
    def untouched(self) -> bool:
        """Whether nobody had the message to edit it, so that it is as it came."""
        return self._snapshot is None and self._raw is self.received

    def original(self) -> Any:
        """A parsed copy of the message as it came, before any change. Raises UnreadableMessageError."""
        self._check()
        return self._parser.parse(self.received)

    def data(self) -> bytes:
        """The bytes of the message as it is now."""
        if self._snapshot is None:
            return self._raw
        now = self._parser.serialize(self._message)
        return self._raw if now == self._snapshot else now

    def restore(self, raw: bytes) -> None:
        """Drop all changes; the message has these bytes again."""
        self._raw = raw
        self._message = self._snapshot = None

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
        return self._body().message

    def read(self) -> Any:
        """The parsed response, not to be edited."""
        return self._body().read()

    def _body(self) -> Body:
        if self.body is None:
            raise UnreadableMessageError("the call failed: there is no response message")
        return self.body


def refusal(code: int, message: str) -> Reply:
    """A reply of an interceptor that does not let the call pass. A value, not an exception: it is a decision."""
    return Reply(code=code, message=message)


Proceed: TypeAlias = Callable[[], Awaitable[Reply]]
