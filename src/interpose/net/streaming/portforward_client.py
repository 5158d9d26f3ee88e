"""Port forwarding as a client: a port here, whose connections end at a port inside a sandbox.

One connection to the server carries all of them where that is possible (SPDY, also through WebSocket); it is made when
the first is needed, and again when it was lost or a connection failed: the sandbox that it leads to may be gone.
Over plain WebSocket channels each has its own.

Invariant: a connection that cannot be forwarded is closed and its reason told; the others, and the port, stay.
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
_WORDS: Final = 4096  # bytes of an error that are shown
_PATIENCE: Final = 2.0  # seconds for an error to come when data has ended
_QUIET: Final = 5.0  # seconds without a byte after which a connection is over that cannot be half-closed
OnError = Callable[[str], None]


def _logged(message: str) -> None:
    _log.warning("Connection could not be forwarded", extra=kv(error=message))


@dataclass(slots=True, eq=False)
class _Way:
    """A link to the server, and how many connections are on it."""

    link: SpdyMultiplexer | WebSocketMultiplexer
    where: str
    users: int = 0


class PortForwarder:
    """Listens on a port here (`port`, once started). `on_error` is told why a connection could not be forwarded."""

    def __init__(
        self,
        source: UrlSource,
        remote_port: int,
        *,
        local_port: int = 0,
        host: str = "127.0.0.1",
        protocols: tuple[str, ...] = ("spdy",),
        on_error: OnError = _logged,
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
        self._ways: set[_Way] = set()
        self._way: _Way | None = None  # the one that new connections use, too
        self._dialling = asyncio.Lock()
        self._requests = 0

    async def start(self) -> None:
        """Listen. OSError if that is not possible."""
        self._server = await asyncio.start_server(self._accepted, self._host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        await self._tasks.cancel()
        for way in tuple(self._ways):
            await self._shut(way)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.spawn(self._serve(reader, writer), name="forwarded connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        way: _Way | None = None
        try:
            way = await self._entered()
            if text := await self._carry(way, reader, writer):
                self._failed(way, text)
        except MultiplexerLostError as problem:
            self._failed(way, f"{way.where}: {problem}" if way is not None else str(problem))
        except (StreamError, RpcError, OSError) as problem:
            self._failed(way, str(problem) or type(problem).__name__)
        except Exception as problem:
            _log.exception("Forwarding failed")
            self._failed(way, str(problem))
        finally:
            await close_writer(writer)
            if way is not None:
                await self._leave(way)

    async def _carry(self, way: _Way, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
        """One connection to its end; what the server says went wrong."""
        if isinstance(way.link, SpdyMultiplexer):
            patience = None
            data, error = await self._by_streams(way.link, way.where)
        else:
            patience = _QUIET  # without half-closes it cannot be told that this side has ended: silence has to do
            data, error = await self._by_channels(way.link, way.where)
        words = self._tasks.spawn(_words(error), name="forwarding error")
        try:
            await copy_both(data, reader, writer, patience=patience)
            data.reset()
            async with asyncio.timeout(_PATIENCE):
                return await words
        except TimeoutError:
            return ""
        finally:
            words.cancel()

    async def _entered(self) -> _Way:
        """The link that new connections use, made if there is none; `_leave` it."""
        async with self._dialling:
            way = self._way
            if way is not None and way.link.lost.is_set():
                self._way = None
                if not way.users:
                    await self._shut(way)
            way = self._way or await self._dialled()
            way.users += 1
            return way

    async def _dialled(self) -> _Way:
        upgraded = await dial(
            self._source, SessionKind.PORTS, self._protocols, timeout=self._timeout, context=self._context
        )
        if upgraded.protocol.startswith("v4."):
            link = WebSocketMultiplexer(upgraded.wire, (0, 1), client=True, closes=False, random=os.urandom)
            way = _Way(link, upgraded.where)
        else:
            way = self._way = _Way(SpdyMultiplexer(upgraded.wire, client=True), upgraded.where)
        self._ways.add(way)
        way.link.start()
        return way

    def _failed(self, way: _Way | None, why: str) -> None:
        """Tell it. The next connection asks for a new link; those on this one keep it."""
        if self._way is way:
            self._way = None
        self._on_error(why)

    async def _leave(self, way: _Way) -> None:
        way.users -= 1
        if not way.users and way is not self._way:
            await self._shut(way)

    async def _shut(self, way: _Way) -> None:
        await way.link.close()
        self._ways.discard(way)

    async def _by_streams(self, link: SpdyMultiplexer, where: str) -> tuple[Channel, Channel]:
        self._requests += 1
        headers = {"port": str(self._remote), "requestID": str(self._requests)}
        try:
            async with asyncio.timeout(self._timeout):
                error = await link.open({"streamType": ERROR, **headers})
                error.finish()
                return await link.open({"streamType": DATA, **headers}), error
        except TimeoutError:
            raise StreamError(f"{where}: no stream within {self._timeout:g} s") from None

    async def _by_channels(self, link: WebSocketMultiplexer, where: str) -> tuple[Channel, Channel]:
        """Both channels begin with the port."""
        data, error = link.channel(0), link.channel(1)
        try:
            async with asyncio.timeout(self._timeout):
                for channel in (data, error):
                    if await channel.read() != port_bytes(self._remote):
                        raise StreamError(f"{where}: the server did not begin with port {self._remote}")
        except TimeoutError:
            raise StreamError(f"{where}: nothing came within {self._timeout:g} s") from None
        return data, error


async def _words(error: Channel) -> str:
    words = b""
    while (data := await error.read()) and len(words) < _WORDS:
        words += data
    return words[:_WORDS].decode(errors="replace").strip()


async def forward(
    source: UrlSource,
    local_port: int,
    remote_port: int,
    *,
    ready: Callable[[int], None] | None = None,
    host: str = "127.0.0.1",
    protocols: tuple[str, ...] = ("spdy",),
    on_error: OnError = _logged,
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
