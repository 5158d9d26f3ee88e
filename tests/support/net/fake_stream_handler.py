"""An handler of the streaming server that runs nothing: its commands are a few words that it knows itself.

`echo WORDS`, `both`, `exit N`, `cat`, `flood BYTES`, `sizes N`, `fail WORDS`, `crash`, `hang`. Attach is `cat` that
says which container it is first. Ports are those of this machine.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from interpose.net.streaming.handler import STDERR, STDOUT, ByteReader, ByteWriter, SessionIo, StreamHandlerError

_PIECE: Final = 1 << 16


class FakeStreamHandler:
    """Remembers what was asked for in `calls`; `hanging` and `cancelled` tell about `hang`."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []
        self.hanging = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.written = 0  # bytes of a flood
        self._commands: dict[str, Callable[[tuple[str, ...], SessionIo], Awaitable[int]]] = {
            "echo": self._echo,
            "both": self._both,
            "exit": self._exit,
            "cat": self._cat,
            "flood": self._flood,
            "sizes": self._sizes,
            "fail": self._fail,
            "crash": self._crash,
            "hang": self._hang,
        }

    async def exec(self, container_id: str, command: tuple[str, ...], tty: bool, streams: SessionIo) -> int:
        """Run one of the commands."""
        self.calls.append(("exec", container_id, command, tty))
        return await self._commands[command[0]](command[1:], streams)

    async def attach(self, container_id: str, tty: bool, streams: SessionIo) -> int | None:
        """Say who it is, then give back what comes."""
        self.calls.append(("attach", container_id, tty))
        await streams.write(STDOUT, f"this is {container_id}\n".encode())
        await self._cat((), streams)
        return None

    async def port_forward(self, sandbox_id: str, port: int) -> tuple[ByteReader, ByteWriter]:
        """Connect to a port of this machine."""
        self.calls.append(("port_forward", sandbox_id, port))
        try:
            return await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            raise StreamHandlerError(f"nobody listens on port {port}") from None

    async def _echo(self, words: tuple[str, ...], streams: SessionIo) -> int:
        await streams.write(STDOUT, " ".join(words).encode() + b"\n")
        return 0

    async def _both(self, _words: tuple[str, ...], streams: SessionIo) -> int:
        await streams.write(STDOUT, b"to stdout\n")
        await streams.write(STDERR, b"to stderr\n")
        return 0

    async def _exit(self, words: tuple[str, ...], _streams: SessionIo) -> int:
        return int(words[0])

    async def _cat(self, _words: tuple[str, ...], streams: SessionIo) -> int:
        while streams.stdin is not None and (data := await streams.stdin.read()):
            await streams.write(STDOUT, data)
        return 0

    async def _flood(self, words: tuple[str, ...], streams: SessionIo) -> int:
        left = int(words[0])
        while left:
            piece = bytes(min(left, _PIECE))
            await streams.write(STDOUT, piece)
            self.written += len(piece)
            left -= len(piece)
        return 0

    async def _sizes(self, words: tuple[str, ...], streams: SessionIo) -> int:
        left = int(words[0])
        async for width, height in streams.resizes:
            await streams.write(STDOUT, f"{width}x{height}\n".encode())
            left -= 1
            if not left:
                return 0
        return 1

    async def _fail(self, words: tuple[str, ...], _streams: SessionIo) -> int:
        raise StreamHandlerError(" ".join(words))

    async def _crash(self, _words: tuple[str, ...], _streams: SessionIo) -> int:
        raise ValueError("a mistake in the handler")

    async def _hang(self, _words: tuple[str, ...], streams: SessionIo) -> int:
        await streams.write(STDOUT, b"hanging\n")
        self.hanging.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return 0
