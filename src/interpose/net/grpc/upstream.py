"""A backend: one shared connection, dialled again and again, a further one when it is full.

Callers ask for a connection; if there is none now they wait for the next dial, at most `wait` seconds. The relay never
re-sends a call: what was on a lost connection is over. A peer that was there and is gone is dialled at once; one that
takes connections and hangs up, again and again, is dialled at the pace of one that takes none.

A client that asks for more than its share has connections to the backend of its own (`separate`), for as long as that
is remembered: what it does to windows, streams and buffers there affects no other client.
"""

import asyncio
import logging
import random
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from itertools import islice
from typing import Final, Protocol

from interpose.core.backoff import Backoff
from interpose.log import RateLimited
from interpose.net.grpc.fairness import PeerAccount
from interpose.net.grpc.transport import BACKLOG_LIMIT, Hub, Link
from interpose.net.h2.client import ClientConnection
from interpose.net.h2.limits import Limits
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 1.0
_DIAL_TIMEOUT: Final = 5.0
# A connection that ended sooner than this was of no use: dialling again at once would go round in circles.
_USEFUL_SECONDS: Final = 1.0
_MOST_CONNECTIONS: Final = 64
# So many clients have connections of their own; further ones share these. Each may have this part of all calls.
_MOST_SEPARATE: Final = 4
_SEPARATE_PART: Final = 4
_LOOK_AGAIN: Final = 0.02
# What a call that waits holds beside its headers.
_WAITER_SIZE: Final = 1024
# Calls that waited and go on in one turn of the loop.
_SERVED_AT_ONCE: Final = 16
_CLOSED: Final = "the backend closed the connection"
# Lines of a kind in a minute: restarts of a peer are logged each time, one that comes and goes all the time
# does not fill the disk.
LOG_BURST: Final = 5


class Waiter:
    """A call that waits for a connection. Exactly one of `ready` and `expired` is called, unless cancelled."""

    __slots__ = ("_timer", "expired", "ready", "size")

    def __init__(
        self, ready: Callable[[ClientConnection], None], expired: Callable[[str], None], size: int = 0
    ) -> None:
        """`size` is how many bytes of headers it holds meanwhile."""
        self.ready = ready
        self.expired = expired
        self.size = size
        self._timer: asyncio.TimerHandle | None = None

    def arm(self, timer: asyncio.TimerHandle) -> None:
        """Remember the timer that ends the wait."""
        self._timer = timer

    def disarm(self) -> None:
        """End the wait, and drop the references to the caller."""
        self.ready = self.expired = _do_nothing
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _do_nothing(_: object) -> None:
    """The callback of a wait that has ended."""


class Reports(Protocol):
    """Receives the events of an upstream, to log them in words for its kind of peer."""

    def unreachable(self, path: str, error: str) -> None:
        """A dial failed, for another reason than the one before."""

    def connected(self, path: str, connections: int) -> None:
        """The peer's settings have come; it has this many connections now."""

    def lost(self, path: str, fault: str | None) -> None:
        """A connection ended: the peer closed it, or broke the protocol in this way."""


class BackendLog:
    """Logs events of an upstream in words for a container runtime."""

    def __init__(self) -> None:
        self._limited = RateLimited(_log, burst=LOG_BURST)

    def unreachable(self, path: str, error: str) -> None:
        self._limited.log(logging.WARNING, "Backend is not reachable", key=error, endpoint=path, err=error)

    def connected(self, path: str, connections: int) -> None:
        self._limited.log(logging.INFO, "Connected to backend", endpoint=path, connections=connections)

    def lost(self, path: str, fault: str | None) -> None:
        level, reason = (logging.INFO, _CLOSED) if fault is None else (logging.ERROR, fault)
        self._limited.log(level, "Backend connection ended", key=reason, endpoint=path, reason=reason)


def doubling_pause(first: float, most: float) -> Callable[[int], Awaitable[None]]:
    """A pace for dials: the first one at once, further ones after pauses of `first` to `most` seconds."""
    backoff = Backoff(first, most, random=random.random, jitter=0.1)

    async def pause(failed: int) -> None:
        if failed:
            await asyncio.sleep(backoff.delay(failed))

    return pause


class Upstream:
    """Connections to one unix socket. `up` is what metrics and readiness show."""

    def __init__(
        self,
        path: str,
        *,
        hub: Hub,
        limits: Limits,
        wait: float,
        find: Callable[[], str] | None = None,
        vet: Callable[[socket.socket], None] | None = None,
        pace: Callable[[int], Awaitable[None]] | None = None,
        dial_timeout: float = _DIAL_TIMEOUT,
        reports: Reports | None = None,
        account: PeerAccount | None = None,
    ) -> None:
        """`pace` is awaited before a dial, with the number of dials just before it that failed.

        `vet` is asked about each connection before anything is sent; OSError says why it is not for us. With `account`
        it serves the calls of one client, which is charged for reading the answers, and is dialled for calls only.
        """
        self.path = path
        self.on_up: Callable[[], None] | None = None  # called each time a backend that was away is back
        self._find = find  # asked before each dial, if where the backend is may only be known when it is there
        self.current: ClientConnection | None = None
        self.dials = 0
        self.failures = 0
        self.last_error = "not dialled yet"
        self.greeting = False  # dialled, and the first settings have not come yet
        self._hub = hub
        self._limits = limits
        self._wait = wait
        self._vet = vet
        self._pace = pace or doubling_pause(_FIRST_PAUSE, _LONGEST_PAUSE)
        self._dial_timeout = dial_timeout
        self._reports = reports if reports is not None else BackendLog()
        self._reported = ""  # the failure logged last, so that each is logged once
        self._account = account
        self._separate: dict[PeerAccount, Upstream] = {}
        self._parts: list[Upstream] = []  # those, and the ones that are still to end
        self._links: dict[ClientConnection, _BackendLink] = {}
        self._waiters: dict[Waiter, None] = {}
        self._waiting_size = 0
        self._tasks = TaskBag()
        self._dialling = False
        self._polling = False
        self._closing = False
        self._short_lived = 0  # connections in a row that were of no use
        self.useful_seconds = _USEFUL_SECONDS  # a connection that ends sooner was of no use
        self._since = time.monotonic()

    @property
    def up(self) -> bool:
        """Whether a connection is there."""
        return any(not conn.draining for conn in self._links)

    @property
    def connections(self) -> int:
        return len(self._links) + sum(part.connections for part in self._parts)

    @property
    def busy(self) -> bool:
        """Whether calls are in flight."""
        return any(conn.streams for conn in self._links)

    @property
    def state_age(self) -> float:
        """Seconds since the backend came or went."""
        return time.monotonic() - self._since

    def start(self) -> None:
        """Begin to dial, and keep a connection from now on."""
        self._dial()

    def connection(self) -> ClientConnection | None:
        """A connection that takes one more stream, if there is one now."""
        current = self.current
        if current is not None and current.usable:
            return current
        for conn in self._links:
            if conn.usable:
                self.current = conn
                return conn
        self._dial()
        return None

    def widen(self) -> None:
        """Allow more streams: there is one client, as far as is known in this second."""
        if self.current is not None:
            self.current.widen()

    def separate(self, account: PeerAccount) -> "Upstream":
        """The connections for the calls of this client alone."""
        part = self._separate.get(account)
        if part is None:
            used = list(dict.fromkeys(self._separate.values()))
            part = used[len(self._separate) % len(used)] if len(used) >= _MOST_SEPARATE else self._part(account)
            self._separate[account] = part
        return part

    def _part(self, account: PeerAccount) -> "Upstream":
        part = Upstream(
            self.path,
            hub=self._hub,
            limits=replace(self._limits, streams=max(self._limits.streams // _SEPARATE_PART, 1)),
            wait=self._wait,
            find=self._find,
            vet=self._vet,
            pace=self._pace,
            dial_timeout=self._dial_timeout,
            reports=self._reports,
            account=account,
        )
        self._parts.append(part)
        return part

    def _tick_parts(self) -> None:
        for account in [account for account in self._separate if not account.memory]:
            del self._separate[account]
        used = set(map(id, self._separate.values()))
        for part in list(self._parts):
            part.tick()
            if id(part) not in used and part.idle:
                self._parts.remove(part)
                part.end()

    @property
    def idle(self) -> bool:
        """Whether no call uses it or waits for it."""
        return not self._waiters and not self._dialling and not any(conn.streams for conn in self._links)

    def end(self) -> None:
        """Close the connections, which are idle."""
        self._closing = True
        for link in list(self._links.values()):
            link.close()

    @property
    def places(self) -> tuple[int, int]:
        """How many further calls may be in progress, and how many in all."""
        limit = self._limits.streams
        return limit - sum(len(conn.streams) for conn in self._links), limit

    @property
    def congested(self) -> bool:
        """Whether the backend has stopped reading and a lot waits for it already."""
        link = self._links.get(self.current) if self.current is not None else None
        return link is not None and link.congested

    @property
    def overfull(self) -> bool:
        """Whether waiting calls hold more than would be written to a backend that does not read."""
        return self._waiting_size + len(self._waiters) * _WAITER_SIZE > BACKLOG_LIMIT // 2

    def wait(self, waiter: Waiter) -> None:
        """Call back with the next usable connection, or after the longest wait with the reason."""
        self._waiters[waiter] = None
        self._waiting_size += waiter.size
        self._arm(waiter)
        self._dial()

    def _arm(self, waiter: Waiter) -> None:
        waiter.arm(asyncio.get_running_loop().call_later(self._wait, self._expire, waiter))

    def cancel(self, waiter: Waiter) -> None:
        """Remove a call that waits no more."""
        if waiter in self._waiters:
            del self._waiters[waiter]
            self._waiting_size -= waiter.size
        waiter.disarm()

    def _expire(self, waiter: Waiter) -> None:
        """Fail a call for which there was no connection. If there is one now, the call only waits for its turn."""
        conn = self.connection()
        if conn is None or conn.blocked:
            self._fail(waiter)
        elif waiter in self._waiters:
            self._arm(waiter)
            self._look_again(0.0)

    def _fail(self, waiter: Waiter) -> None:
        if waiter in self._waiters:
            expired = waiter.expired
            self.cancel(waiter)
            expired(self._unavailable_reason())
            self._hub.flush()

    def _unavailable_reason(self) -> str:
        if self._links:
            return f"runtime {self.path} takes no further calls now"
        return f"runtime {self.path} is not reachable: {self.last_error}"

    def _serve_waiters(self) -> None:
        """Serve waiting calls, some at a time: all of them may be more than the backend takes now."""
        for waiter in list(islice(self._waiters, _SERVED_AT_ONCE)):
            conn = self.connection()
            if conn is None:
                return
            if conn.blocked:
                self._look_again(_LOOK_AGAIN)
                return
            if waiter in self._waiters:
                ready = waiter.ready
                self.cancel(waiter)
                ready(conn)
        if self._waiters:
            self._look_again(0.0)

    def _dial(self) -> None:
        calls = sum(len(conn.streams) for conn in self._links)
        full = len(self._links) >= _MOST_CONNECTIONS or calls >= self._limits.streams
        if full and self._waiters:
            self._look_again(_LOOK_AGAIN)
        if not self._dialling and not self._closing and not full:
            self._dialling = True
            self._tasks.spawn(self._keep_dialling(), name=f"dial {self.path}")

    def _look_again(self, pause: float) -> None:
        if not self._polling:
            self._polling = True
            asyncio.get_running_loop().call_later(pause, self._poll)

    def _poll(self) -> None:
        """Calls wait for a place that another one leaves, for a backend that reads, or for their turn."""
        self._polling = False
        self._serve_waiters()
        self._hub.flush()

    async def _connect(self) -> None:
        """Dial and wait for the backend's settings: only they say how many calls a connection takes."""
        loop = asyncio.get_running_loop()
        if self._find is not None:
            self.path = self._find()
        self.dials += 1
        async with asyncio.timeout(self._dial_timeout):
            _, link = await loop.create_unix_connection(self._make_link, self.path)
            if not self._links:
                self.last_error = "it takes connections and sends no HTTP/2 settings"
            self.greeting = True
            try:
                await link.greeting
            except BaseException:
                link.abort()
                raise
            finally:
                self.greeting = False

    async def _keep_dialling(self) -> None:
        failed = max(self._short_lived - 1, 0)  # one that ended early may have ended for a reason: a restart
        try:
            while not self._closing:
                if failed or not self._links:
                    await self._pace(failed)
                try:
                    await self._connect()
                except TimeoutError:
                    self._note_failure(f"no answer within {self._dial_timeout:g} s")
                except OSError as error:
                    self._note_failure(error.strerror or str(error))
                else:
                    if self._links:  # else it is closed again already
                        break
                failed += 1
        finally:
            self._dialling = False
        self._serve_waiters()
        self._hub.flush()

    def _note_failure(self, error: str) -> None:
        self.failures += 1
        self.last_error = error
        if error != self._reported:
            self._reported = error
            self._reports.unreachable(self.path, error)

    def _make_link(self) -> "_BackendLink":
        conn = ClientConnection(limits=self._limits, huffman=self._hub.huffman, dirty=self._hub.dirty)
        link = _BackendLink(conn, self._hub, lambda _: self._on_lost(conn), self._vet, self._account)
        conn.on_idle = link.close
        conn.on_greeting = lambda: self._on_greeting(conn, link)
        return link

    def _on_greeting(self, conn: ClientConnection, link: "_BackendLink") -> None:
        was_away = not self.up
        link.since = time.monotonic()
        if not self._links:
            self._since = link.since
        self._links[conn] = link
        self.current = conn
        self.last_error = self._reported = ""
        if not link.greeting.done():
            link.greeting.set_result(None)
        self._reports.connected(self.path, len(self._links))
        if was_away and self.on_up is not None:
            # Not from within the handling of a frame: what it does must not end this connection.
            asyncio.get_running_loop().call_soon(self.on_up)

    def _on_lost(self, conn: ClientConnection) -> None:
        conn.retire()
        link = self._links.pop(conn, None)
        if link is None:
            return
        self._short_lived = self._short_lived + 1 if time.monotonic() - link.since < self.useful_seconds else 0
        if self.current is conn:
            self.current = None
        fault = str(conn.failed) if conn.failed is not None else None
        if not self._links:
            self._since = time.monotonic()
            self.last_error = fault or _CLOSED
        if not self._closing:
            self._reports.lost(self.path, fault)
            if not self._links and self._is_needed:
                self._dial()

    @property
    def _is_needed(self) -> bool:
        """Whether a connection has to be there now."""
        return self._account is None or bool(self._waiters)

    def tick(self) -> None:
        """Called once a second. A backend that sent GOAWAY is dialled again even if no call needs it."""
        for conn, link in list(self._links.items()):
            link.tick()
            conn.narrow()
        self._tick_parts()
        if not self.up and self._is_needed:
            self._dial()

    def hang_up(self) -> None:
        """Close the connections and dial again: another process listens there now."""
        for part in self._parts:
            part.hang_up()
        for link in list(self._links.values()):
            link.abort()

    async def close(self) -> None:
        """Close all connections; waiting calls fail."""
        self._closing = True
        for part in self._parts:
            await part.close()
        await self._tasks.cancel()
        for waiter in list(self._waiters):
            self._fail(waiter)
        for link in list(self._links.values()):
            link.close()


class _BackendLink(Link):
    """Speaks first: the preface and our settings go out as soon as the socket is there and the peer may have them."""

    __slots__ = ("_vet", "greeting", "since")
    greeting: asyncio.Future[None]

    def __init__(
        self,
        conn: ClientConnection,
        hub: Hub,
        ended: Callable[[Link], None],
        vet: Callable[[socket.socket], None] | None,
        account: PeerAccount | None,
    ) -> None:
        super().__init__(conn, hub, ended, account)
        if account is None:
            self.account.common = True
        self.since = 0.0  # when the peer's settings came
        self._vet = vet

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.greeting = asyncio.get_running_loop().create_future()
        try:
            if self._vet is not None:
                self._vet(transport.get_extra_info("socket"))
        except OSError as error:
            self.greeting.set_exception(error)
            self.abort()
            return
        self.conn.start()
        self._hub.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if not self.greeting.done():
            reason = str(self.conn.failed) if self.conn.failed is not None else "closed before its first settings"
            self.greeting.set_exception(ConnectionError(reason))
