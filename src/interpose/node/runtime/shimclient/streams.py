"""A session with a process: exec or attach, one connection each.

There is back-pressure: a reader that does not read stops an exec'd process (and, for a while, a container).
"""

import asyncio
import json
import struct

from interpose.node.runtime.shim import protocol
from interpose.node.runtime.shimclient.types import ShimClosedError, StreamExit

_SIZE = struct.Struct(">HH")


class ShimSession:
    """The runtime's end of a session. After `read` returned None, `exit` has the exit of the process."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, pid: int) -> None:
        self.pid = pid
        self.exit: StreamExit | None = None
        self._reader = reader
        self._writer = writer

    async def read(self) -> tuple[int, bytes] | None:
        """The next piece of output with its channel; None after the exit of the process.

        ShimClosedError if the shim is gone, or closed the session because we did not read.
        """
        while self.exit is None:
            try:
                head = await self._reader.readexactly(protocol.FRAME_HEAD)
                channel, length = protocol.frame_head(head)
                data = await self._reader.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError):
                raise ShimClosedError("the shim ended the session") from None
            if channel == protocol.RESULT:
                result = json.loads(data)
                self.exit = StreamExit(code=int(result["code"]), timed_out=bool(result.get("timed_out", False)))
            elif data:
                return channel, data
        return None

    async def write(self, data: bytes) -> None:
        """Write to the stdin of the process, as fast as it reads; nothing happens after its exit."""
        for at in range(0, len(data), protocol.FRAME_LIMIT):
            await self._send(protocol.frame(protocol.STDIN, data[at : at + protocol.FRAME_LIMIT]))

    async def end_stdin(self) -> None:
        """Close the stdin of the process."""
        await self._send(protocol.frame(protocol.STDIN, b""))

    async def resize(self, width: int, height: int) -> None:
        """Set the size of the terminal."""
        await self._send(protocol.frame(protocol.RESIZE, _SIZE.pack(_clamp(width), _clamp(height))))

    async def close(self) -> None:
        """Close the session; may be repeated."""
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
            return  # it has exited: `read` returns the exit


def _clamp(value: int) -> int:
    return max(0, min(value, 0xFFFF))
