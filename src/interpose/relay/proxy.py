"""The relay itself: every new stream of a client comes here, and its route decides how it is handled."""

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

# Calls of one process that may be on the shared connection when that is crowded.
_FEW: Final = 32


def is_crowding(link: ClientLink, conn: ClientConnection | None) -> bool:
    """Whether further calls of this client would delay other clients on this connection. A backend may handle the calls
    of a connection one after the other, and their replies share its windows."""
    return conn is not None and len(conn.streams) >= conn.ample and not link.alone() and link.calls > _FEW


def is_greedy(link: ClientLink, upstream: Upstream) -> bool:
    """Whether this client has more calls in progress than there are streams left for all others, when most are taken.
    So one process may have three quarters of them, the next one half of the rest, and some are always left."""
    free, limit = upstream.places
    return free < limit // 4 and link.calls > free


class Relay(Subscriptions):
    """Routes calls. Holds no connection and no socket: those are the listener's and the upstreams'.

    A call of a method without a subscriber never leaves the frame loop.
    """

    def __init__(self, routes: Routes, recorder: CallRecorder, *, header_list: int) -> None:
        super().__init__(routes)
        self.recorder = recorder
        self.passthrough = Passthrough(recorder)
        self._header_list = header_list

    def _make_call_runner(self, chain: Any, *, hub: Hub, limit: int, now: Callable[[], float]) -> Any:
        from interpose.relay.intercepted import CriCallRunner

        return CriCallRunner(
            chain=chain, tap_registry=self.tap_registry, hub=hub, recorder=self.recorder, limit=limit, now=now
        )

    def accept(self, link: ClientLink) -> Callable[[Stream, Headers, bool], None]:
        """The function for new streams of this client. It closes over its parts: it runs for every call."""
        known = self._known
        find = self.routes.find
        clock = self.recorder.clock
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
                self._open_separate(link, stream, headers, route, end)
                return
            upstream: Upstream = route.upstream
            conn = upstream.current
            if (
                route.slow_path
                or conn is None
                or len(conn.streams) >= conn.ample
                or conn.blocked
                or headers.cost > DEAR
            ):
                self._open_slow_path(link, stream, headers, route, end)
                return
            stream.sink = requests
            stream.peer = stream.splice = peer = conn.open(replies, headers.wire, end)
            peer.peer = peer.splice = stream

        return accept

    def _open_separate(self, link: ClientLink, stream: Stream, headers: Headers, route: Route, end: bool) -> None:
        """A peer that asks for more than its share has a backend connection of its own: it cannot fill the windows,
        streams and unread output of the shared one."""
        upstream = route.upstream.separate(link.account)
        conn = upstream.current
        if route.slow_path or conn is None or not conn.usable or conn.blocked or headers.oversized:
            self._open_slow_path(link, stream, headers, route, end, upstream)
        else:
            self.passthrough.forward(stream, conn, headers.wire, end)

    def _open_slow_path(
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
            if headers.cost > DEAR or is_crowding(link, upstream.current):
                link.account.remember()
                upstream = upstream.separate(link.account)
            elif link.alone():
                upstream.widen()
        if upstream is route.upstream and is_greedy(link, upstream):
            self._refuse(stream, f"this client has {link.calls} calls in progress, and others want a place, too")
        elif route.slow_path:
            self._open_subscribed(link, stream, headers, route, end, upstream)
        else:
            self._forward(self.passthrough, stream, headers, upstream, end)

    def _refuse(self, stream: Stream, why: str) -> None:
        self.recorder.finish(stream, Code.RESOURCE_EXHAUSTED)
        answer(stream, Code.RESOURCE_EXHAUSTED, why)

    def _forward(
        self, passthrough: Passthrough, stream: Stream, headers: Headers, upstream: Upstream, end: bool
    ) -> None:
        """Send the call on, also when the backend is away, full or does not read."""
        conn = upstream.connection()
        if conn is None and upstream.overfull:
            self._fail(passthrough, stream, f"too much waits for runtime {upstream.path}")
        elif conn is None:
            passthrough.wait_for_backend(stream, upstream, headers.wire, end)
        elif upstream.congested:
            self._fail(passthrough, stream, f"runtime {upstream.path} does not read its socket")
        else:
            passthrough.forward(stream, conn, headers.wire, end)

    def _fail(self, passthrough: Passthrough, stream: Stream, why: str) -> None:
        self.recorder.finish(stream, Code.UNAVAILABLE)
        answer(stream, Code.UNAVAILABLE, why)
        passthrough.on_unsent(Code.UNAVAILABLE, why)

    def _open_subscribed(
        self, link: ClientLink, stream: Stream, headers: Headers, route: Route, end: bool, upstream: Upstream
    ) -> None:
        if route.refusal:
            self.recorder.finish(stream, Code.UNIMPLEMENTED)
            answer(stream, Code.UNIMPLEMENTED, route.refusal)
            return
        if route.intercepted:
            self.call_runner.intercept(stream, headers, route, link.peer, end, upstream)
            return
        from interpose.relay.taps import CallView, TappedPassthrough

        tap_registry = self.tap_registry
        call = Sighting(tap_registry.number(), headers.path, route.method, peer=link.peer, headers=headers)
        view = CallView(tap_registry, route.taps, route.readers, call)
        view.headers(Direction.REQUEST, headers)
        if route.editors and route.method is not None:
            from interpose.relay.stream_editor import EditedPassthrough, StreamEdit

            edit = StreamEdit(self.editors, route.editors, route.method, self._message_limit)
            passthrough: Passthrough = EditedPassthrough(self.recorder, view, edit)
        else:
            passthrough = TappedPassthrough(self.recorder, view)
        self._forward(passthrough, stream, headers, upstream, end)
