"""Port forwarding as a client: a port here, whose connections end at a port inside a sandbox.

One connection to the server carries all of them where that is possible (SPDY, also through WebSocket); it is made when
the first is needed, and again when it was lost. Over plain WebSocket channels each has its own.

Invariant: a connection that cannot be forwarded is closed and its reason told; the others, and the port, stay.
"""

import asyncio
import logging
import os
import ssl
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from interpose.instrumentation.logging import kv
from interpose.rpc.tasks import TaskBag
from interpose.streaming.channels import port_bytes
from interpose.streaming.copying import close_writer, copy_both
from interpose.streaming.dialing import StreamError, UrlSource, dial
from interpose.streaming.link import Channel, Link, LinkLostError
from interpose.streaming.portsession import DATA, ERROR
from interpose.streaming.spdylink import SpdyLink
from interpose.streaming.upgrading import Kind
from interpose.streaming.websocketlink import WebSocketLink

_log = logging.getLogger(__name__)
_WORDS: Final = 4096  # bytes of an error that are shown
_PATIENCE: Final = 2.0  # seconds for an error to come when data has ended
_QUIET: Final = 5.0  # seconds without a byte after which a connection is over that cannot be half-closed
OnError = Callable[[str], None]


def _logged(message: str) -> None:
    _log.warning("Connection could not be forwarded", extra=kv(error=message))


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
        self._link: SpdyLink | None = None
        self._dialling = asyncio.Lock()
        self._requests = 0
        self._where = ""

    async def start(self) -> None:
        """Listen. OSError if that is not possible."""
        self._server = await asyncio.start_server(self._accepted, self._host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and end all connections."""
        if self._server is not None:
            self._server.close()
        await self._tasks.cancel()
        if self._link is not None:
            await self._link.close()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._tasks.spawn(self._serve(reader, writer), name="forwarded connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own: Link | None = None
        try:
            data, error, own = await self._channels()
            words = self._tasks.spawn(_words(error), name="forwarding error")
            # Without half-closes the server cannot be told that this side has ended: silence has to do.
            await copy_both(data, reader, writer, patience=None if own is None else _QUIET)
            data.reset()
            with suppress(TimeoutError):
                async with asyncio.timeout(_PATIENCE):
                    if text := await words:
                        self._on_error(text)
            words.cancel()
        except (StreamError, LinkLostError) as problem:
            where = "" if isinstance(problem, StreamError) else f"{self._where}: "
            self._on_error(f"{where}{problem}")
        except Exception as problem:
            _log.exception("Forwarding failed")
            self._on_error(str(problem))
        finally:
            await close_writer(writer)
            if own is not None:
                await own.close()

    async def _channels(self) -> tuple[Channel, Channel, Link | None]:
        """Where data and errors go, and the link if it is for this connection alone."""
        async with self._dialling:
            if self._link is None or self._link.lost.is_set():
                if self._link is not None:
                    await self._link.close()
                upgraded = await dial(
                    self._source, Kind.PORTS, self._protocols, timeout=self._timeout, context=self._context
                )
                self._where = upgraded.where
                if upgraded.protocol.startswith("v4."):
                    link = WebSocketLink(upgraded.wire, (0, 1), client=True, closes=False, random=os.urandom)
                    link.start()
                    return await self._by_channels(link)
                self._link = SpdyLink(upgraded.wire, client=True)
                self._link.start()
            shared = self._link
        return (*await self._by_streams(shared), None)

    async def _by_streams(self, link: SpdyLink) -> tuple[Channel, Channel]:
        self._requests += 1
        headers = {"port": str(self._remote), "requestID": str(self._requests)}
        try:
            async with asyncio.timeout(self._timeout):
                error = await link.open({"streamType": ERROR, **headers})
                error.finish()
                return await link.open({"streamType": DATA, **headers}), error
        except TimeoutError:
            raise StreamError(f"{self._where}: no stream within {self._timeout:g} s") from None

    async def _by_channels(self, link: WebSocketLink) -> tuple[Channel, Channel, Link]:
        """Both channels begin with the port."""
        data, error = link.channel(0), link.channel(1)
        try:
            async with asyncio.timeout(self._timeout):
                for channel in (data, error):
                    if await channel.read() != port_bytes(self._remote):
                        raise StreamError(f"{self._where}: the server did not begin with port {self._remote}")
        except BaseException as problem:
            await link.close()
            if isinstance(problem, TimeoutError):
                raise StreamError(f"{self._where}: nothing came within {self._timeout:g} s") from None
            raise
        return data, error, link


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
