"""Forwarded ports on the server: over SPDY two streams for each connection, over WebSocket two channels for each port.

Invariant: every connection that was opened for the client is closed when `run` returns.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from interpose.log import kv
from interpose.net.streaming import channels
from interpose.net.streaming.byte_transport import ByteTransport, WebSocketTransport
from interpose.net.streaming.copy import close_writer, copy_both
from interpose.net.streaming.handler import ByteReader, ByteWriter, StreamHandlerError
from interpose.net.streaming.limits import StreamLimits
from interpose.net.streaming.mux import Channel, Multiplexer, MultiplexerLostError, until_idle
from interpose.net.streaming.mux_transports import SpdyMultiplexer, WebSocketMultiplexer
from interpose.net.streaming.upgrade import StreamTransport
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
DATA: Final = "data"
ERROR: Final = "error"
_QUIET: Final = 60.0  # seconds without a byte for a client to end its side when the other has
Connect = Callable[[int], Awaitable[tuple[ByteReader, ByteWriter]]]


@dataclass(slots=True, kw_only=True)
class _Pair:
    port: int
    data: Channel | None = None
    error: Channel | None = None


class PortSession:
    """One session; `connect` makes the connections, `closing` is set when the server ends."""

    def __init__(self, ports: tuple[int, ...], connect: Connect, limits: StreamLimits, closing: asyncio.Event) -> None:
        self._ports = ports
        self._connect = connect
        self._limits = limits
        self._closing = closing
        self._tasks = TaskBag()
        self._pairs: dict[str, _Pair] = {}

    async def run(self, wire: ByteTransport, transport: StreamTransport, protocol: str) -> None:
        """Serve the client to the end."""
        link: Multiplexer
        if transport is StreamTransport.WEBSOCKET and protocol != channels.TUNNEL:
            link, served = self._by_channels(wire)
        else:
            if protocol == channels.TUNNEL:
                wire = WebSocketTransport(wire, client=False, random=os.urandom)
            link, served = self._by_streams(wire)
        link.start()
        waits = [
            self._tasks.spawn(served, name="streaming ports"),
            self._tasks.spawn(until_idle(link, self._limits.idle), name="streaming client"),
            self._tasks.spawn(_set(self._closing), name="streaming end"),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._tasks.cancel()
            await link.close(0.0 if link.lost.is_set() else self._limits.linger)

    def _by_channels(self, wire: ByteTransport) -> tuple[Multiplexer, Coroutine[Any, Any, None]]:
        numbers = range(2 * len(self._ports))
        link = WebSocketMultiplexer(wire, numbers, client=False, closes=False, random=os.urandom)
        return link, self._all_ports(link)

    async def _all_ports(self, link: WebSocketMultiplexer) -> None:
        work = []
        for index, port in enumerate(self._ports):
            data, error = link.channel(2 * index), link.channel(2 * index + 1)
            error.discard()
            with suppress(MultiplexerLostError):
                await data.write(channels.port_bytes(port))
                await error.write(channels.port_bytes(port))
            work.append(self._tasks.spawn(self._forward(port, data, error, 0.0), name="streaming port"))
        await asyncio.wait(work)

    def _by_streams(self, wire: ByteTransport) -> tuple[Multiplexer, Coroutine[Any, Any, None]]:
        link = SpdyMultiplexer(wire, client=False, limits=self._limits.spdy)
        return link, self._all_streams(link)

    async def _all_streams(self, link: SpdyMultiplexer) -> None:
        with suppress(MultiplexerLostError):
            while True:
                self._pair(link, await link.accept())

    def _pair(self, link: SpdyMultiplexer, channel: Channel) -> None:
        """Put a stream to its partner, and begin when both are there."""
        kind = channel.headers.get("streamtype", "").lower()
        asked = channel.headers.get("port", "")
        port = read_port(asked)
        if kind not in (DATA, ERROR) or port is None:
            _log.debug("Stream refused", extra=kv(type=kind[:40], port=asked[:40]))
            channel.reset()
            return
        request = _request_id(channel, kind)
        pair = self._pairs.get(request)
        if pair is None:
            pair = self._pairs[request] = _Pair(port=port)
            self._tasks.spawn(self._expire(request, pair), name="streaming pair")
        if getattr(pair, kind) is not None or pair.port != port:
            channel.reset()
            return
        setattr(pair, kind, channel)
        link.reply(channel)
        if pair.data is not None and pair.error is not None:
            del self._pairs[request]
            pair.error.discard()
            self._tasks.spawn(self._forward(pair.port, pair.data, pair.error, _QUIET), name="streaming port")

    async def _expire(self, request: str, pair: _Pair) -> None:
        """Refuse a stream whose partner does not come."""
        await asyncio.sleep(self._limits.creation)
        if self._pairs.get(request) is pair:
            del self._pairs[request]
            for channel in (pair.data, pair.error):
                if channel is not None:
                    channel.reset()

    async def _forward(self, port: int, data: Channel, error: Channel, patience: float) -> None:
        """One connection. `patience` is for the client to end when the other side has: without half-closes none."""
        try:
            reader, writer = await self._connect(port)
        except (StreamHandlerError, OSError) as problem:
            await _tell(error, f"error forwarding port {port}: {problem}")
            data.reset()
            return
        except Exception:
            _log.exception("Port forwarding failed", extra=kv(port=port))
            await _tell(error, f"error forwarding port {port}: internal error, see the log of the runtime")
            data.reset()
            return
        try:
            await copy_both(data, reader, writer, patience=patience)
        finally:
            error.finish()
            data.reset()
            await close_writer(writer)


def read_port(text: str) -> int | None:
    """The port in a header; None if it is none. Zeros before it count for nothing, as in Go."""
    digits = text.lstrip("0")
    if len(digits) > 5 or not (digits.isascii() and digits.isdecimal()):
        return None
    port = int(digits)
    return port if port <= 65535 else None


def _request_id(channel: Channel, kind: str) -> str:
    """What pairs two streams. Very old clients send none, but open the error stream just before the data stream."""
    if request := channel.headers.get("requestid"):
        return f"id {request}"
    return f"stream {channel.number if kind == ERROR else channel.number - 2}"


async def _tell(error: Channel, words: str) -> None:
    with suppress(MultiplexerLostError):
        await error.write(words.encode())
    error.finish()


async def _set(event: asyncio.Event) -> None:
    await event.wait()
