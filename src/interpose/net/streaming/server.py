"""The streaming server of a runtime: URLs for exec, attach and ports, and what is behind them.

Only loopback by default, no TLS, and nothing but a token protects a URL: it is random, good for one use and for a
minute. A request that cannot be served (not an upgrade, a protocol we do not speak) does not use it up.

Invariant: `close` leaves no session, no connection and no work of the handler behind.
"""

import asyncio
import base64
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from interpose.log import kv
from interpose.net.h1.heads import Heads, MalformedError, RequestHead
from interpose.net.h1.messages import RequestReader
from interpose.net.streaming.byte_transport import ByteTransport, TcpTransport
from interpose.net.streaming.channels import MOST_PORTS, TUNNEL
from interpose.net.streaming.exec_session import CommandSession, RequestedStreams, Work
from interpose.net.streaming.handler import ByteReader, ByteWriter, SessionIo, StreamHandler
from interpose.net.streaming.limits import StreamLimits
from interpose.net.streaming.portforward_session import PortSession
from interpose.net.streaming.upgrade import SessionKind, StreamTransport, UpgradeAgreement, UpgradeRefusal, negotiate
from interpose.net.streaming.url_tokens import Tokens
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
_KINDS: Final = {"exec": SessionKind.COMMAND, "attach": SessionKind.COMMAND, "portforward": SessionKind.PORTS}
_NOT_FOUND: Final = UpgradeRefusal(404, "404 page not found")
_CLOSE_TIMEOUT: Final = 5.0  # seconds that sessions have to tell their clients that the server ends


class _Session(Protocol):
    async def run(self, wire: ByteTransport, transport: StreamTransport, protocol: str) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Request:
    """A session that a client may open once with its token."""

    endpoint: str  # a key of _KINDS
    session: Callable[[], _Session]
    ports: int = 0


class StreamServer:
    """Serves what its own URLs ask for. `url_host` is the name in URLs, if it is not the address listened on."""

    def __init__(
        self,
        handler: StreamHandler,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        url_host: str | None = None,
        limits: StreamLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._handler = handler
        self._host = host
        self._port = port
        self._url_host = url_host or host
        self._limits = limits or StreamLimits()
        self._clock = clock
        self._tokens: Tokens[_Request] = Tokens(
            _make_token, limit=self._limits.outstanding, lifetime=self._limits.lifetime
        )
        self._heads = Heads(entries=0)  # every head has a token in it
        self._tasks = TaskBag()
        self._closing = asyncio.Event()
        self._server: asyncio.Server | None = None

    @property
    def port(self) -> int:
        """The port listened on, once started."""
        return self._port

    @property
    def sessions(self) -> int:
        """The number of open connections."""
        return len(self._tasks)

    async def start(self) -> None:
        """Listen. OSError if that is not possible."""
        self._server = await asyncio.start_server(self._on_connection, self._host, self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening, tell the clients, and end everything."""
        self._closing.set()
        if self._server is not None:
            self._server.close()
        await self._tasks.wait_finished(_CLOSE_TIMEOUT)
        await self._tasks.cancel()

    def exec_url(
        self, container_id: str, command: tuple[str, ...], tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """Where a command can be run, once. TooManyRequestsError if too many URLs are outstanding."""

        async def work(streams: SessionIo) -> int | None:
            return await self._handler.exec(container_id, tuple(command), tty, streams)

        return self._command_url("exec", work, RequestedStreams(tty=tty, stdin=stdin, stdout=stdout, stderr=stderr))

    def attach_url(self, container_id: str, tty: bool, stdin: bool, stdout: bool, stderr: bool) -> str:
        """Where a container's own streams are, once. TooManyRequestsError as for exec."""

        async def work(streams: SessionIo) -> int | None:
            return await self._handler.attach(container_id, tty, streams)

        return self._command_url("attach", work, RequestedStreams(tty=tty, stdin=stdin, stdout=stdout, stderr=stderr))

    def port_forward_url(self, sandbox_id: str, ports: tuple[int, ...]) -> str:
        """Where ports of a sandbox are, for one client. TooManyRequestsError as for exec."""

        async def connect(port: int) -> tuple[ByteReader, ByteWriter]:
            return await self._handler.port_forward(sandbox_id, port)

        ports = tuple(ports)
        return self._make_url(
            "portforward", lambda: PortSession(ports, connect, self._limits, self._closing), len(ports)
        )

    def _command_url(self, endpoint: str, work: Work, wanted: RequestedStreams) -> str:
        return self._make_url(endpoint, lambda: CommandSession(wanted, work, self._limits, self._closing))

    def _make_url(self, endpoint: str, session: Callable[[], _Session], ports: int = 0) -> str:
        token = self._tokens.issue(_Request(endpoint=endpoint, session=session, ports=ports), self._clock())
        host = f"[{self._url_host}]" if ":" in self._url_host else self._url_host
        return f"http://{host}:{self._port}/{endpoint}/{token}"

    def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._tasks) >= self._limits.connections or self._closing.is_set():
            writer.transport.abort()
            return
        self._tasks.spawn(self._serve(reader, writer), name="streaming connection")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection: one request, one session."""
        wire = TcpTransport(reader, writer)
        try:
            request_or_refusal = await self._read_request(reader)
            if isinstance(request_or_refusal, UpgradeRefusal):
                await self._refuse(wire, request_or_refusal)
                return
            request, agreed, rest = request_or_refusal
            wire.unread(rest)
            wire.send(agreed.answer)
            await request.session().run(wire, agreed.transport, agreed.protocol)
        except OSError as error:
            _log.debug("Streaming connection ended", extra=kv(error=str(error)))
        except Exception:
            _log.exception("Streaming connection failed")
        finally:
            wire.abort()

    async def _read_request(
        self, reader: asyncio.StreamReader
    ) -> "UpgradeRefusal | tuple[_Request, UpgradeAgreement, bytes]":
        """The session, what was agreed, and the bytes that followed the request; or a refusal."""
        requests = RequestReader(self._heads)
        try:
            async with asyncio.timeout(self._limits.head):
                while (head := requests.next()) is None:
                    data = await reader.read(4096)
                    if not data:
                        raise ConnectionResetError("closed before a request")
                    requests.receive(data)
        except MalformedError as error:
            return UpgradeRefusal(error.status, str(error))
        except TimeoutError:
            return UpgradeRefusal(408, f"no request came within {self._limits.head:g} s")
        assert isinstance(head, RequestHead)  # noqa: S101 - the first thing out of a reader is a head
        return self._choose_session(head, requests)

    def _choose_session(
        self, head: RequestHead, requests: RequestReader
    ) -> "UpgradeRefusal | tuple[_Request, UpgradeAgreement, bytes]":
        endpoint, _, token = head.path.removeprefix("/").partition("/")
        request = self._tokens.peek(token, self._clock())
        if request is None or request.endpoint != endpoint:
            return _NOT_FOUND
        agreed = negotiate(_KINDS[endpoint], head)
        if isinstance(agreed, UpgradeRefusal):
            return agreed
        by_channels = agreed.transport is StreamTransport.WEBSOCKET and agreed.protocol != TUNNEL
        if _KINDS[endpoint] is SessionKind.PORTS and by_channels:
            if not request.ports:
                return UpgradeRefusal(
                    400, f"over {agreed.protocol} the ports must be known before: the request named none"
                )
            if request.ports > MOST_PORTS:
                return UpgradeRefusal(
                    400, f"over {agreed.protocol} go {MOST_PORTS} ports, the request named {request.ports}"
                )
        self._tokens.take(token, self._clock())
        return request, agreed, requests.take_rest()

    async def _refuse(self, wire: TcpTransport, refusal: UpgradeRefusal) -> None:
        """Answer and close. What the client still sends is read: unread bytes would reset the connection."""
        wire.send(refusal.answer)
        try:
            async with asyncio.timeout(self._limits.linger):
                await wire.drain()
                wire.half_close()
                while await wire.read():
                    pass
        except TimeoutError:
            pass
        await wire.close()


def _make_token() -> str:
    """8 URL-safe characters of 48 random bits."""
    return base64.urlsafe_b64encode(os.urandom(6)).decode("ascii")
