"""The deadlines of calls that wait for one hook server: one timer for all of them."""

import asyncio

from interpose.net.grpc.exchange import Exchange


class Deadlines:
    """Ends the wait for replies that do not come in time. The timer is not moved when a reply comes: that would cost
    each call as much as a timer of its own."""

    def __init__(self) -> None:
        self.waiting: dict[Exchange, float] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def add(self, exchange: Exchange, deadline: float) -> None:
        """End this exchange at this time of the loop, unless it is removed before."""
        self.waiting[exchange] = deadline
        if self._timer is None or deadline < self._due:
            self._arm(deadline)

    def remove(self, exchange: Exchange) -> None:
        self.waiting.pop(exchange, None)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self, due: float) -> None:
        self.close()
        self._due = due
        self._timer = asyncio.get_running_loop().call_at(due, self._expire)

    def _expire(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for exchange in [exchange for exchange, deadline in self.waiting.items() if deadline <= now]:
            del self.waiting[exchange]
            exchange.expire()
        if self.waiting:
            self._arm(min(self.waiting.values()))
