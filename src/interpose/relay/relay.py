"""The relay itself: every new stream of a client comes here and is sent on its way."""

from collections.abc import Callable, Sequence
from typing import Any

from interpose.h2.headers import Headers
from interpose.h2.stream import Stream
from interpose.relay.interceptor import Direction, Interceptor, Reply, StreamEditor, Tap
from interpose.relay.methods import METHODS
from interpose.relay.passthrough import Ledger, Passthrough
from interpose.relay.routes import Route, Routes
from interpose.rpc.answer import answer
from interpose.rpc.listener import ClientLink
from interpose.rpc.status import Code
from interpose.rpc.transport import Hub


class Relay:
    """Routes calls. Holds no connection and no socket: those are the listener's and the upstreams'.

    A method nobody subscribes to never leaves the frame loop, and without any subscriber the code for them is not
    even imported.
    """

    def __init__(self, routes: Routes, ledger: Ledger, *, header_list: int) -> None:
        self.routes = routes
        self.ledger = ledger
        self.passthrough = Passthrough(ledger)
        self.collector: Any = None
        self.watchers: Any = None
        self.editors: Any = None
        self._known = routes.known
        self._header_list = header_list
        self._message_limit = 0

    def subscribe(
        self,
        interceptors: Sequence[Interceptor],
        taps: Sequence[Tap],
        *,
        hub: Hub,
        message_limit: int,
        now: Callable[[], float],
        editors: Sequence[StreamEditor] = (),
    ) -> None:
        """Say once who intercepts, who looks on and who edits streams. They run in the order given."""
        from interpose.relay.chain import Chain
        from interpose.relay.collected import Collector
        from interpose.relay.rewriting import Editors
        from interpose.relay.taps import Watchers

        self._message_limit = message_limit
        self.watchers = Watchers(taps)
        self.editors = Editors(editors)
        self.collector = Collector(
            chain=Chain(interceptors), watchers=self.watchers, hub=hub, ledger=self.ledger, limit=message_limit, now=now
        )
        self.refresh()

    def refresh(self) -> None:
        """Ask the subscribers again which methods they want. Calls in flight go on as they began."""
        chain = self.collector.chain
        chain.arrange()
        subscribers: list[Interceptor | StreamEditor | Tap] = [
            *chain.interceptors,
            *self.editors.editors,
            *self.watchers.taps,
        ]
        for one in subscribers:
            if unknown := sorted(set(one.methods) - set(METHODS)):
                raise ValueError(f"{one.name} subscribes to {', '.join(unknown)}: no such CRI method")
        intercepted = chain.methods
        for name in intercepted:
            if METHODS[name].server_streaming:
                raise ValueError(f"{name} streams its replies: it can be tapped or edited, not intercepted")
        for name in self.editors.methods:
            if not METHODS[name].server_streaming:
                raise ValueError(f"{name} has one reply: it can be tapped or intercepted, not edited")
        for name in METHODS:
            for route in self.routes.of_method(name):
                route.subscribe(
                    intercepted=name in intercepted, taps=self.watchers.of(name), editors=self.editors.of(name)
                )

    @property
    def in_flight(self) -> int:
        """Calls begun and not ended."""
        return sum(stats.in_flight for stats in self.routes.stats())

    async def call(
        self, path: bytes, message: bytes, *, origin: str, below: Interceptor | None = None, timeout: float = 10.0
    ) -> Reply:
        """A call of one of our own parts, which enters the chain below that part."""
        reply: Reply = await self.collector.originate(
            self._known[path], path, message, origin=origin, below=below, timeout=timeout
        )
        return reply

    def accept(self, link: ClientLink) -> Callable[[Stream, Headers, bool], None]:
        """What to do with the streams of this client. Closed over its parts: this runs for every call."""
        known = self._known
        find = self.routes.find
        clock = self.ledger.clock
        requests = self.passthrough.requests
        replies = self.passthrough.replies

        def accept(stream: Stream, headers: Headers, end: bool) -> None:
            route = known.get(headers.path)
            if route is None:
                route = find(headers.path)
            stats = route.stats
            stats.started += 1
            stream.call = stats
            stream.since = clock()
            conn = route.upstream.current
            if (
                route.special
                or conn is None
                or len(conn.streams) >= conn.stream_limit
                or conn.blocked
                or not headers.event  # over the limit
            ):
                self._open_slowly(link, stream, headers, route, end)
                return
            stream.sink = requests
            stream.peer = stream.splice = peer = conn.open(replies, headers.wire, end)
            peer.peer = peer.splice = stream

        return accept

    def _open_slowly(self, link: ClientLink, stream: Stream, headers: Headers, route: Route, end: bool) -> None:
        if headers.oversized:
            self._refuse(stream, headers)
        elif route.special:
            self._special(link, stream, headers, route, end)
        else:
            self._forward(self.passthrough, stream, headers, route, end)

    def _refuse(self, stream: Stream, headers: Headers) -> None:
        self.ledger.finish(stream, Code.RESOURCE_EXHAUSTED)
        why = f"header list of {headers.size} bytes is over the limit of {self._header_list}"
        answer(stream, Code.RESOURCE_EXHAUSTED, why)

    def _forward(self, way: Passthrough, stream: Stream, headers: Headers, route: Route, end: bool) -> None:
        """Pass on, also when the backend is away, full or not reading."""
        upstream = route.upstream
        conn = upstream.connection()
        if conn is None:
            way.wait(stream, upstream, headers.wire, end)
        elif upstream.congested:
            self.ledger.finish(stream, Code.UNAVAILABLE)
            answer(stream, Code.UNAVAILABLE, f"runtime {upstream.path} does not read its socket")
            way.over(Code.UNAVAILABLE)
        else:
            way.join(stream, conn, headers.wire, end)

    def _special(self, link: ClientLink, stream: Stream, headers: Headers, route: Route, end: bool) -> None:
        if route.intercepted:
            self.collector.collect(stream, headers, route, link.peer, end)
            return
        from interpose.relay.rewriting import Editing, Unwatched, edited
        from interpose.relay.taps import Viewing, tapped

        if route.method is not None:
            limit = self._message_limit
            view = (Viewing if route.taps else Unwatched)(self.watchers, route.taps, route.method, limit)
            view.headers(Direction.REQUEST, headers)
            if route.editors:
                editing = Editing(self.editors, route.editors, route.method, limit)
                way = edited(self.ledger, view, editing)
            else:
                way = tapped(self.ledger, view)
            self._forward(way, stream, headers, route, end)
