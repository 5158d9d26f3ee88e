"""Showing passing messages to taps.

The tapped sinks do what the pass-through sinks do and, beside it, cut copies of the bytes into messages. Whatever a tap
raises is counted and logged once; the call never notices. A message over the limit ends the copying for its call.
"""

import itertools
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from interpose.h2.headers import Headers
from interpose.h2.stream import Stream
from interpose.relay.interceptor import CLIENT, Direction, Tap
from interpose.relay.methods import Method
from interpose.relay.passthrough import Ledger, Passthrough, Replies, Requests, code_of
from interpose.rpc.exchange import plain
from interpose.rpc.framing import Messages
from interpose.rpc.status import Code, RpcError, code_of_reset

_log = logging.getLogger(__name__)


class Watchers:
    """The taps, with the guard around them."""

    def __init__(self, taps: Sequence[Tap]) -> None:
        self.taps = tuple(taps)
        self.errors: Counter[str] = Counter()
        self._numbers = itertools.count(1)

    def of(self, method: str) -> tuple[Tap, ...]:
        """Who looks at this method."""
        return tuple(tap for tap in self.taps if method in tap.methods)

    def number(self) -> int:
        """A number for a new call."""
        return next(self._numbers)

    def show(
        self, taps: Sequence[Tap], call: int, method: Method, origin: str, direction: Direction, message: bytes
    ) -> None:
        """Hand a message to taps."""
        for tap in taps:
            self._guard(tap, partial(tap.on_message, call, method, origin, direction, message))

    def end(self, taps: Sequence[Tap], call: int, method: Method, code: int) -> None:
        """Tell taps that a call is over."""
        for tap in taps:
            self._guard(tap, partial(tap.on_end, call, method, code))

    def _guard(self, tap: Tap, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:
            self.errors[tap.name] += 1
            if self.errors[tap.name] == 1:
                _log.error(
                    "Tap failed; further failures are only counted", extra={"kv": {"tap": tap.name}}, exc_info=error
                )


class Viewing:
    """One call as its taps see it."""

    __slots__ = ("_headers", "_lost", "_messages", "_method", "_number", "_taps", "_watchers", "limit")

    def __init__(self, watchers: Watchers, taps: Sequence[Tap], method: Method, limit: int) -> None:
        self._watchers = watchers
        self._taps = taps
        self._method = method
        self.limit = limit
        self._number = watchers.number()
        self._headers: dict[Direction, Headers] = {}
        self._messages = {direction: Messages(limit) for direction in (Direction.REQUEST, Direction.REPLY)}
        self._lost = False

    def headers(self, direction: Direction, headers: Headers) -> None:
        """The block that names the compression."""
        self._headers.setdefault(direction, headers)

    def data(self, direction: Direction, data: bytes) -> None:
        """Bytes of the body; whole messages are shown."""
        if self._lost:
            return
        try:
            for compressed, message in self._messages[direction].feed(data):
                text = plain(self._headers.get(direction), compressed, message, self.limit)
                self._watchers.show(self._taps, self._number, self._method, CLIENT, direction, text)
        except RpcError:
            self._lost = True
            self._watchers.errors["unreadable message"] += 1

    def end(self, code: int) -> None:
        """The call is over."""
        if self._taps:
            taps, self._taps = self._taps, ()
            self._watchers.end(taps, self._number, self._method, code)


class TappedRequests(Requests):
    """Requests, seen by taps."""

    def __init__(self, ledger: Ledger, view: Viewing) -> None:
        super().__init__(ledger)
        self._view = view

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        self._view.data(Direction.REQUEST, data)
        super().on_data(stream, data, end)

    def on_reset(self, stream: Stream, code: int) -> None:
        super().on_reset(stream, code)
        self._view.end(Code.CANCELLED)

    def on_lost(self, stream: Stream) -> None:
        super().on_lost(stream)
        self._view.end(Code.CANCELLED)

    def shut(self, stream: Stream, code: int) -> None:
        super().shut(stream, code)
        self._view.end(code)


class TappedReplies(Replies):
    """Replies, seen by taps."""

    def __init__(self, ledger: Ledger, view: Viewing) -> None:
        super().__init__(ledger)
        self._view = view

    def on_headers(self, stream: Stream, headers: Headers, end: bool) -> None:
        super().on_headers(stream, headers, end)
        if end:
            self._view.end(code_of(headers))
        else:
            self._view.headers(Direction.REPLY, headers)

    def on_data(self, stream: Stream, data: bytes, end: bool) -> None:
        self._view.data(Direction.REPLY, data)
        super().on_data(stream, data, end)
        if end:
            self._view.end(Code.UNKNOWN)

    def on_reset(self, stream: Stream, code: int) -> None:
        super().on_reset(stream, code)
        self._view.end(code_of_reset(code))

    def on_lost(self, stream: Stream) -> None:
        super().on_lost(stream)
        self._view.end(Code.UNAVAILABLE)


class TappedPassthrough(Passthrough):
    """A pass-through of one call's own, whose sinks show what passes."""

    def __init__(self, ledger: Ledger, view: Viewing) -> None:
        super().__init__(ledger, TappedRequests(ledger, view), TappedReplies(ledger, view))
        self._view = view

    def over(self, code: int) -> None:
        self._view.end(code)


def tapped(ledger: Ledger, view: Viewing) -> Passthrough:
    """The way of a call that taps look at."""
    return TappedPassthrough(ledger, view)
