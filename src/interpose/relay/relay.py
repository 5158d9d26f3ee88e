"""The relay itself: every new stream of a client comes here and is sent on its way."""

from collections.abc import Callable

from interpose.h2.errors import ErrorCode
from interpose.h2.headers import Headers
from interpose.h2.stream import Stream
from interpose.relay.passthrough import Ledger, Passthrough, Ticket
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
        self._clock = ledger.clock

    def accept(self, link: ClientLink) -> Callable[[Stream, Headers, bool], None]:
        """What to do with the streams of this client."""
        return self._open

    def _open(self, stream: Stream, headers: Headers, end: bool) -> None:
        route = self._known.get(headers.path)
        if route is None:
            route = self.routes.find(headers.path)
        ledger = self.ledger
        route.stats.started += 1
        ledger.active += 1
        stream.call = Ticket(route, self._clock())
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
        conn = route.upstream.connection()
        if conn is None:
            self.passthrough.wait(stream, route.upstream, headers.wire, end)
        else:
            self.passthrough.join(stream, conn, headers.wire, end)
