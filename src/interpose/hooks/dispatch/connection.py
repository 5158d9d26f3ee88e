"""How it goes with one hook server: connected or not, since when, and what went wrong last. Told to views and the log.

It hears from the connection what happens there and lets the breaker know when the hook server came back. It is told
whether a connection is there now, because only the connection knows that.
"""

import logging
from collections.abc import Callable
from typing import Final

from interpose.hooks.dispatch.breaker import Breaker, State
from interpose.hooks.dispatch.lookout import Identity, Lookout
from interpose.log import RateLimited

_log = logging.getLogger(__name__)

# A hook server that comes and goes all the time must not fill the log.
_LOG_INTERVAL: Final = 10.0

IDLE: Final = "idle"
CONNECTED: Final = "connected"
UNREACHABLE: Final = "unreachable"
BROKEN: Final = "broken"


class Condition:
    """See the module. `trouble` is why there is no connection, `last_error` what failed last, calls included."""

    def __init__(self, name: str, *, breaker: Breaker, lookout: Lookout, now: Callable[[], float]) -> None:
        self.trouble = "not dialled yet"
        self.last_error = ""
        self._name = name
        self._breaker = breaker
        self._lookout = lookout
        self._now = now
        self._limited = RateLimited(_log, interval=_LOG_INTERVAL, clock=now)
        self._last_error_at: float | None = None
        self._seen: Identity | None = None  # the socket of the latest connection
        self._tried_in_vain = False  # since that connection
        self._state = IDLE
        self._since = now()

    def state(self, up: bool) -> str:
        """`idle` until the first dial has ended, then one of the others; `broken` is a connection that is no use."""
        if up:
            state = BROKEN if self._breaker.state is State.OPEN else CONNECTED
        else:
            state = UNREACHABLE if self._tried_in_vain or self._seen is not None else IDLE
        if state != self._state:
            self._state, self._since = state, self._now()
        return state

    def state_seconds(self, up: bool) -> float:
        """How long it has been so."""
        self.state(up)
        return self._now() - self._since

    @property
    def last_error_age(self) -> float | None:
        """Seconds since something failed; None if nothing ever did."""
        return None if self._last_error_at is None else self._now() - self._last_error_at

    def note_error(self, error: str) -> None:
        """Something failed."""
        self.last_error, self._last_error_at = error, self._now()

    # -- what the connection tells (rpc.upstream.Reports)

    def unreachable(self, path: str, error: str) -> None:
        """A dial failed in a new way."""
        self._tried_in_vain = True
        self.trouble = error
        self.note_error(error)
        self.state(False)
        kv = {"plugin": self._name, "endpoint": path, "err": error}
        _log.warning("Hook server is not reachable", extra={"kv": kv})

    def connected(self, path: str, connections: int) -> None:
        """A connection is there. If the hook server was away, or another one listens now, it deserves a new trial."""
        self._lookout.connected()
        if self._tried_in_vain or self._lookout.dialled != self._seen:
            self._breaker.reset()
        self._seen, self._tried_in_vain = self._lookout.dialled, False
        self.state(True)
        if connections == 1:
            self._limited.log(logging.INFO, "Connected to hook server", plugin=self._name, endpoint=path)

    def lost(self, path: str, fault: str | None) -> None:
        """A connection ended."""
        self._lookout.lost()
        self.trouble = f"it broke the protocol: {fault}" if fault is not None else "it closed the connection"
        self.note_error(self.trouble)
        level = logging.INFO if fault is None else logging.WARNING
        self._limited.log(
            level,
            "Hook server connection ended",
            key=self.trouble,
            plugin=self._name,
            endpoint=path,
            reason=self.trouble,
        )
