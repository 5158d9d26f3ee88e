"""Accepting connections on a unix socket that is bound already.

Peers are checked by what the kernel says about them, connections are counted, and a once-a-second tick keeps slow and
noisy peers in check. The socket itself (its path, lock and mode) is the business of `host`.
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
from interpose.net.h2.specialize import own_code
from interpose.net.h2.stream import Stream

_log = logging.getLogger(__name__)
# Two whole frames: who sends more than that between two looks is not stuck in one.
_PROGRESS: Final = 32 * 1024

BACKLOG: Final = 4096
"""Connections that may wait to be accepted. Clients that dial without blocking, as those written in Go do, fail at once
when it is full, so it is what the kernel allows by default and what such servers have; event loops take 100."""


class Peer(Protocol):
    """Who is at the other end, as the kernel saw it when it connected."""

    @property
    def pid(self) -> int: ...

    @property
    def uid(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Who may connect. Without `identify` everyone may whom the socket's mode lets in."""

    identify: Callable[[socket.socket], Peer] | None = None
    uids: Collection[int] = ()
    connections: int = 512
    handshake_timeout: float = 10.0


@own_code("data_received")
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
        """Who lets our output pile up is cut at once: a backend can say a lot within a second."""
        super()._write_queued(data)
        if self.backlog > BACKLOG_LIMIT:
            self.cut("the peer does not read what it asked for")

    def belong(self, account: PeerAccount) -> None:
        """It is known whose connection this is."""
        self.account = account
        self.conn.guard = account.guard
        account.connections += 1

    def watch(self) -> None:
        """Count the seconds for which the peer has left something half said. Any large frame seen at the wrong moment
        is half there, so a peer that gets on is not counted."""
        if not self.conn.half_read or self.bytes_read - self._read_before > _PROGRESS:
            self.half_read_for = 0
            self._read_before = self.bytes_read
        else:
            self.half_read_for += 1

    @property
    def pid(self) -> int:
        """The peer's process, for messages; 0 if nobody asked."""
        return self.peer.pid if self.peer is not None else 0

    @property
    def process(self) -> tuple[int, int]:
        """User and PID of the peer; zeros if nobody asked."""
        return (self.peer.uid, self.peer.pid) if self.peer is not None else (0, 0)

    @property
    def calls(self) -> int:
        """Calls in progress of the peer's process, over all its connections."""
        return sum(len(link.conn.streams) for link in self.siblings(self))

    @property
    def buffered(self) -> int:
        """Bytes of its calls that wait here, in either direction, and what its socket did not take yet."""
        return sum(map(_waiting, self.conn.streams.values())) + self.backlog

    def cut(self, why: str) -> None:
        """End it at once: the peer asks for more than it takes."""
        if self.conn.failed is None:
            self.conn.failed = ConnectionFault(ErrorCode.ENHANCE_YOUR_CALM, why)
            self.abort()

    @property
    def idle(self) -> bool:
        """Whether it could be closed now without a call being lost."""
        return not self.conn.streams and not self.conn.unread

    def evict(self) -> None:
        """Close it, idle as it is. Calls that are on their way are told that nobody saw them: clients repeat those."""
        self.server.leave()
        self.close()
        if self.backlog:
            self.abort()


def _waiting(stream: Stream) -> int:
    """Bytes of a call: replies and requests in queues, and what its sink collects."""
    share: BufferedShare | None = getattr(stream.sink, "share", None)
    upload = stream.peer.queued if stream.peer is not None else 0
    return stream.queued + upload + (share.size if share is not None else 0)


V = TypeVar("V")


class Visitor(Protocol):
    """A connection at the door."""

    transport: Any
    peer: Peer | None


class Entrance:
    """One listening socket, and who comes in. Counters are plain numbers, read when somebody scrapes.

    Whoever inherits this makes the connections (`_connected`), keeps them and counts those that stay.
    """

    def __init__(self, admission: Admission, log: logging.Logger) -> None:
        self.accepted = 0
        self.refused = 0
        self.evicted = 0
        self.faults: dict[str, int] = {}
        self._admission = admission
        self._server: asyncio.AbstractServer | None = None
        # A peer that comes back at once after each refusal must not fill the disk.
        self._limited = RateLimited(log)

    def _connected(self) -> asyncio.Protocol:
        """Somebody has; who it is can be said when there is a transport."""
        raise NotImplementedError

    async def start(self, sock: socket.socket) -> None:
        """Serve a bound socket. The caller keeps its own descriptor: we work on a duplicate."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._connected, sock=sock.dup(), backlog=BACKLOG, **_NO_CLEANUP)

    def stop_accepting(self) -> None:
        """Leave the listening socket to whoever else holds it."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _allowed(self, link: Visitor) -> bool:
        """Find out who it is, and whether they may connect at all. Who may not is counted."""
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
        """Where a newcomer would be refused, an idle connection goes."""
        victim = limit.victim(peer)
        if victim is not None:
            self.evicted += 1
            limit.remove(victim)
            self._warn("Idle connection was closed to make room", "", limit=limit.limit)
            evict(victim)

    def _fault(self, name: str) -> None:
        self.faults[name] = self.faults.get(name, 0) + 1

    def _warn(self, message: str, key: str, **fields: object) -> None:
        self._limited.log(logging.WARNING, message, key=key, **fields)


class Listener(Entrance):
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

    def _connected(self) -> ClientLink:
        conn = ServerConnection(limits=self._limits, huffman=self._hub.huffman, dirty=self._hub.dirty)
        link = ClientLink(conn, self._hub, self._admit, self._lost)
        conn.on_idle = link.close
        return link

    def _admit(self, link: ClientLink) -> bool:
        if not self._allowed(link):
            return False
        account = self._accounts.of(link.peer)
        if account.guard.exceeded:
            # It was told to calm down; its next connection would only be told the same.
            self.refused += 1
            self._warn("Peer was cut off and is back too soon", "", pid=link.pid)
            return False
        self._make_room(self._limit, link.peer, ClientLink.evict)
        if not self._limit.admit(link, link.peer):
            self.refused += 1
            self._warn("Too many connections", "", pid=link.pid, limit=self._admission.connections)
            return False
        link.siblings = self._limit.siblings
        link.alone = self._alone
        link.belong(account)
        link.server.accept = self._accept(link)
        self.accepted += 1
        self.links.add(link)
        return True

    def _alone(self) -> bool:
        return self._limit.processes == 1

    def _lost(self, link: ClientLink) -> None:
        if link not in self.links:
            return
        self.links.discard(link)
        self._limit.remove(link)
        link.account.connections -= 1
        if (fault := link.conn.failed) is not None:
            self._fault(fault.code.name)
            self._warn("Peer broke the protocol", str(fault), pid=link.pid, err=str(fault))

    def tick(self) -> None:
        """A second has passed. A peer that leaves something half said for too long is cut off."""
        buffered = self._hub.buffered
        if buffered.size + sum(link.backlog for link in self.links) > buffered.limit:
            self.relieve()
        self._accounts.tick()
        for link in list(self.links):
            link.tick()
            link.watch()
            if link.half_read_for > self._admission.handshake_timeout:
                self._fault("SLOW")
                self._warn("Peer is too slow", "", pid=link.pid)
                link.abort()

    def relieve(self) -> None:
        """Too much waits in memory: of the process with the most, the connection with the most is cut. One at a time;
        what it has comes free when the loop tells us that it is gone."""
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
        """Ask every client to go elsewhere; each link closes when its last call has ended."""
        for link in list(self.links):
            link.server.drain()

    def abort(self) -> None:
        """Close what is left."""
        for link in list(self.links):
            link.close()


# Python 3.13 and later would unlink the socket file when the server closes; the file is not ours to remove here.
_NO_CLEANUP: Final[dict[str, Any]] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
