"""The relay itself: every new stream of a client comes here and is sent on its way."""

from collections.abc import Callable, Sequence
from typing import Any

from interpose.h2.headers import Headers
from interpose.h2.stream import Stream
from interpose.relay.interceptor import Direction, Interceptor, Interest, Reply, Sighting, StreamEditor, Tap
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
        taps: Sequence[Tap] = (),
        *,
        hub: Hub,
        message_limit: int,
        now: Callable[[], float],
        editors: Sequence[StreamEditor] = (),
    ) -> None:
        """Say once who intercepts, who edits streams, and who looks on from now on. They run in the order given."""
        from interpose.relay.chain import Chain
        from interpose.relay.collected import Collector
        from interpose.relay.rewriting import Editors

        self._message_limit = message_limit
        watchers = self._watched()
        watchers.taps = (*taps, *watchers.taps)
        self.editors = Editors(editors)
        self.collector = Collector(
            chain=Chain(interceptors), watchers=watchers, hub=hub, ledger=self.ledger, limit=message_limit, now=now
        )
        self.refresh()

    def watch(self, tap: Tap) -> None:
        """From now on this one looks on, too. Calls in flight are not shown to it."""
        watchers = self._watched()
        watchers.taps = (*watchers.taps, tap)
        self.refresh()

    def unwatch(self, tap: Tap) -> None:
        """It looks on no longer, but for calls that it has seen begin."""
        watchers = self._watched()
        watchers.taps = tuple(one for one in watchers.taps if one is not tap)
        self.refresh()

    def _watched(self) -> Any:
        if self.watchers is None:
            from interpose.relay.taps import Watchers

            self.watchers = Watchers()
        return self.watchers

    def refresh(self) -> None:
        """Ask the subscribers again which methods they want. Calls in flight go on as they began."""
        intercepted = frozenset[str]() if self.collector is None else self._intercepted()
        watchers = self._watched()
        for name in METHODS:
            for route in self.routes.of_method(name):
                route.subscribe(
                    intercepted=name in intercepted,
                    taps=watchers.of(name),
                    readers=watchers.of(name, Interest.MESSAGES),
                    editors=() if self.editors is None else self.editors.of(name),
                )
        for route in self.routes.others:
            route.subscribe(intercepted=False, taps=watchers.of(""), readers=watchers.of("", Interest.MESSAGES))

    def _intercepted(self) -> frozenset[str]:
        """The methods somebody intercepts. ValueError if somebody wants what cannot be."""
        chain = self.collector.chain
        chain.arrange()
        subscribers: list[Interceptor | StreamEditor] = [*chain.interceptors, *self.editors.editors]
        for one in subscribers:
            if unknown := sorted(set(one.methods) - set(METHODS)):
                raise ValueError(f"{one.name} subscribes to {', '.join(unknown)}: no such CRI method")
        intercepted: frozenset[str] = chain.methods
        for name in intercepted:
            if METHODS[name].server_streaming:
                raise ValueError(f"{name} streams its replies: it can be tapped or edited, not intercepted")
        for name in self.editors.methods:
            if not METHODS[name].server_streaming:
                raise ValueError(f"{name} has one reply: it can be tapped or intercepted, not edited")
        return intercepted

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
            why = f"runtime {upstream.path} does not read its socket"
            answer(stream, Code.UNAVAILABLE, why)
            way.over(Code.UNAVAILABLE, why)
        else:
            way.join(stream, conn, headers.wire, end)

    def _special(self, link: ClientLink, stream: Stream, headers: Headers, route: Route, end: bool) -> None:
        if route.intercepted:
            self.collector.collect(stream, headers, route, link.peer, end)
            return
        from interpose.relay.taps import Viewing, tapped

        watchers = self.watchers
        call = Sighting(watchers.number(), headers.path, route.method, peer=link.peer, headers=headers)
        view = Viewing(watchers, route.taps, route.readers, call)
        view.headers(Direction.REQUEST, headers)
        if route.editors and route.method is not None:
            from interpose.relay.rewriting import Editing, edited

            way = edited(self.ledger, view, Editing(self.editors, route.editors, route.method, self._message_limit))
        else:
            way = tapped(self.ledger, view)
        self._forward(way, stream, headers, route, end)
