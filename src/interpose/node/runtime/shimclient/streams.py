"""A session with a process: exec or attach, one connection each.

Back-pressure goes through: a reader that does not read stops an exec'd process (and, for a while, a container).
"""

import asyncio
import json
import struct

from interpose.node.runtime.shim import protocol as wire
from interpose.node.runtime.shimclient.types import ShimClosedError, StreamExit

_SIZE = struct.Struct(">HH")


class ShimSession:
    """The runtime's end. After `read` gave None, `exit` says how the process ended."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, pid: int) -> None:
        self.pid = pid
        self.exit: StreamExit | None = None
        self._reader = reader
        self._writer = writer

    async def read(self) -> tuple[int, bytes] | None:
        """The next piece of output with its channel; None at the end of the process.

        ShimGoneError if the shim went, or dropped us because we did not read.
        """
        while self.exit is None:
            try:
                head = await self._reader.readexactly(wire.FRAME_HEAD)
                channel, length = wire.frame_head(head)
                data = await self._reader.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError):
                raise ShimClosedError("the shim ended the session") from None
            if channel == wire.RESULT:
                said = json.loads(data)
                self.exit = StreamExit(code=int(said["code"]), timed_out=bool(said.get("timed_out", False)))
            elif data:
                return channel, data
        return None

    async def write(self, data: bytes) -> None:
        """To its stdin, as fast as it takes it. Nothing if it has ended."""
        for at in range(0, len(data), wire.FRAME_LIMIT):
            await self._send(wire.frame(wire.STDIN, data[at : at + wire.FRAME_LIMIT]))

    async def end_stdin(self) -> None:
        """No more input."""
        await self._send(wire.frame(wire.STDIN, b""))

    async def resize(self, width: int, height: int) -> None:
        """The size of the terminal has changed."""
        await self._send(wire.frame(wire.RESIZE, _SIZE.pack(_fits(width), _fits(height))))

    async def close(self) -> None:
        """Hang up. May be repeated."""
        self._writer.close()
        try:
            await self._writer.wait_closed()
        except (ConnectionError, OSError):
            return

    async def _send(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except (ConnectionError, RuntimeError):
            return  # it has ended: `read` says how


def _fits(value: int) -> int:
    return max(0, min(value, 0xFFFF))
