"""Connection to one hook server: when its socket is dialled, and the state that views and the log show.

`DialPolicy` decides when to dial. A hook server that is away costs a stat of its socket file every 50 ms and nothing
else. A new socket file is dialled at once; one that keeps failing is dialled at growing intervals, because a server
cannot come back without creating the file again.

`ConnectionState` keeps the state: connected or not, since when, and the last error. It resets the breaker when the hook
server has come back. Its callers pass in whether a connection is up, because only the connection knows that.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from interpose.core.backoff import Backoff
from interpose.hooks.dispatch.breaker import Breaker, BreakerState
from interpose.log import RateLimited

LOOK_EVERY: Final = 0.05
_BACKOFF: Final = Backoff(LOOK_EVERY, 1.0)
# A connection that ended sooner than this was of no use: dialling again at once would go round in circles.
_OF_USE: Final = 1.0
Identity: TypeAlias = tuple[int, int, int]


class DialPolicy:
    """The socket file at one path, and the dials it has seen. `dialled` is the file that was dialled last."""

    def __init__(self, path: str, now: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.dialled: Identity | None = None
        self._file = Path(path)
        self._now = now
        self._dials = 0  # of this very file, without a connection that was of use
        self._last = now()

    def look(self) -> Identity | None:
        """Which file is there now."""
        try:
            return self._stat()
        except OSError:
            return None

    @property
    def replaced(self) -> bool:
        """Whether another file has taken the place of the one that was dialled."""
        found = self.look()
        return found is not None and found != self.dialled

    def find(self) -> str:
        """Called before each dial. Without a file there is none, and the error is that of the stat."""
        before, self.dialled = self.dialled, None
        self.dialled = self._stat()
        self._dials = self._dials + 1 if self.dialled == before else 1
        self._last = self._now()
        return self.path

    def _stat(self) -> Identity:
        """Inode numbers are used again at once, so the time of the file's making is part of it."""
        found = self._file.stat()
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def connected(self) -> None:
        """The dial went well."""
        self._last = self._now()

    def lost(self) -> None:
        """The connection ended."""
        if self._now() - self._last >= _OF_USE:
            self._dials = 0

    async def pace(self, failed: int) -> None:
        """Wait until a dial may go better than the one before: another file, or enough time."""
        if self._dials == 0 and not failed:
            return
        until = self._last + _BACKOFF.delay(max(self._dials, 1))
        while (found := self.look()) == self.dialled and (found is None or self._now() < until):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(LOOK_EVERY)


_log = logging.getLogger(__name__)

# A hook server that comes and goes all the time must not fill the log.
_LOG_INTERVAL: Final = 10.0

IDLE: Final = "idle"
CONNECTED: Final = "connected"
UNREACHABLE: Final = "unreachable"
BROKEN: Final = "broken"


class ConnectionState:
    """See the module. `trouble` is why there is no connection, `last_error` what failed last, calls included."""

    def __init__(self, name: str, *, breaker: Breaker, lookout: DialPolicy, now: Callable[[], float]) -> None:
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
            state = BROKEN if self._breaker.state is BreakerState.OPEN else CONNECTED
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
