"""The relay itself: every new stream of a client comes here and is sent on its way."""

from collections.abc import Callable
from typing import Any, Final

from interpose.net.grpc.answer import answer
from interpose.net.grpc.listener import ClientLink
from interpose.net.grpc.status import Code
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.client import ClientConnection
from interpose.net.h2.headers import DEAR, Headers
from interpose.net.h2.stream import Stream
from interpose.relay.api import Direction, Sighting
from interpose.relay.passthrough import CallRecorder, Passthrough
from interpose.relay.routes import Route, Routes
from interpose.relay.subscriptions import Subscriptions

# So many calls of one process may be on the connection that everybody has when it is crowded.
_FEW: Final = 32


def crowds(link: ClientLink, conn: ClientConnection | None) -> bool:
    """Whether further calls of this client would be in the way of others on this connection. A backend may handle its
    calls one after the other, and what it says about one of them comes behind what it says about the others."""
    return conn is not None and len(conn.streams) >= conn.ample and not link.alone() and link.calls > _FEW


def greedy(link: ClientLink, upstream: Upstream) -> bool:
    """Whether this client has more calls in progress than there are places left for all others, when most are taken.
    So one process may have three quarters of them, the next one half of the rest, and there is always a place left."""
    free, limit = upstream.places
    return free < limit // 4 and link.calls > free


class Relay(Subscriptions):
    """Routes calls. Holds no connection and no socket: those are the listener's and the upstreams'.

    A method nobody subscribes to never leaves the frame loop.
    """

    def __init__(self, routes: Routes, ledger: CallRecorder, *, header_list: int) -> None:
        super().__init__(routes)
        self.ledger = ledger
        self.passthrough = Passthrough(ledger)
        self._header_list = header_list

    def _collect(self, chain: Any, *, hub: Hub, limit: int, now: Callable[[], float]) -> Any:
        from interpose.relay.intercepted import CriCallRunner

        return CriCallRunner(chain=chain, watchers=self.watchers, hub=hub, ledger=self.ledger, limit=limit, now=now)

    def accept(self, link: ClientLink) -> Callable[[Stream, Headers, bool], None]:
        """What to do with the streams of this client. Closed over its parts: this runs for every call."""
        known = self._known
        find = self.routes.find
        clock = self.ledger.clock
        requests = self.passthrough.requests
        replies = self.passthrough.replies
        account = link.account

        def accept(stream: Stream, headers: Headers, end: bool) -> None:
            route = known.get(headers.path)
            if route is None:
                route = find(headers.path)
            stats = route.stats
            stats.started += 1
            stream.call = stats
            stream.since = clock()
            if account.memory:
                self._open_apart(link, stream, headers, route, end)
                return
            conn = route.upstream.current
            if route.special or conn is None or len(conn.streams) >= conn.ample or conn.blocked or headers.cost > DEAR:
                self._open_slowly(link, stream, headers, route, end)
                return
            stream.sink = requests
            stream.peer = stream.splice = peer = conn.open(replies, headers.wire, end)
            peer.peer = peer.splice = stream

        return accept

    def _open_apart(self, link: ClientLink, stream: Stream, headers: Headers, route: Route, end: bool) -> None:
        """A peer that asks for more than its share has a connection to the backend of its own: windows, places and what
        the backend leaves unread on the one that everybody has are not for it to fill."""
        upstream = route.upstream.separate(link.account)
        conn = upstream.current
        if route.special or conn is None or not conn.usable or conn.blocked or headers.oversized:
            self._open_slowly(link, stream, headers, route, end, upstream)
        else:
            self.passthrough.join(stream, conn, headers.wire, end)

    def _open_slowly(
        self,
        link: ClientLink,
        stream: Stream,
        headers: Headers,
        route: Route,
        end: bool,
        upstream: Upstream | None = None,
    ) -> None:
        if headers.oversized:
            self._refuse(stream, f"header list of {headers.size} bytes is over the limit of {self._header_list}")
            return
        if upstream is None:
            upstream = route.upstream
            if headers.cost > DEAR or crowds(link, upstream.current):
                link.account.remember()
                upstream = upstream.separate(link.account)
            elif link.alone():
                upstream.widen()
        if upstream is route.upstream and greedy(link, upstream):
            self._refuse(stream, f"this client has {link.calls} calls in progress, and others want a place, too")
        elif route.special:
            self._special(link, stream, headers, route, end, upstream)
        else:
            self._forward(self.passthrough, stream, headers, upstream, end)

    def _refuse(self, stream: Stream, why: str) -> None:
        self.ledger.finish(stream, Code.RESOURCE_EXHAUSTED)
        answer(stream, Code.RESOURCE_EXHAUSTED, why)

    def _forward(self, way: Passthrough, stream: Stream, headers: Headers, upstream: Upstream, end: bool) -> None:
        """Pass on, also when the backend is away, full or not reading."""
        conn = upstream.connection()
        if conn is None and upstream.overfull:
            self._fail(way, stream, f"too much waits for runtime {upstream.path}")
        elif conn is None:
            way.wait(stream, upstream, headers.wire, end)
        elif upstream.congested:
            self._fail(way, stream, f"runtime {upstream.path} does not read its socket")
        else:
            way.join(stream, conn, headers.wire, end)

    def _fail(self, way: Passthrough, stream: Stream, why: str) -> None:
        self.ledger.finish(stream, Code.UNAVAILABLE)
        answer(stream, Code.UNAVAILABLE, why)
        way.over(Code.UNAVAILABLE, why)

    def _special(
        self, link: ClientLink, stream: Stream, headers: Headers, route: Route, end: bool, upstream: Upstream
    ) -> None:
        if route.refusal:
            self.ledger.finish(stream, Code.UNIMPLEMENTED)
            answer(stream, Code.UNIMPLEMENTED, route.refusal)
            return
        if route.intercepted:
            self.collector.collect(stream, headers, route, link.peer, end, upstream)
            return
        from interpose.relay.taps import CallView, tapped

        watchers = self.watchers
        call = Sighting(watchers.number(), headers.path, route.method, peer=link.peer, headers=headers)
        view = CallView(watchers, route.taps, route.readers, call)
        view.headers(Direction.REQUEST, headers)
        if route.editors and route.method is not None:
            from interpose.relay.stream_editor import StreamEdit, edited

            way = edited(self.ledger, view, StreamEdit(self.editors, route.editors, route.method, self._message_limit))
        else:
            way = tapped(self.ledger, view)
        self._forward(way, stream, headers, upstream, end)
