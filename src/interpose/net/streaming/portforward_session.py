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
from interpose.net.streaming.mux import Channel, Multiplexer, MultiplexerLostError, wait_until_idle
from interpose.net.streaming.mux_transports import SpdyMultiplexer, WebSocketMultiplexer
from interpose.net.streaming.upgrade import StreamTransport
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
DATA: Final = "data"
ERROR: Final = "error"
_IDLE_TIMEOUT: Final = 60.0  # seconds without a byte for a client to end its side when the other has
Connect = Callable[[int], Awaitable[tuple[ByteReader, ByteWriter]]]


@dataclass(slots=True, kw_only=True)
class _Pair:
    port: int
    data: Channel | None = None
    error: Channel | None = None


class PortSession:
    """One port-forward session; `connect` makes the connections, `closing` is set when the server ends."""

    def __init__(self, ports: tuple[int, ...], connect: Connect, limits: StreamLimits, closing: asyncio.Event) -> None:
        self._ports = ports
        self._connect = connect
        self._limits = limits
        self._closing = closing
        self._tasks = TaskBag()
        self._pairs: dict[str, _Pair] = {}

    async def run(self, wire: ByteTransport, transport: StreamTransport, protocol: str) -> None:
        """Serve the client to the end."""
        mux: Multiplexer
        if transport is StreamTransport.WEBSOCKET and protocol != channels.TUNNEL:
            mux, served = self._over_channels(wire)
        else:
            if protocol == channels.TUNNEL:
                wire = WebSocketTransport(wire, client=False, random=os.urandom)
            mux, served = self._over_streams(wire)
        mux.start()
        waits = [
            self._tasks.spawn(served, name="streaming ports"),
            self._tasks.spawn(wait_until_idle(mux, self._limits.idle), name="streaming client"),
            self._tasks.spawn(_wait_for(self._closing), name="streaming end"),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await self._tasks.cancel()
            await mux.close(0.0 if mux.lost.is_set() else self._limits.linger)

    def _over_channels(self, wire: ByteTransport) -> tuple[Multiplexer, Coroutine[Any, Any, None]]:
        numbers = range(2 * len(self._ports))
        mux = WebSocketMultiplexer(wire, numbers, client=False, closes=False, random=os.urandom)
        return mux, self._serve_ports(mux)

    async def _serve_ports(self, mux: WebSocketMultiplexer) -> None:
        work = []
        for index, port in enumerate(self._ports):
            data, error = mux.channel(2 * index), mux.channel(2 * index + 1)
            error.discard()
            with suppress(MultiplexerLostError):
                await data.write(channels.port_bytes(port))
                await error.write(channels.port_bytes(port))
            work.append(self._tasks.spawn(self._forward(port, data, error, 0.0), name="streaming port"))
        await asyncio.wait(work)

    def _over_streams(self, wire: ByteTransport) -> tuple[Multiplexer, Coroutine[Any, Any, None]]:
        mux = SpdyMultiplexer(wire, client=False, limits=self._limits.spdy)
        return mux, self._serve_streams(mux)

    async def _serve_streams(self, mux: SpdyMultiplexer) -> None:
        with suppress(MultiplexerLostError):
            while True:
                self._match_stream(mux, await mux.accept())

    def _match_stream(self, mux: SpdyMultiplexer, channel: Channel) -> None:
        """Match the data and error streams of a connection, and forward it when both are there."""
        kind = channel.headers.get("streamtype", "").lower()
        port_text = channel.headers.get("port", "")
        port = read_port(port_text)
        if kind not in (DATA, ERROR) or port is None:
            _log.debug("Stream refused", extra=kv(type=kind[:40], port=port_text[:40]))
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
        mux.reply(channel)
        if pair.data is not None and pair.error is not None:
            del self._pairs[request]
            pair.error.discard()
            self._tasks.spawn(self._forward(pair.port, pair.data, pair.error, _IDLE_TIMEOUT), name="streaming port")

    async def _expire(self, request: str, pair: _Pair) -> None:
        """Refuse a stream whose partner was not opened in time."""
        await asyncio.sleep(self._limits.creation)
        if self._pairs.get(request) is pair:
            del self._pairs[request]
            for channel in (pair.data, pair.error):
                if channel is not None:
                    channel.reset()

    async def _forward(self, port: int, data: Channel, error: Channel, idle_timeout: float) -> None:
        """One connection. `idle_timeout` is how long the client may be silent after the other side ended."""
        try:
            reader, writer = await self._connect(port)
        except (StreamHandlerError, OSError) as problem:
            await _send_error(error, f"error forwarding port {port}: {problem}")
            data.reset()
            return
        except Exception:
            _log.exception("Port forwarding failed", extra=kv(port=port))
            await _send_error(error, f"error forwarding port {port}: internal error, see the log of the runtime")
            data.reset()
            return
        try:
            await copy_both(data, reader, writer, idle_timeout=idle_timeout)
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


async def _send_error(error: Channel, text: str) -> None:
    with suppress(MultiplexerLostError):
        await error.write(text.encode())
    error.finish()


async def _wait_for(event: asyncio.Event) -> None:
    await event.wait()
