"""The interface between the streaming server and a runtime: what a handler does, and the streams it does it with.

Protocols and errors only; nothing here does anything. The server calls a `StreamHandler` and passes it the client's
`SessionIo`; the handler knows nothing of HTTP, SPDY or WebSocket.

Invariant: a handler's coroutine is cancelled when its client has left. A process that was started for that client alone
(by exec) it ends then.
"""

from collections.abc import AsyncIterator
from typing import Final, Protocol

STDOUT: Final = 1
STDERR: Final = 2


class StreamHandlerError(Exception):
    """What was asked for cannot be done; the words are sent to the client."""


class TooManyRequestsError(Exception):
    """Too many URLs are outstanding: clients request streams and do not connect."""


class StdinReader(Protocol):
    """A source of bytes for a command."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        ...


class SessionIo(Protocol):
    """The client's side of one exec or attach."""

    @property
    def stdin(self) -> StdinReader | None:
        """The client's input; None if it requested none."""
        ...

    @property
    def resizes(self) -> AsyncIterator[tuple[int, int]]:
        """Width and height of the client's terminal, whenever they change. Ends with the session."""
        ...

    async def write(self, channel: int, data: bytes) -> None:
        """Send output (STDOUT or STDERR) and wait until there is room for more.

        What the client did not ask for is dropped. ConnectionError: the client has left.
        """
        ...


class ByteReader(Protocol):
    """What the server needs of asyncio.StreamReader."""

    async def read(self, n: int = -1, /) -> bytes:
        """At most so many bytes; empty at the end."""
        ...


class ByteWriter(Protocol):
    """What the server needs of asyncio.StreamWriter."""

    def write(self, data: bytes, /) -> None:
        """Queue bytes to be sent; never waits."""
        ...

    async def drain(self) -> None:
        """Wait until there is room for more."""
        ...

    def can_write_eof(self) -> bool:
        """Whether the connection can be half-closed."""
        ...

    def write_eof(self) -> None:
        """Tell the other side that no more bytes follow."""
        ...

    def close(self) -> None:
        """Close when the last bytes have left."""
        ...

    async def wait_closed(self) -> None:
        """Wait until the connection is closed."""
        ...


class StreamHandler(Protocol):
    """Runs commands and connects to ports for clients of the streaming server."""

    async def exec(self, container_id: str, command: tuple[str, ...], tty: bool, streams: SessionIo) -> int:
        """Run a command to its end; its exit code. StreamHandlerError if it cannot be run."""
        ...

    async def attach(self, container_id: str, tty: bool, streams: SessionIo) -> int | None:
        """Take part in a container's own streams until it ends; its exit code, or None if it is not known."""
        ...

    async def port_forward(self, sandbox_id: str, port: int) -> tuple[ByteReader, ByteWriter]:
        """Connect to a port inside the sandbox. StreamHandlerError if no process listens there."""
        ...
