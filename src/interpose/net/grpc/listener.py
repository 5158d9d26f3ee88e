"""Accepting connections on a unix socket that is bound already.

Peers are checked by the kernel's credentials, connections are counted, and a tick once a second cuts off slow and noisy
peers. The socket itself (its path, lock and mode) is the business of `host`.
"""

import asyncio
import logging
import socket
import sys
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from interpose.log import RateLimited
from interpose.net.grpc.connection_limit import ConnectionLimit
from interpose.net.grpc.fairness import PeerAccount, PeerAccounts
from interpose.net.grpc.transport import BACKLOG_LIMIT, Hub, Link
from interpose.net.h2.buffered import BufferedShare
from interpose.net.h2.errors import ConnectionFault, ErrorCode
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import Accept, ServerConnection
from interpose.net.h2.stream import Stream

_log = logging.getLogger(__name__)
# Two whole frames: a peer that sends more than that between two ticks is not stuck in one.
_PROGRESS: Final = 32 * 1024

BACKLOG: Final = 4096
"""Connections that may wait to be accepted. Clients that dial without blocking, as those written in Go do, fail at once
when it is full, so it is what the kernel allows by default and what such servers have; event loops take 100."""


class Peer(Protocol):
    """The process at the other end, as the kernel saw it when it connected."""

    @property
    def pid(self) -> int: ...

    @property
    def uid(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Which peers may connect. Without `identify` all may that the socket's mode admits."""

    identify: Callable[[socket.socket], Peer] | None = None
    uids: Collection[int] = ()
    connections: int = 512
    handshake_timeout: float = 10.0


class ClientLink(Link):
    """A client's connection, with what the listener knows about it."""

    __slots__ = ("_admit", "_read_before", "alone", "half_read_for", "peer", "server", "siblings")

    def __init__(
        self,
        conn: ServerConnection,
        hub: Hub,
        admit: "Callable[[ClientLink], bool]",
        ended: "Callable[[ClientLink], None]",
    ) -> None:
        super().__init__(conn, hub, lambda _: ended(self))
        self.server = conn
        self.peer: Peer | None = None
        self.siblings: Callable[[ClientLink], Collection[ClientLink]] = lambda link: (link,)
        self.alone: Callable[[], bool] = lambda: True  # whether no other process is connected
        self.half_read_for = 0
        self._read_before = 0
        self._admit = admit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        if not self._admit(self):
            self.abort()

    def _write_queued(self, data: bytes) -> None:
        """Cut a peer off that lets our output pile up, at once: a backend can send a lot within a second."""
        super()._write_queued(data)
        if self.backlog > BACKLOG_LIMIT:
            self.cut("the peer does not read what it asked for")

    def assign_account(self, account: PeerAccount) -> None:
        """Set the account of the peer, whose guard counts for this connection too."""
        self.account = account
        self.conn.guard = account.guard
        account.connections += 1

    def count_half_read(self) -> None:
        """Count the seconds for which the peer has left a frame incomplete. A large frame may be so at any tick, so a
        peer that makes progress is not counted."""
        if not self.conn.half_read or self.bytes_read - self._read_before > _PROGRESS:
            self.half_read_for = 0
            self._read_before = self.bytes_read
        else:
            self.half_read_for += 1

    @property
    def pid(self) -> int:
        """The peer's PID, for messages; 0 if it is not known."""
        return self.peer.pid if self.peer is not None else 0

    @property
    def process(self) -> tuple[int, int]:
        """User and PID of the peer; zeros if they are not known."""
        return (self.peer.uid, self.peer.pid) if self.peer is not None else (0, 0)

    @property
    def calls(self) -> int:
        """Calls in progress of the peer's process, over all its connections."""
        return sum(len(link.conn.streams) for link in self.siblings(self))

    @property
    def buffered(self) -> int:
        """Bytes of its calls that wait here, in either direction, and what its socket did not take yet."""
        return sum(map(_buffered_bytes, self.conn.streams.values())) + self.backlog

    def cut(self, reason: str) -> None:
        """Close at once: the peer requests more than it reads."""
        if self.conn.failed is None:
            self.conn.failed = ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, reason)
            self.abort()

    @property
    def idle(self) -> bool:
        """Whether it could be closed now without a call being lost."""
        return not self.conn.streams and not self.conn.unread

    def evict(self) -> None:
        """Close an idle connection. Calls that are on their way were not seen, as GOAWAY says: clients repeat those."""
        self.server.leave()
        self.close()
        if self.backlog:
            self.abort()


def _buffered_bytes(stream: Stream) -> int:
    """Bytes of a call: replies and requests in queues, and what its sink collects."""
    share: BufferedShare | None = getattr(stream.sink, "share", None)
    upload = stream.peer.queued if stream.peer is not None else 0
    return stream.queued + upload + (share.size if share is not None else 0)


V = TypeVar("V")


class AcceptedConnection(Protocol):
    """A connection that was accepted and not admitted yet."""

    transport: Any
    peer: Peer | None


class Acceptor:
    """Accepts connections on one listening socket. Counters are plain numbers, read by a scrape.

    Subclasses make the connections (`_make_connection`), keep them and count those that stay.
    """

    def __init__(self, admission: Admission, log: logging.Logger) -> None:
        self.accepted = 0
        self.refused = 0
        self.evicted = 0
        self.faults: dict[str, int] = {}
        self._admission = admission
        self._server: asyncio.AbstractServer | None = None
        # A peer that reconnects at once after each refusal must not fill the disk.
        self._limited = RateLimited(log)

    def _make_connection(self) -> asyncio.Protocol:
        """The protocol for a new connection; its peer is known when there is a transport."""
        raise NotImplementedError

    async def start(self, sock: socket.socket) -> None:
        """Serve a bound socket. The caller keeps its own descriptor: we work on a duplicate."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(
            self._make_connection, sock=sock.dup(), backlog=BACKLOG, **_NO_CLEANUP
        )

    def stop_accepting(self) -> None:
        """Stop accepting; other holders of the listening socket go on."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _is_allowed(self, link: AcceptedConnection) -> bool:
        """Identify the peer; False, counted and logged, if it may not connect."""
        admission = self._admission
        if admission.identify is None:
            return True
        peer = link.peer = admission.identify(link.transport.get_extra_info("socket"))
        if peer.uid in admission.uids:
            return True
        self.refused += 1
        self._warn("Peer is not allowed", str(peer.uid), pid=peer.pid, uid=peer.uid)
        return False

    def _make_room(self, limit: "ConnectionLimit[V]", peer: Peer | None, evict: "Callable[[V], None]") -> None:
        """Close an idle connection if a new one would be refused otherwise."""
        victim = limit.victim(peer)
        if victim is not None:
            self.evicted += 1
            limit.remove(victim)
            self._warn("Idle connection was closed to make room", "", limit=limit.limit)
            evict(victim)

    def _count_fault(self, name: str) -> None:
        self.faults[name] = self.faults.get(name, 0) + 1

    def _warn(self, message: str, key: str, **fields: object) -> None:
        self._limited.log(logging.WARNING, message, key=key, **fields)


class Listener(Acceptor):
    """One listening socket and its connections."""

    def __init__(
        self, *, hub: Hub, limits: Limits, admission: Admission, accept: Callable[[ClientLink], Accept]
    ) -> None:
        super().__init__(admission, _log)
        self.links: set[ClientLink] = set()
        self._hub = hub
        self._limits = limits
        self._accept = accept
        self._cut: ClientLink | None = None
        self._limit = ConnectionLimit[ClientLink](
            admission.connections, lambda link: link.idle, users=len(admission.uids)
        )
        self._accounts = PeerAccounts(limits, hub.turns)

    def _make_connection(self) -> ClientLink:
        conn = ServerConnection(limits=self._limits, huffman=self._hub.huffman, dirty=self._hub.dirty)
        link = ClientLink(conn, self._hub, self._admit, self._on_lost)
        conn.on_idle = link.close
        return link

    def _admit(self, link: ClientLink) -> bool:
        if not self._is_allowed(link):
            return False
        account = self._accounts.of(link.peer)
        if account.guard.exceeded:
            # It got ENHANCE_YOUR_CALM; its next connection would get it again.
            self.refused += 1
            self._warn("Peer was cut off and is back too soon", "", pid=link.pid)
            return False
        self._make_room(self._limit, link.peer, ClientLink.evict)
        if not self._limit.admit(link, link.peer):
            self.refused += 1
            self._warn("Too many connections", "", pid=link.pid, limit=self._admission.connections)
            return False
        link.siblings = self._limit.siblings
        link.alone = self._is_only_process
        link.assign_account(account)
        link.server.accept = self._accept(link)
        self.accepted += 1
        self.links.add(link)
        return True

    def _is_only_process(self) -> bool:
        return self._limit.processes == 1

    def _on_lost(self, link: ClientLink) -> None:
        if link not in self.links:
            return
        self.links.discard(link)
        self._limit.remove(link)
        link.account.connections -= 1
        if (fault := link.conn.failed) is not None:
            self._count_fault(fault.code.name)
            self._warn("Peer broke the protocol", str(fault), pid=link.pid, err=str(fault))

    def tick(self) -> None:
        """Called once a second. Cuts peers off that left a frame incomplete for too long."""
        buffered = self._hub.buffered
        if buffered.size + sum(link.backlog for link in self.links) > buffered.limit:
            self.relieve()
        self._accounts.tick()
        for link in list(self.links):
            link.tick()
            link.count_half_read()
            if link.half_read_for > self._admission.handshake_timeout:
                self._count_fault("SLOW")
                self._warn("Peer is too slow", "", pid=link.pid)
                link.abort()

    def relieve(self) -> None:
        """Free memory: of the process that holds the most, the connection that holds the most is cut. One at a time;
        its memory comes free when the loop reports it closed."""
        if self._cut in self.links:
            return
        sizes = {link: link.buffered for link in self.links}
        processes: Counter[tuple[int, int]] = Counter()
        for link, size in sizes.items():
            processes[link.process] += size
        if processes:
            (heaviest, _), *_ = processes.most_common(1)
            self._cut = max((link for link in sizes if link.process == heaviest), key=sizes.__getitem__)
            self._cut.cut("the peer leaves more unread or unsent than memory allows")

    def drain(self) -> None:
        """Send GOAWAY to every client; each link closes when its last call has ended."""
        for link in list(self.links):
            link.server.drain()

    def abort(self) -> None:
        """Close all connections that are left."""
        for link in list(self.links):
            link.close()


# Python 3.13 and later would unlink the socket file when the server closes; the file is not ours to remove here.
_NO_CLEANUP: Final[dict[str, Any]] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
