"""Port forwarding as a client: a port here, whose connections end at a port inside a sandbox.

One connection to the server carries all of them where that is possible (SPDY, also through WebSocket); it is made when
the first is needed, and again when it was lost or a connection failed: the sandbox that it leads to may be gone.
Over plain WebSocket channels each has its own.

Invariant: a connection that cannot be forwarded is closed and its reason reported; the others, and the port, stay.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from interpose.log import kv
from interpose.net.grpc.status import RpcError
from interpose.net.streaming.channels import port_bytes
from interpose.net.streaming.connect import StreamError, UrlSource, dial
from interpose.net.streaming.copy import close_writer, copy_both
from interpose.net.streaming.mux import Channel, MultiplexerLostError
from interpose.net.streaming.mux_transports import SpdyMultiplexer, WebSocketMultiplexer
from interpose.net.streaming.portforward_session import DATA, ERROR
from interpose.net.streaming.upgrade import SessionKind
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
_MOST_TEXT: Final = 4096  # bytes of an error that are shown
_ERROR_TIMEOUT: Final = 2.0  # seconds for an error to come when data has ended
_IDLE_TIMEOUT: Final = 5.0  # seconds without a byte after which a connection is over that cannot be half-closed
OnError = Callable[[str], None]


def _log_error(message: str) -> None:
    _log.warning("Connection could not be forwarded", extra=kv(error=message))


@dataclass(slots=True, eq=False)
class _Upstream:
    """A multiplexer to the server, and the number of connections that use it."""

    mux: SpdyMultiplexer | WebSocketMultiplexer
    where: str
    users: int = 0


class PortForwarder:
    """Listens on a port here (`port`, once started). `on_error` gets the reason of a failed connection."""

    def __init__(
        self,
        source: UrlSource,
        remote_port: int,
        *,
        local_port: int = 0,
        host: str = "127.0.0.1",
        protocols: tuple[str, ...] = ("spdy",),
        on_error: OnError = _log_error,
        timeout: float = 30.0,
        context: ssl.SSLContext | None = None,
    ) -> None:
        self.port = local_port
        self._source = source
        self._remote = remote_port
        self._host = host
        self._protocols = protocols
        self._on_error = on_error
        self._timeout = timeout
        self._context = context
        self._tasks = TaskBag()
        self._server: asyncio.Server | None = None
        self._upstreams: set[_Upstream] = set()
        self._upstream: _Upstream | None = None  # the upstream that new connections use
        self._dialling = asyncio.Lock()
        self._requests = 0

    async def start(self) -> None:
        """Listen. OSError if that is not possible."""
        self._server = await asyncio.start_server(self._on_connection, self._host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        await self._tasks.cancel()
        for upstream in tuple(self._upstreams):
            await self._close_upstream(upstream)

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.spawn(self._serve(reader, writer), name="forwarded connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: _Upstream | None = None
        try:
            upstream = await self._acquire()
            if text := await self._forward_connection(upstream, reader, writer):
                self._report_failure(upstream, text)
        except MultiplexerLostError as problem:
            self._report_failure(upstream, f"{upstream.where}: {problem}" if upstream is not None else str(problem))
        except (StreamError, RpcError, OSError) as problem:
            self._report_failure(upstream, str(problem) or type(problem).__name__)
        except Exception as problem:
            _log.exception("Forwarding failed")
            self._report_failure(upstream, str(problem))
        finally:
            await close_writer(writer)
            if upstream is not None:
                await self._release(upstream)

    async def _forward_connection(
        self, upstream: _Upstream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> str:
        """Forward one connection to its end; returns the error that the server reported."""
        if isinstance(upstream.mux, SpdyMultiplexer):
            idle_timeout = None
            data, error = await self._open_streams(upstream.mux, upstream.where)
        else:
            idle_timeout = (
                _IDLE_TIMEOUT  # without half-closes the end of this side cannot be sent: silence ends the connection
            )
            data, error = await self._open_channels(upstream.mux, upstream.where)
        message = self._tasks.spawn(_read_error(error), name="forwarding error")
        try:
            await copy_both(data, reader, writer, idle_timeout=idle_timeout)
            data.reset()
            async with asyncio.timeout(_ERROR_TIMEOUT):
                return await message
        except TimeoutError:
            return ""
        finally:
            message.cancel()

    async def _acquire(self) -> _Upstream:
        """The upstream that new connections use, dialled if there is none; `_release` it afterwards."""
        async with self._dialling:
            upstream = self._upstream
            if upstream is not None and upstream.mux.lost.is_set():
                self._upstream = None
                if not upstream.users:
                    await self._close_upstream(upstream)
            upstream = self._upstream or await self._dial()
            upstream.users += 1
            return upstream

    async def _dial(self) -> _Upstream:
        upgraded = await dial(
            self._source, SessionKind.PORTS, self._protocols, timeout=self._timeout, context=self._context
        )
        if upgraded.protocol.startswith("v4."):
            mux = WebSocketMultiplexer(upgraded.wire, (0, 1), client=True, closes=False, random=os.urandom)
            upstream = _Upstream(mux, upgraded.where)
        else:
            upstream = self._upstream = _Upstream(SpdyMultiplexer(upgraded.wire, client=True), upgraded.where)
        self._upstreams.add(upstream)
        upstream.mux.start()
        return upstream

    def _report_failure(self, upstream: _Upstream | None, reason: str) -> None:
        """Report a failure. The next connection dials a new upstream; those on this one keep it."""
        if self._upstream is upstream:
            self._upstream = None
        self._on_error(reason)

    async def _release(self, upstream: _Upstream) -> None:
        upstream.users -= 1
        if not upstream.users and upstream is not self._upstream:
            await self._close_upstream(upstream)

    async def _close_upstream(self, upstream: _Upstream) -> None:
        await upstream.mux.close()
        self._upstreams.discard(upstream)

    async def _open_streams(self, mux: SpdyMultiplexer, where: str) -> tuple[Channel, Channel]:
        self._requests += 1
        headers = {"port": str(self._remote), "requestID": str(self._requests)}
        try:
            async with asyncio.timeout(self._timeout):
                error = await mux.open({"streamType": ERROR, **headers})
                error.finish()
                return await mux.open({"streamType": DATA, **headers}), error
        except TimeoutError:
            raise StreamError(f"{where}: no stream within {self._timeout:g} s") from None

    async def _open_channels(self, mux: WebSocketMultiplexer, where: str) -> tuple[Channel, Channel]:
        """Both channels begin with the port."""
        data, error = mux.channel(0), mux.channel(1)
        try:
            async with asyncio.timeout(self._timeout):
                for channel in (data, error):
                    if await channel.read() != port_bytes(self._remote):
                        raise StreamError(f"{where}: the server did not begin with port {self._remote}")
        except TimeoutError:
            raise StreamError(f"{where}: nothing came within {self._timeout:g} s") from None
        return data, error


async def _read_error(error: Channel) -> str:
    message = b""
    while (data := await error.read()) and len(message) < _MOST_TEXT:
        message += data
    return message[:_MOST_TEXT].decode(errors="replace").strip()


async def forward(
    source: UrlSource,
    local_port: int,
    remote_port: int,
    *,
    ready: Callable[[int], None] | None = None,
    host: str = "127.0.0.1",
    protocols: tuple[str, ...] = ("spdy",),
    on_error: OnError = _log_error,
) -> None:
    """Forward a port until cancelled; `ready` gets the number of the port here."""
    forwarder = PortForwarder(
        source, remote_port, local_port=local_port, host=host, protocols=protocols, on_error=on_error
    )
    await forwarder.start()
    try:
        if ready is not None:
            ready(forwarder.port)
        await asyncio.Event().wait()
    finally:
        await forwarder.close()
