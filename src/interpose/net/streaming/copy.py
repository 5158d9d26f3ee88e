"""Bytes between a channel and a connection, both ways, with half-closes on both sides.

Invariant: when `copy_both` returns or raises, both directions have ended.
"""

import asyncio
from contextlib import suppress
from typing import Any, Final

from interpose.net.streaming.byte_transport import CHUNK
from interpose.net.streaming.handler import ByteReader, ByteWriter
from interpose.net.streaming.mux import Channel, ChannelOutcome
from interpose.tasks import TaskBag

_CLOSING: Final = 2.0  # seconds for the last bytes to leave


class _Copy:
    def __init__(self, channel: Channel, reader: ByteReader, writer: ByteWriter) -> None:
        self._channel = channel
        self._reader = reader
        self._writer = writer
        self.moved = 0  # bytes inwards

    async def inwards(self) -> bool:
        """From the channel; whether it came to an orderly end, after which the other direction may go on."""
        try:
            while data := await self._channel.read():
                self.moved += len(data)
                self._writer.write(data)
                await self._writer.drain()
            if self._channel.end is ChannelOutcome.FINISHED and self._writer.can_write_eof():
                self._writer.write_eof()
        except OSError:
            return False
        return self._channel.end is ChannelOutcome.FINISHED

    async def outwards(self) -> bool:
        """To the channel; whether it came to an orderly end."""
        try:
            while data := await self._reader.read(CHUNK):
                await self._channel.write(data)
        except OSError:
            return False
        self._channel.finish()
        return True


async def copy_both(
    channel: Channel, reader: ByteReader, writer: ByteWriter, *, idle_timeout: float | None = None
) -> None:
    """Carry bytes until both sides have ended, or one has broken off.

    When the connection has ended, the channel may be silent for `idle_timeout` seconds; None: for ever.
    """
    tasks = TaskBag()
    copy = _Copy(channel, reader, writer)
    inwards = tasks.spawn(copy.inwards(), name="streaming inwards")
    outwards = tasks.spawn(copy.outwards(), name="streaming outwards")
    try:
        await asyncio.wait((inwards, outwards), return_when=asyncio.FIRST_COMPLETED)
        if _broken(inwards) or _broken(outwards):
            return
        await asyncio.wait((outwards,))
        before = -1
        while not inwards.done() and not _broken(outwards) and before != copy.moved:
            before = copy.moved
            await asyncio.wait((inwards,), timeout=idle_timeout)
    finally:
        await tasks.cancel()


def _broken(task: "asyncio.Task[Any]") -> bool:
    return task.done() and not task.result()


async def close_writer(writer: ByteWriter) -> None:
    """Close a connection when its last bytes have left; a peer that does not read them is not waited for."""
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CLOSING):
            await writer.wait_closed()
