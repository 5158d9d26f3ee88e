"""The interface of local handlers: bytes of one message in, bytes out.

Handlers know nothing of HTTP/2; the server turns their exceptions into a status. Messages are bytes here, because
which classes parse them is the handler's business.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias


class ServerContext(Protocol):
    """The call that a handler answers."""

    @property
    def path(self) -> bytes: ...

    @property
    def metadata(self) -> Sequence[tuple[bytes, bytes]]: ...

    @property
    def deadline(self) -> float | None:
        """Loop time at which the caller gives up; None if it set no limit."""


UnaryHandler: TypeAlias = Callable[[bytes, ServerContext], Awaitable[bytes]]
StreamHandler: TypeAlias = Callable[[bytes, ServerContext], AsyncIterator[bytes]]


@dataclass(frozen=True, slots=True)
class Unary:
    """A unary method: one message in, one message out."""

    handle: UnaryHandler


@dataclass(frozen=True, slots=True)
class ServerStreaming:
    """A server streaming method: one message in, any number out."""

    handle: StreamHandler


Handlers: TypeAlias = Mapping[bytes, Unary | ServerStreaming]
