"""Connection to one hook server: when its socket is dialled, and the state that views and the log show.

`DialPolicy` decides when to dial. A hook server that is away costs a stat of its socket file every 50 ms and nothing
else. A new socket file is dialled at once; one that keeps failing is dialled at growing intervals, because a server
cannot come back without creating the file again.

`ConnectionState` keeps the state: connected or not, since when, and the last error. It resets the breaker when the hook
server is reachable again. Its callers pass in whether a connection is up, because only the connection knows that.
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

POLL_INTERVAL: Final = 0.05
_BACKOFF: Final = Backoff(POLL_INTERVAL, 1.0)
# A connection that ended sooner than this does not count as working: dialling again at once would loop.
_USEFUL_AFTER: Final = 1.0
SocketIdentity: TypeAlias = tuple[int, int, int]


class DialPolicy:
    """Decides when the socket at one path is dialled. `dialled` is the socket file that was dialled last."""

    def __init__(self, path: str, now: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self.dialled: SocketIdentity | None = None
        self._file = Path(path)
        self._now = now
        self._dials = 0  # of this very file, without a working connection
        self._last = now()

    def current_socket(self) -> SocketIdentity | None:
        """The identity of the present socket file; None without one."""
        try:
            return self._stat_socket()
        except OSError:
            return None

    @property
    def is_replaced(self) -> bool:
        """Whether the socket file is another one than the file that was dialled."""
        found = self.current_socket()
        return found is not None and found != self.dialled

    def find(self) -> str:
        """Called before each dial: the path to dial. OSError of the stat if there is no file."""
        before, self.dialled = self.dialled, None
        self.dialled = self._stat_socket()
        self._dials = self._dials + 1 if self.dialled == before else 1
        self._last = self._now()
        return self.path

    def _stat_socket(self) -> SocketIdentity:
        """The identity has the creation time in it, because inode numbers are reused at once."""
        found = self._file.stat()
        return found.st_dev, found.st_ino, found.st_ctime_ns

    def connected(self) -> None:
        """Note the time of a dial that succeeded."""
        self._last = self._now()

    def lost(self) -> None:
        """Note the end of a connection: dial at once if it had lasted."""
        if self._now() - self._last >= _USEFUL_AFTER:
            self._dials = 0

    async def pace(self, failed: int) -> None:
        """Wait until the next dial may succeed: the socket file is another one, or the pause is over."""
        if self._dials == 0 and not failed:
            return
        until = self._last + _BACKOFF.delay(max(self._dials, 1))
        while (found := self.current_socket()) == self.dialled and (found is None or self._now() < until):  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(POLL_INTERVAL)


_log = logging.getLogger(__name__)

# A hook server that restarts all the time must not fill the log.
_LOG_INTERVAL: Final = 10.0

IDLE: Final = "idle"
CONNECTED: Final = "connected"
UNREACHABLE: Final = "unreachable"
BROKEN: Final = "broken"


class ConnectionState:
    """State of a connection. `problem` is why there is none, `last_error` the last error, calls included."""

    def __init__(self, name: str, *, breaker: Breaker, dial_policy: DialPolicy, now: Callable[[], float]) -> None:
        self.problem = "not dialled yet"
        self.last_error = ""
        self._name = name
        self._breaker = breaker
        self._dial_policy = dial_policy
        self._now = now
        self._limited = RateLimited(_log, interval=_LOG_INTERVAL, clock=now)
        self._last_error_at: float | None = None
        self._connected_socket: SocketIdentity | None = None  # the socket of the latest connection
        self._dial_failed = False  # since that connection
        self._state = IDLE
        self._since = now()

    def state(self, up: bool) -> str:
        """`idle` until the first dial has ended, then one of the others; `broken`: connected, breaker open."""
        if up:
            state = BROKEN if self._breaker.state is BreakerState.OPEN else CONNECTED
        else:
            state = UNREACHABLE if self._dial_failed or self._connected_socket is not None else IDLE
        if state != self._state:
            self._state, self._since = state, self._now()
        return state

    def state_seconds(self, up: bool) -> float:
        """Seconds since the state last changed."""
        self.state(up)
        return self._now() - self._since

    @property
    def last_error_age(self) -> float | None:
        """Seconds since the last error; None if there was none."""
        return None if self._last_error_at is None else self._now() - self._last_error_at

    def note_error(self, error: str) -> None:
        """Remember an error and its time."""
        self.last_error, self._last_error_at = error, self._now()

    # -- callbacks of the connection (`net.grpc.upstream`)

    def unreachable(self, path: str, error: str) -> None:
        """Called when a dial failed with another error than before."""
        self._dial_failed = True
        self.problem = error
        self.note_error(error)
        self.state(False)
        kv = {"plugin": self._name, "endpoint": path, "err": error}
        _log.warning("Hook server is not reachable", extra={"kv": kv})

    def connected(self, path: str, connections: int) -> None:
        """Called for a new connection. Resets the breaker if the hook server was away or is another process now."""
        self._dial_policy.connected()
        if self._dial_failed or self._dial_policy.dialled != self._connected_socket:
            self._breaker.reset()
        self._connected_socket, self._dial_failed = self._dial_policy.dialled, False
        self.state(True)
        if connections == 1:
            self._limited.log(logging.INFO, "Connected to hook server", plugin=self._name, endpoint=path)

    def lost(self, path: str, fault: str | None) -> None:
        """Called when a connection ended, with the protocol error of the peer if there was one."""
        self._dial_policy.lost()
        self.problem = f"it broke the protocol: {fault}" if fault is not None else "it closed the connection"
        self.note_error(self.problem)
        level = logging.INFO if fault is None else logging.WARNING
        self._limited.log(
            level,
            "Hook server connection ended",
            key=self.problem,
            plugin=self._name,
            endpoint=path,
            reason=self.problem,
        )
