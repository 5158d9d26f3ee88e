"""dockerd: whether it is up, connections to it for clients, and calls of our own.

One connection of our own follows dockerd's events for as long as dockerd lives: it shows that dockerd is up, that it
went away, and what happens to containers. Calls of our own share a few idle connections; those of clients have one
each. Invariant: nothing is sent twice but a GET of our own that met an idle connection which was just being closed. Of
the events at most one line of bounded length is held; a longer one is skipped.
"""

import asyncio
import errno
import json
import logging
import random
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import quote

from interpose.core.backoff import Backoff
from interpose.log import RateLimited
from interpose.net.h1.heads import Heads, MalformedError, ResponseHead
from interpose.net.polled import SocketPoller, connect
from interpose.relay.docker.connection import CLOSED, DockerConnection, HttpReply
from interpose.relay.docker.events import ACTIONS
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
LONGEST: Final = 1 << 20


class EventStream:
    """The user of a connection that carries dockerd's events; calls `on_line` with each."""

    def __init__(self, backend: DockerConnection, on_line: Callable[[bytes], None]) -> None:
        loop = asyncio.get_running_loop()
        self.begun: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self._backend = backend
        self._on_line = on_line
        self._line = bytearray()
        self._skipping = False
        backend.ask("GET", self, decode=True)

    def on_data(self, data: bytes) -> None:
        reader = self._backend.reader
        reader.receive(data)
        try:
            while (item := reader.next()) is not None:
                if not isinstance(item, ResponseHead):
                    self._feed(item.data)
                    if item.end:
                        self._end("dockerd ended its events")
                        return
                elif not item.interim and not self._begin(item):
                    return
        except MalformedError as error:
            self._end(f"dockerd answered what is not HTTP: {error}")

    def _begin(self, head: ResponseHead) -> bool:
        if head.status != HTTPStatus.OK:
            self._end(f"dockerd answered HTTP {head.status} when asked for its events")
            return False
        if not self.begun.done():
            self.begun.set_result(None)
        return True

    def _feed(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._line += line
            whole, self._line = bytes(self._line), bytearray()
            if self._skipping or len(whole) > LONGEST:
                self._skipping = False
                _log.warning("Event too long, skipped", extra={"kv": {"bytes": len(whole)}})
            elif whole.strip():
                self._handle_line(whole)
        self._line += rest
        if len(self._line) > LONGEST:
            self._skipping = True
            self._line.clear()

    def _handle_line(self, line: bytes) -> None:
        try:
            self._on_line(line)
        except Exception:
            _log.exception("Handling of an event failed")

    def _end(self, why: str) -> None:
        if not self.begun.done():
            self.begun.set_exception(ConnectionError(why))
        if not self.ended.done():
            self.ended.set_result(why)
        self._backend.abort()

    def on_eof(self) -> bool:
        self._end(CLOSED)
        return False

    def on_lost(self, why: str) -> None:
        self._end(why)

    def on_blocked(self) -> None:
        """Nothing to do: one small request was written."""

    def on_writable(self) -> None:
        """Nothing to do: nothing is queued."""


_BACKOFF: Final = Backoff(0.1, 1.0)
_DIAL_TIMEOUT: Final = 5.0
# An event stream that ended sooner than this was of no use: dialling again at once would go round in circles.
_OF_USE: Final = 1.0
_MAX_IDLE: Final = 8
# Seconds for which a closing connection may wait until dockerd reads the last bytes.
_PARTING: Final = 10
_LOG_BURST: Final = 5
# Only what changes what we know; probes alone make events by the hundred. Which containers are Kubernetes' is more than
# a filter can say.
_FILTERS: Final = {"type": ["container"], "event": list(ACTIONS)}
_EVENTS: Final = "/events?filters=" + quote(json.dumps(_FILTERS, separators=(",", ":")))


class BackendAwayError(ConnectionError):
    """dockerd cannot be reached; the message names its socket and the reason."""


class DockerUpstream:
    """Connections to dockerd's socket. `up` is what metrics and readiness show."""

    def __init__(
        self, path: str, *, heads: Heads, wait: float, limit: int, find: Callable[[], str] | None = None
    ) -> None:
        """`find` is called before each dial, if the path is known only when dockerd is up."""
        self.path = path
        self.limit = limit  # of a message that is held as a whole
        self.up = False
        self.dials = 0
        self.failures = 0
        self.last_error = f"{path}: not dialled yet"
        self.on_up: Callable[[], None] | None = None
        self.on_event: Callable[[bytes], None] | None = None
        self.on_unexpected_data: Callable[[], None] | None = None  # dockerd sent data without a request
        self.poller = SocketPoller()  # of all connections, those of clients too
        self._heads = heads
        self._wait = wait
        self._find = find
        self._backends: set[DockerConnection] = set()
        self._idle: list[DockerConnection] = []
        self._places = asyncio.Semaphore(_MAX_IDLE)
        self._reachable = asyncio.Event()
        self._tasks = TaskBag()
        self._watching = False
        self._event_session = 0
        self._closing = False
        self._since = time.monotonic()
        self._limited = RateLimited(_log, burst=_LOG_BURST)
        self._reported = ""

    @property
    def connections(self) -> int:
        return len(self._backends)

    @property
    def event_session(self) -> int:
        """0 while no events are received; another number for each new event stream."""
        return self._event_session if self.up else 0

    @property
    def state_age(self) -> float:
        """Seconds since dockerd came up or went away."""
        return time.monotonic() - self._since

    def start(self) -> None:
        """Begin to follow dockerd's events, until `close`."""
        if not self._watching and not self._closing:
            self._watching = True
            self._tasks.spawn(self._watch(), name=f"events of {self.path}")

    def tick(self) -> None:
        """Called once a second: abort connections that do not take their last bytes."""
        for backend in list(self._backends):
            if backend.closing:
                backend.closing_for += 1
                if backend.closing_for > _PARTING:
                    backend.abort()

    async def close(self) -> None:
        """Stop following events and abort all connections."""
        self._closing = True
        await self._tasks.cancel()
        for backend in list(self._backends):
            backend.abort()

    # Dialling

    def dial(self) -> DockerConnection:
        """One attempt, which takes no time: a unix socket is connected at once or not at all. ConnectionError says why
        not."""
        self.dials += 1
        backend = DockerConnection(self._heads, self._backends.discard, self._on_unexpected_data)
        try:
            if self._find is not None:
                self.path = self._find()
            connect(self.poller, self.path, lambda: backend)
        except OSError as error:
            self.failures += 1
            why = error.strerror or str(error)
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._limited.log(logging.WARNING, why, key=why, endpoint=self.path)
            raise ConnectionError(why) from error
        self._backends.add(backend)
        return backend

    def _on_unexpected_data(self) -> None:
        if self.on_unexpected_data is not None:
            self.on_unexpected_data()
        self._limited.log(logging.ERROR, "Backend sent something that nobody asked for", endpoint=self.path)

    async def connect(
        self, is_awaited: Callable[[], bool] | None = None, first: ConnectionError | None = None
    ) -> DockerConnection:
        """A connection of the caller's own; waits for dockerd if it is away, but not for long.

        It does not wait once `is_awaited` returns False; one attempt is made all the same. That may have been the
        caller's, which failed with `first`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._wait
        failed = 0
        while True:
            try:
                if first is not None:
                    error, first = first, None
                    raise error
                return self.dial()
            except ConnectionError as error:
                failed += 1
                left = deadline - loop.time()
                if self._closing or left <= 0 or not (is_awaited is None or is_awaited()):
                    raise BackendAwayError(f"docker daemon {self.path} is not reachable: {error}") from error
            self._reachable.clear()
            try:
                # The event stream may find it first.
                async with asyncio.timeout(min(_BACKOFF.delay(failed), left)):
                    await self._reachable.wait()
            except TimeoutError:
                pass

    # Calls of our own

    async def request(self, method: str, target: str, body: bytes = b"", *, timeout: float) -> HttpReply:
        """A call of one of our own parts. Never raises for what goes wrong: the reply's `failure` says it."""
        lines = [f"{method} {target} HTTP/1.1", "Host: docker", "User-Agent: interpose"]
        if body or method not in ("GET", "HEAD", "DELETE"):
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        request = ("\r\n".join(lines) + "\r\n\r\n").encode("ascii") + body
        try:
            async with asyncio.timeout(timeout), self._places:
                return await self._ask(method, request)
        except TimeoutError:
            return HttpReply(failure=f"docker daemon {self.path} did not answer within {timeout:g} s")
        except BackendAwayError as error:
            return HttpReply(failure=str(error))

    async def _ask(self, method: str, request: bytes) -> HttpReply:
        # Only what may be sent again goes on a connection that might just be closing.
        backend = self._take_idle() if method in ("GET", "HEAD") else None
        if backend is not None:
            reply = await self._fetch(backend, method, request)
            if reply.raw or not reply.failure:
                return reply
        return await self._fetch(await self.connect(), method, request)

    def _take_idle(self) -> DockerConnection | None:
        while self._idle:
            backend = self._idle.pop()
            if not backend.closing and not backend.eof:
                return backend
        return None

    async def _fetch(self, backend: DockerConnection, method: str, request: bytes) -> HttpReply:
        reply = await backend.fetch(method, request, self.limit)
        if not backend.closing and not backend.eof:
            if len(self._idle) < _MAX_IDLE and not self._closing:
                self._idle.append(backend)
            else:
                backend.close()
        return reply

    # Events

    async def _watch(self) -> None:
        failed = 0
        while not self._closing:
            if failed:
                await asyncio.sleep(_BACKOFF.delay(failed) * random.uniform(0.9, 1.0))
            began = time.monotonic()
            try:
                why = await self._follow()
            except (ConnectionError, TimeoutError) as error:
                failed += 1
                self._note_failure(str(error) or f"no answer within {_DIAL_TIMEOUT:g} s")
            else:
                self._on_disconnected(why)
                failed = 0 if time.monotonic() - began > _OF_USE else failed + 1

    async def _follow(self) -> str:
        """Follow the events until dockerd goes away; returns the reason. ConnectionError if it was never up."""
        backend = self.dial()
        lines = EventStream(backend, self._on_event)
        backend.write(f"GET {_EVENTS} HTTP/1.1\r\nHost: docker\r\nUser-Agent: interpose\r\n\r\n".encode("ascii"))
        try:
            async with asyncio.timeout(_DIAL_TIMEOUT):
                await lines.begun
            self._on_connected()
            return await lines.ended
        finally:
            backend.user = None
            backend.abort()

    def _on_event(self, line: bytes) -> None:
        if self.on_event is not None:
            self.on_event(line)

    def _on_connected(self) -> None:
        self.up = True
        self._event_session += 1
        self._since = time.monotonic()
        self.last_error = self._reported = ""
        self._reachable.set()
        self._limited.log(logging.INFO, "Connected to backend", endpoint=self.path)
        if self.on_up is not None:
            # Not from here: what goes wrong there must not end the watch.
            asyncio.get_running_loop().call_soon(self.on_up)

    def _on_disconnected(self, why: str) -> None:
        self.up = False
        self._since = time.monotonic()
        self.last_error = f"{self.path}: {why}"
        self._limited.log(logging.INFO, "Backend connection ended", key=why, endpoint=self.path, reason=why)

    def _note_failure(self, why: str) -> None:
        self.last_error = f"{self.path}: {why}"
        if why != self._reported:
            self._reported = why
            self._limited.log(logging.WARNING, "Backend is not reachable", key=why, endpoint=self.path, err=why)
