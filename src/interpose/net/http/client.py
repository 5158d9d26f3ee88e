"""HTTP/1.1 as a client: requests and responses over connections that are reused.

Invariant: a request whose bytes were sent is sent again only if the caller says that it may be, and then only if the
server seems to have closed an idle connection: no byte of a response had arrived.
"""

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import h11

from interpose.net.http.connect import CountingReader, describe
from interpose.net.http.errors import UnreachableError

_CHUNK: Final = 65536
Streams: TypeAlias = tuple[CountingReader, asyncio.StreamWriter]
Dial: TypeAlias = Callable[[ssl.SSLContext | None], Awaitable[Streams]]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpClientLimits:
    """What a server may cost us. Sizes in bytes, times in seconds."""

    head: int = 65536  # status line and headers
    body: int = 16 << 20  # of an answer, or a line of a watch; a page of a list is the largest
    idle: int = 2  # connections that are kept; more requests than that at a time are rare
    idle_time: float = 60.0  # API servers close after 90


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request. `again`: it may be sent twice without harm."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    again: bool = False


class _StaleError(Exception):
    """The connection ended before any byte of a response."""


class HttpResponse:
    """Status, reason phrase and headers (names in lower case) of a response, and its body as it arrives."""

    def __init__(
        self, status: int, reason: str, headers: Mapping[str, str], connection: "_Connection", limit: int
    ) -> None:
        self.status = status
        self.reason = reason
        self.headers = headers
        self._connection = connection
        self._limit = limit

    async def read(self) -> bytes:
        """The next part of the body; empty after the last."""
        return await self._connection.read()

    async def read_all(self) -> bytes:
        """The whole body, up to the limit."""
        body = bytearray()
        while data := await self.read():
            body += data
            if len(body) > self._limit:
                raise self._connection.make_error(f"the answer is larger than {self._limit} bytes")
        return bytes(body)


class HttpClient:
    """Requests to one server. `where` begins each error; `dial` makes a connection with a TLS context, or without.

    Redirects are refused, unless the caller wants to see them.
    """

    def __init__(
        self,
        where: str,
        dial: Dial,
        *,
        limits: HttpClientLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
        redirects: bool = False,
    ) -> None:
        self._where = where
        self._dial = dial
        self._redirects = redirects
        self._limits = limits or HttpClientLimits()
        self._clock = clock
        self._idle: list[tuple[_Connection, float]] = []  # each with the time since when
        self._sweeper: asyncio.TimerHandle | None = None
        self.dialled = 0

    @asynccontextmanager
    async def send_request(self, request: HttpRequest, context: ssl.SSLContext | None) -> AsyncIterator[HttpResponse]:
        """Send a request; the answer's body can be read inside. UnreachableError for all that goes wrong."""
        connection, response = await self._begin(request, context)
        reusable = False
        try:
            yield response
            reusable = connection.try_reuse()
        finally:
            if reusable:
                await self._put_idle(connection)
            else:
                await connection.close()

    async def close(self) -> None:
        """Close idle connections. Requests under way are left to their callers."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        idle, self._idle = self._idle, []
        for connection, _since in idle:
            await connection.close()

    async def _begin(self, request: HttpRequest, context: ssl.SSLContext | None) -> "tuple[_Connection, HttpResponse]":
        while True:
            idle = await self._take_idle(context)
            connection = idle or await self._connect(context)
            try:
                head = await connection.send(request)
                return connection, self._make_response(head, connection)
            except _StaleError as error:
                await connection.close()
                if idle is None or not request.again:
                    raise UnreachableError(f"{self._where}: {error}") from None
            except BaseException:
                await connection.close()
                raise

    async def _connect(self, context: ssl.SSLContext | None) -> "_Connection":
        self.dialled += 1
        reader, writer = await self._dial(context)
        return _Connection(reader, writer, context, self._where, self._limits.head)

    def _make_response(self, head: h11.Response, connection: "_Connection") -> HttpResponse:
        headers: dict[str, str] = {}
        for raw_name, raw_value in head.headers:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if 300 <= head.status_code < 400 and not self._redirects:
            # The server it leads to would get our token.
            location = headers.get("location", "nowhere")[:200]
            raise UnreachableError(f"{self._where}: redirects are not followed, this one leads to {location!r}")
        reason = head.reason.decode("latin-1")
        return HttpResponse(head.status_code, reason, headers, connection, self._limits.body)

    async def _take_idle(self, context: ssl.SSLContext | None) -> "_Connection | None":
        """An idle connection that is alive as far as we know; those of another identity are dropped."""
        oldest = self._clock() - self._limits.idle_time
        while self._idle:
            connection, since = self._idle.pop()
            if connection.context is context and since > oldest and connection.alive:
                return connection
            await connection.close()
        return None

    async def _put_idle(self, connection: "_Connection") -> None:
        if len(self._idle) >= self._limits.idle:
            await connection.close()
            return
        self._idle.append((connection, self._clock()))
        if self._sweeper is None:
            self._sweep_later()

    def _sweep_later(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(self._limits.idle_time, self._sweep)

    def _sweep(self) -> None:
        """Close connections that were idle for long, as the server does on its side."""
        self._sweeper = None
        oldest = self._clock() - self._limits.idle_time / 2
        for connection, since in self._idle:
            if since <= oldest or not connection.alive:
                connection.abort()
        self._idle = [(connection, since) for connection, since in self._idle if connection.alive]
        if self._idle:
            self._sweep_later()


class _Connection:
    """One connection, one request at a time."""

    def __init__(
        self,
        reader: CountingReader,
        writer: asyncio.StreamWriter,
        context: ssl.SSLContext | None,
        where: str,
        head: int,
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._where = where
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=head)
        self.context = context

    @property
    def alive(self) -> bool:
        """Whether the server has not closed it, as far as we know; nor may it have sent anything unasked."""
        reader = self._reader
        silent = not reader.unread and not reader.at_eof() and reader.exception() is None
        return silent and not self._writer.transport.is_closing()

    def try_reuse(self) -> bool:
        """Prepare the next request; False if the response was not read to its end or a side wants to close."""
        if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
            return False
        if self._http.trailing_data != (b"", False):
            return False
        self._http.start_next_cycle()
        return self.alive

    async def send(self, request: HttpRequest) -> h11.Response:
        """Send a request and wait for the head of its answer."""
        headers = list(request.headers)
        if request.body:
            headers.append(("Content-Length", str(len(request.body))))
        data = self._http.send(h11.Request(method=request.method, target=request.target, headers=headers))
        if request.body:
            data += self._http.send(h11.Data(data=request.body))
        data += self._http.send(h11.EndOfMessage())
        # A server may answer and close before it has read everything: its answer counts.
        with contextlib.suppress(OSError):
            self._writer.write(data)
            await self._writer.drain()
        received = False
        while True:
            event = self._next_event()
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                received = await self._receive(received=received) or received

    async def read(self) -> bytes:
        """The next part of the body; empty after the last."""
        while self._http.their_state is h11.SEND_BODY:
            event = self._next_event()
            if isinstance(event, h11.Data) and event.data:
                return bytes(event.data)
            if event is h11.NEED_DATA:
                await self._receive(received=True)
        return b""

    async def _receive(self, *, received: bool) -> bool:
        """Bytes from the server to the parser; whether there were any."""
        try:
            data = await self._reader.read(_CHUNK)
        except OSError as error:
            raise self._receive_error(describe(error), received=received) from None
        if not data and not received:
            raise self._receive_error("the connection was closed instead of an answer", received=False)
        self._http.receive_data(data)
        return bool(data)

    def _next_event(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            if self._reader.at_eof():
                raise self.make_error("the connection was closed in the middle of an answer") from None
            raise self.make_error(f"the answer is not HTTP as it should be: {error}") from None

    def _receive_error(self, cause: str, *, received: bool) -> Exception:
        return self.make_error(cause) if received else _StaleError(cause)

    def make_error(self, cause: str) -> UnreachableError:
        """An error that names the server."""
        return UnreachableError(f"{self._where}: {cause}")

    def abort(self) -> None:
        """Close at once. Nothing is lost: all requests were answered, or their callers have left."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Close and wait until it is closed; a server that does not close its side is not waited for."""
        self.abort()
        with contextlib.suppress(Exception):
            await self._writer.wait_closed()
