"""HTTP/1.1 as a client: requests and answers over connections that are kept for the next request.

Invariant: a request whose bytes were sent is sent again only if the caller says that it may be, and then only on the
suspicion that the server had closed an idle connection: no byte of an answer had come.
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
    """What is asked. `again`: may be sent twice without harm."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    again: bool = False


class _StaleError(Exception):
    """The connection ended before any byte of an answer."""


class HttpResponse:
    """Status and headers (names in lower case) of an answer, and its body as it comes."""

    def __init__(self, status: int, headers: Mapping[str, str], connection: "_Connection", limit: int) -> None:
        self.status = status
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
                raise self._connection.wrong(f"the answer is larger than {self._limit} bytes")
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
        self._idle: list[tuple[_Connection, float]] = []  # with the moment since when
        self._sweeper: asyncio.TimerHandle | None = None
        self.dialled = 0

    @asynccontextmanager
    async def ask(self, request: HttpRequest, context: ssl.SSLContext | None) -> AsyncIterator[HttpResponse]:
        """Send a request; the answer's body can be read inside. UnreachableError for all that goes wrong."""
        connection, answer = await self._begin(request, context)
        whole = False
        try:
            yield answer
            whole = connection.finished()
        finally:
            if whole:
                await self._keep(connection)
            else:
                await connection.close()

    async def close(self) -> None:
        """Close what is idle. Requests under way are those of their callers."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        idle, self._idle = self._idle, []
        for connection, _since in idle:
            await connection.close()

    async def _begin(self, request: HttpRequest, context: ssl.SSLContext | None) -> "tuple[_Connection, HttpResponse]":
        while True:
            kept = await self._kept(context)
            connection = kept or await self._fresh(context)
            try:
                head = await connection.send(request)
                return connection, self._answer(head, connection)
            except _StaleError as error:
                await connection.close()
                if kept is None or not request.again:
                    raise UnreachableError(f"{self._where}: {error}") from None
            except BaseException:
                await connection.close()
                raise

    async def _fresh(self, context: ssl.SSLContext | None) -> "_Connection":
        self.dialled += 1
        reader, writer = await self._dial(context)
        return _Connection(reader, writer, context, self._where, self._limits.head)

    def _answer(self, head: h11.Response, connection: "_Connection") -> HttpResponse:
        headers: dict[str, str] = {}
        for raw_name, raw_value in head.headers:
            name, value = raw_name.decode("latin-1"), raw_value.decode("latin-1")
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        if 300 <= head.status_code < 400 and not self._redirects:
            # Whoever it leads to would get our token.
            place = headers.get("location", "nowhere")[:200]
            raise UnreachableError(f"{self._where}: redirects are not followed, this one leads to {place!r}")
        return HttpResponse(head.status_code, headers, connection, self._limits.body)

    async def _kept(self, context: ssl.SSLContext | None) -> "_Connection | None":
        """An idle connection that is alive as far as we know; those of another identity are dropped."""
        oldest = self._clock() - self._limits.idle_time
        while self._idle:
            connection, since = self._idle.pop()
            if connection.context is context and since > oldest and connection.alive:
                return connection
            await connection.close()
        return None

    async def _keep(self, connection: "_Connection") -> None:
        if len(self._idle) >= self._limits.idle:
            await connection.close()
            return
        self._idle.append((connection, self._clock()))
        if self._sweeper is None:
            self._sweep_later()

    def _sweep_later(self) -> None:
        self._sweeper = asyncio.get_running_loop().call_later(self._limits.idle_time, self._sweep)

    def _sweep(self) -> None:
        """Nobody asked for a while: the server closes its side, and so do we."""
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
        """Whether the server has not closed it, as far as we were told; nor may it have said anything unasked."""
        reader = self._reader
        silent = not reader.unread and not reader.at_eof() and reader.exception() is None
        return silent and not self._writer.transport.is_closing()

    def finished(self) -> bool:
        """Ready for the next request: the answer was read to its end and both sides want to go on."""
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
            event = self._next()
            if isinstance(event, h11.Response):
                return event
            if event is h11.NEED_DATA:
                received = await self._receive(received=received) or received

    async def read(self) -> bytes:
        """The next part of the body; empty after the last."""
        while self._http.their_state is h11.SEND_BODY:
            event = self._next()
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
            raise self._broken(describe(error), received=received) from None
        if not data and not received:
            raise self._broken("the connection was closed instead of an answer", received=False)
        self._http.receive_data(data)
        return bool(data)

    def _next(self) -> object:
        try:
            return self._http.next_event()
        except h11.RemoteProtocolError as error:
            if self._reader.at_eof():
                raise self.wrong("the connection was closed in the middle of an answer") from None
            raise self.wrong(f"the answer is not HTTP as it should be: {error}") from None

    def _broken(self, cause: str, *, received: bool) -> Exception:
        return self.wrong(cause) if received else _StaleError(cause)

    def wrong(self, cause: str) -> UnreachableError:
        """An error that says whom we asked."""
        return UnreachableError(f"{self._where}: {cause}")

    def abort(self) -> None:
        """Let go at once. Nothing is lost: all that we sent was answered, or nobody waits for it any more."""
        self._writer.transport.abort()

    async def close(self) -> None:
        """Let go and wait until it is gone; a server that does not say goodbye is not waited for."""
        self.abort()
        with contextlib.suppress(Exception):
            await self._writer.wait_closed()
