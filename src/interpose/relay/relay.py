"""The relay itself: every new stream of a client comes here and is sent on its way."""

from collections.abc import Callable

from interpose.h2.errors import ErrorCode
from interpose.h2.headers import Headers
from interpose.h2.stream import Stream
from interpose.relay.passthrough import Ledger, Passthrough
from interpose.relay.routes import Routes
from interpose.rpc.answer import answer
from interpose.rpc.listener import ClientLink
from interpose.rpc.status import Code


class Relay:
    """Routes calls. Holds no connection and no socket: those are the listener's and the upstreams'."""

    def __init__(self, routes: Routes, ledger: Ledger, *, max_streams: int, header_list: int) -> None:
        self.routes = routes
        self.ledger = ledger
        self.passthrough = Passthrough(ledger)
        self._known = routes.known
        self._max_streams = max_streams
        self._header_list = header_list
        self._requests = self.passthrough.requests
        self._replies = self.passthrough.replies

    def accept(self, link: ClientLink) -> Callable[[Stream, Headers, bool], None]:
        """What to do with the streams of this client."""
        return self._open

    def _open(self, stream: Stream, headers: Headers, end: bool) -> None:
        route = self._known.get(headers.path)
        if route is None:
            route = self.routes.find(headers.path)
        ledger = self.ledger
        ledger.begin(stream, route.stats)
        if headers.oversized:
            ledger.finish(stream, Code.RESOURCE_EXHAUSTED)
            answer(
                stream,
                Code.RESOURCE_EXHAUSTED,
                f"header list of {headers.size} bytes is over the limit of {self._header_list}",
            )
            return
        if ledger.active > self._max_streams:
            ledger.finish(stream, Code.UNAVAILABLE)
            stream.reset(ErrorCode.REFUSED_STREAM)
            return
        upstream = route.upstream
        conn = upstream.current
        if conn is None or len(conn.streams) >= conn.stream_limit:
            conn = upstream.connection()
            if conn is None:
                self.passthrough.wait(stream, upstream, headers.wire, end)
                return
        peer = conn.open(self._replies, headers.wire, end)
        peer.peer = stream
        stream.peer = peer
        stream.sink = self._requests
