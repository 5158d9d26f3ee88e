"""The seam between the streaming server and whoever runs containers: what is asked for, and what it is carried over.

Protocols and errors only; nothing here does anything. The server calls an `StreamHandler` and gives it the client's
`SessionIo`; the attendant knows nothing of HTTP, SPDY or WebSocket.

Invariant: an attendant's coroutine is cancelled when its client is gone. Whatever it started for that client alone (an
exec'd process) it ends then.
"""

from collections.abc import AsyncIterator
from typing import Final, Protocol

STDOUT: Final = 1
STDERR: Final = 2


class StreamHandlerError(Exception):
    """What was asked for cannot be done; the words are sent to the client."""


class TooManyRequestsError(Exception):
    """There are as many URLs outstanding as there may be; somebody asks and does not come."""


class StdinReader(Protocol):
    """Where bytes come from."""

    async def read(self) -> bytes:
        """The next bytes; empty at the end."""
        ...


class SessionIo(Protocol):
    """The client's side of one exec or attach."""

    @property
    def stdin(self) -> StdinReader | None:
        """What the client types; None if it did not ask to."""
        ...

    @property
    def resizes(self) -> AsyncIterator[tuple[int, int]]:
        """Width and height of the client's terminal, whenever they change. Ends with the session."""
        ...

    async def write(self, channel: int, data: bytes) -> None:
        """Send output (STDOUT or STDERR) and wait until there is room for more.

        What the client did not ask for is dropped. ConnectionError: the client is gone.
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
        """Take bytes."""
        ...

    async def drain(self) -> None:
        """Wait until there is room for more."""
        ...

    def can_write_eof(self) -> bool:
        """Whether the other side can be told that no more comes."""
        ...

    def write_eof(self) -> None:
        """No more comes."""
        ...

    def close(self) -> None:
        """Let go when the last bytes have left."""
        ...

    async def wait_closed(self) -> None:
        """Wait until they have."""
        ...


class StreamHandler(Protocol):
    """Does what clients of the streaming server ask for."""

    async def exec(self, container_id: str, command: tuple[str, ...], tty: bool, streams: SessionIo) -> int:
        """Run a command to its end; its exit code. AttendantError if it cannot be run."""
        ...

    async def attach(self, container_id: str, tty: bool, streams: SessionIo) -> int | None:
        """Take part in a container's own streams until it ends; its exit code, or None if nobody needs to know."""
        ...

    async def port_forward(self, sandbox_id: str, port: int) -> tuple[ByteReader, ByteWriter]:
        """Connect to a port inside the sandbox. AttendantError if nobody listens."""
        ...
