"""Accepting Docker clients on a unix socket that is bound already.

Peers are checked by what the kernel says about them, connections and what is held for them are bounded, and a
tick once a second finds those who are gone or never finish a request head. `host` binds the socket.
"""

import logging
import resource
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from interpose.net.grpc.connection_limit import ConnectionLimit
from interpose.net.grpc.listener import BACKLOG, Acceptor, Admission
from interpose.net.h1.heads import Heads
from interpose.net.polled import PolledListener
from interpose.relay.docker.buffered import room
from interpose.relay.docker.client import CallHandler, DockerClientConnection
from interpose.relay.docker.drain import DockerDrain
from interpose.relay.docker.upstream import DockerUpstream
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
# Refused clients that get an answer at the same time; further ones are just closed.
_MAX_REFUSALS: Final = 32
# File descriptors that are kept for them, for connections to dockerd and for everything else.
_SPARE: Final = 64


class DockerListener(Acceptor):
    """One listening socket and its connections."""

    def __init__(
        self,
        *,
        relay: CallHandler,
        upstream: DockerUpstream,
        heads: Heads,
        admission: Admission,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(admission, _log)
        self.relay = relay
        self.upstream = upstream
        self.heads = heads
        self.clock = clock
        self.tasks = TaskBag()
        self.links: set[DockerClientConnection] = set()
        self._refused: set[DockerClientConnection] = set()  # not closed yet
        self._limit = ConnectionLimit[DockerClientConnection](
            admission.connections, DockerClientConnection.evictable, users=len(admission.uids)
        )
        self._accepting: PolledListener | None = None
        self._room = room(upstream.limit)
        upstream.on_unexpected_data = lambda: self._count(HTTPStatus.BAD_GATEWAY)

    def _make_connection(self) -> DockerClientConnection:
        return DockerClientConnection(self)

    async def start(self, sock: socket.socket) -> None:
        """Serve a bound socket. The caller keeps its own descriptor: we work on a duplicate."""
        own = sock.dup()
        own.listen(BACKLOG)
        self._accepting = PolledListener(self.upstream.poller, own, self._make_connection)

    def stop_accepting(self) -> None:
        """Stop accepting; other holders of the listening socket go on."""
        if self._accepting is not None:
            self._accepting.close()
            self._accepting = None

    # Called by connections

    def arrived(self, link: DockerClientConnection) -> None:
        """Admit and count a client, or refuse it."""
        if not self._is_allowed(link):
            link.abort()
            return
        self._make_room(self._limit, link.peer, DockerClientConnection.cut)
        if _descriptors_are_short(link.fileno()):
            self._refuse(link, "Too many open files", resource.getrlimit(resource.RLIMIT_NOFILE)[0])
        elif not self._limit.admit(link, link.peer):
            self._refuse(link, "Too many connections", self._admission.connections)
        else:
            self.accepted += 1
            self.links.add(link)

    def _refuse(self, link: DockerClientConnection, why: str, limit: int) -> None:
        self.refused += 1
        self._warn(why, "", pid=link.pid, limit=limit)
        if len(self._refused) < _MAX_REFUSALS:
            self._refused.add(link)
            link.refuse(f"{why[0].lower()}{why[1:]}: the limit is {limit}")
        else:
            link.abort()

    def ended(self, link: DockerClientConnection) -> None:
        self.links.discard(link)
        self._refused.discard(link)
        self._limit.remove(link)

    def fault(self, link: DockerClientConnection, status: int, why: str) -> None:
        """Count and log a broken protocol: the client's, or dockerd's if the status is 502."""
        self._count(status)
        who = "Backend" if status == HTTPStatus.BAD_GATEWAY else "Peer"
        self._warn(f"{who} broke the protocol", why, pid=link.pid, err=why)

    def _count(self, status: int) -> None:
        self._count_fault(HTTPStatus(status).name)

    def hold(self, size: int) -> bool:
        """Reserve this many bytes for buffered requests; a negative number gives them back. False if there is no
        room."""
        if size > self._room:
            return False
        self._room -= size
        return True

    # Called by the process

    def tick(self) -> None:
        """Called once a second: a peer that does not finish a head in time gets an error and is closed."""
        timeout = self._admission.handshake_timeout
        for link in list(self.links):
            if not link.tick(timeout):
                why = f"the head of the request did not come within {timeout:g} s"
                self.fault(link, HTTPStatus.REQUEST_TIMEOUT, why)
                link.turn_away(HTTPStatus.REQUEST_TIMEOUT, why)

    def drain(self) -> None:
        """Take no further requests; each link closes when the one at hand is answered."""
        for link in list(self.links):
            link.drain()

    async def run_drain(self, grace: float) -> bool:
        """Wait at most `grace` seconds for what is in flight, then close everything. True if all of it ended."""
        return await DockerDrain(self).run(grace)

    def abort(self) -> None:
        """Close what is left."""
        for link in [*self.links, *self._refused]:
            link.cut()


def _descriptors_are_short(latest: int) -> bool:
    """Whether this descriptor is among the last ones: the kernel gives the lowest that is free. When none is left,
    connections would be accepted and closed without a word."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return soft != resource.RLIM_INFINITY and latest >= soft - min(_SPARE, soft // 8)
