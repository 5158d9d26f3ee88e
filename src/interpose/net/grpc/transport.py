"""The glue between a transport of the event loop and an h2 connection.

A turn of the loop: bytes arrive, the connection's sinks act on this and other connections, then all frames that
were queued are written, one write per connection. Code outside such a turn (a task, a timer) calls `Hub.flush` itself.
A connection that has more to do than a slice, or whose bytes come when nothing is left of the turn, is not read until
it has had further turns (`fairness`).
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import Any, Final

from interpose.net.grpc.fairness import LoopTurns, PeerAccount
from interpose.net.h2.buffered import Buffered
from interpose.net.h2.connection import Connection
from interpose.net.h2.control import Control
from interpose.net.h2.errors import ConnectionFault, ErrorCode
from interpose.net.h2.hpack_tables import HuffmanDecoder
from interpose.net.h2.stream import Flushable

_log = logging.getLogger(__name__)

# How long an answer to PING may wait for company. Keep-alive probes allow seconds; grpc-go's bandwidth probes come one
# at a time, and a timer for each answer would be a turn of the loop of its own.
_LATE: Final = 0.02
# Above this much unwritten output a connection takes no more DATA; streams then wait in their bounded queues.
_HIGH_WATER: Final = 512 * 1024
# Frames that no window bounds (headers, resets, answers to PING) may pile up to here when a peer does not read.
BACKLOG_LIMIT: Final = 8 * 1024 * 1024


class Hub:
    """What the connections of one event loop share."""

    def __init__(self, *, buffered: float = float("inf")) -> None:
        """`buffered` is how many body bytes may wait for readers in all; above it `relieve` is called."""
        self.dirty: list[Flushable] = []
        self.huffman = HuffmanDecoder()
        self.buffered = Buffered(buffered)
        self.relieve: Callable[[], None] = _do_nothing
        self.turns = LoopTurns()
        self._late: set[Control] = set()

    def flush(self) -> None:
        """Write the frames that were queued since the last flush."""
        dirty = self.dirty
        while dirty:
            dirty.pop().flush()

    def flush_later(self, conn: Control) -> None:
        """This connection has answers that can wait for its next write, but not for long."""
        if not self._late:
            asyncio.get_running_loop().call_later(_LATE, self._flush_late)
        self._late.add(conn)

    def _flush_late(self) -> None:
        late = list(self._late)
        self._late.clear()
        for connection in late:
            if connection.later:
                connection.flush()


class Link(asyncio.Protocol):
    """One transport and its connection. Bytes read are counted."""

    __slots__ = (
        "_buffered",
        "_dirty",
        "_ended",
        "_fd",
        "_hub",
        "_transport_lost",
        "_turns",
        "_waiting_for_turn",
        "account",
        "bytes_read",
        "conn",
        "transport",
    )

    def __init__(
        self, conn: Connection, hub: Hub, ended: "Callable[[Link], None]", account: PeerAccount | None = None
    ) -> None:
        """With an `account` reading is charged to that peer; the guard stays the connection's."""
        self.conn = conn
        self._buffered = conn.buffered = hub.buffered
        if account is None:
            account = PeerAccount(conn.limits)
            conn.guard = account.guard
        self.account = account
        self.transport: Any = None
        self.bytes_read = 0
        self._hub = hub
        self._dirty = hub.dirty
        self._ended = ended
        self._fd = -1
        self._transport_lost = False
        self._turns = hub.turns
        self._waiting_for_turn = False  # for its turn; it is not read meanwhile
        conn.on_unread = self._wait

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.set_write_buffer_limits(high=_HIGH_WATER)
        sock = transport.get_extra_info("socket")
        self._fd = sock.fileno() if sock is not None else -1
        self.conn.write = self._write_now if self._fd >= 0 else self.transport.write

    def _write_now(self, data: bytes) -> None:
        """Write to the socket itself: the transport would only do it later in the same turn, at a price."""
        try:
            written = os.write(self._fd, data)
        except OSError:
            # Full, or gone: the transport waits for the one and finds out about the other.
            written = 0
        if written != len(data):
            self.conn.write = self._write_queued
            self.transport.write(memoryview(data)[written:])

    def _write_queued(self, data: bytes) -> None:
        """Bytes wait in the transport's buffer: new ones have to stand behind them."""
        if self.backlog:
            self.transport.write(data)
        else:
            self.conn.write = self._write_now
            self._write_now(data)

    def data_received(self, data: bytes) -> None:
        conn = self.conn
        account = self.account
        self.bytes_read += len(data)
        turns = self._turns
        if self._waiting_for_turn or (turns.left < 0 and not account.common):
            conn.hold(data)
            self._wait()
            return
        try:
            conn.receive(data)
        except Exception:
            self._on_exception()
        dirty = self._dirty
        while dirty:
            dirty.pop().flush()
        if conn.later:
            self._hub.flush_later(conn)
        if self._buffered.size > self._buffered.limit:
            self._hub.relieve()
        if not account.common:
            spent = conn.spent
            account.used += spent
            turns.left = left = turns.left - spent
            if left < 0:
                turns.spent()
        if conn.unread:
            self._wait()
        if conn.failed is not None:
            self.close()

    def _on_exception(self) -> None:
        """A bug of ours costs this connection, never the process and never the others."""
        _log.exception("Connection handler failed")
        self.conn.fail(ConnectionFault(ErrorCode.INTERNAL_ERROR, "internal error"))

    def _wait(self, *, first: bool = False) -> None:
        """Go on when it is this connection's turn again."""
        if not self._waiting_for_turn:
            self._waiting_for_turn = True
            if not self.transport.is_closing():
                self.transport.pause_reading()
            self._turns.wait(self.account, self, first=first)

    def work(self) -> bool:
        """Go on with what was left."""
        conn = self.conn
        try:
            conn.proceed()
        except Exception:
            self._on_exception()
        self._hub.flush()
        if conn.later:
            self._hub.flush_later(conn)
        if self._buffered.exceeded:
            self._hub.relieve()
        if conn.failed is not None:
            self.close()
        if conn.unread:
            return True
        self._waiting_for_turn = False
        if self._transport_lost:
            self.conn.let_go()
        elif not self.transport.is_closing():
            self.transport.resume_reading()
        return False

    def pause_writing(self) -> None:
        self.conn.blocked = True

    def resume_writing(self) -> None:
        self.conn.resume()
        self._hub.flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self.conn.write = _discard
        self._fd = -1
        try:
            self.conn.lost()
        finally:
            self._hub.flush()
            if self.conn.unread:
                self._wait(first=True)
            self._ended(self)
            self._ended = _ignore
            self._transport_lost = True
            if not self._waiting_for_turn:
                self.conn.let_go()

    def tick(self) -> None:
        """Called once a second; cuts a peer off that lets our output pile up."""
        self.conn.tick()
        if self.conn.guard is not self.account.guard:
            self.conn.guard.tick()
        elif not self.account.shared:
            self.account.tick()
        if self.backlog > BACKLOG_LIMIT:
            self.abort()

    @property
    def backlog(self) -> int:
        """Bytes the peer has not read yet."""
        size: int = self.transport.get_write_buffer_size()
        return size

    @property
    def congested(self) -> bool:
        """The peer has stopped reading; more calls would only pile up."""
        return self.conn.blocked and self.backlog > BACKLOG_LIMIT // 2

    def close(self) -> None:
        """Close after the queued frames are written: the last one of a stream often waits for the flush."""
        self.conn.flush()
        self.conn.write = _discard
        self.transport.close()

    def abort(self) -> None:
        """Close at once; frames that were not written are lost."""
        self.conn.write = _discard
        self.transport.abort()


def _ignore(link: Link) -> None:
    """Called if a link ends twice."""


def _do_nothing() -> None:
    """The default of `relieve`: nothing can be freed."""


def _discard(data: bytes) -> None:
    """Drop frames: the transport is closed."""
