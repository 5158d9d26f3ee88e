"""What clients may cost, and the state that a server and its connections share. No IO."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServerLimits:
    """What one client may cost. Sizes in bytes, times in seconds."""

    head: int = 16384  # request line and headers; curl and Prometheus send a few hundred
    body: int = 1 << 20  # the largest body we expect is a settings document
    pieces: int = 16384  # parts in which a body comes; each takes its time, however small it is
    first_timeout: float = 10.0  # before the first request; a client that connects has something to ask
    request_timeout: float = 10.0  # from the first byte of a request to its last
    idle_timeout: float = 90.0  # between requests; above the usual scrape interval of 60
    write_timeout: float = 30.0  # for a reader that stopped reading


class BodyBudget:
    """Bytes of request bodies that all connections together may hold; the number of clients does not multiply it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.used = 0

    def take(self, size: int) -> bool:
        """Whether there is room for so many more; then they are taken."""
        if self.used + size > self._limit:
            return False
        self.used += size
        return True

    def give_back(self, size: int) -> None:
        """Return bytes that were taken before."""
        self.used -= size


class Stage(IntEnum):
    """What a connection does. The lowest is closed first when room is needed; WORKING never is."""

    NEW = 0  # nothing was answered yet: shakes hands, says nothing, or sends its first request
    IDLE = 1  # between two requests
    UNDER_WAY = 2  # sends a further request, or takes its answer
    WORKING = 3  # its request is complete, and the answer is being made


@dataclass(slots=True, eq=False)
class HttpSession:
    """State of one connection: the connection writes what it does, the server when it has to end."""

    address: str = ""  # of the client; unix sockets have none
    since: float = 0.0  # when its stage began, by the loop's clock
    requests: int = 0  # begun so far
    stage: Stage = Stage.NEW
    last: bool = False  # the request at hand, or the next one, is the last
    cut: bool = False  # evicted: it is closed without an answer

    @property
    def busy(self) -> bool:
        """From the first byte of a request to the last of its answer."""
        return self.stage > Stage.IDLE or (self.stage is Stage.NEW and self.requests > 0)

    def on_request(self, now: float) -> None:
        """Called with the first byte of a request. The stage stays NEW before the first answer."""
        self.requests += 1
        if self.stage is not Stage.NEW:
            self._enter(Stage.UNDER_WAY, now)

    def on_request_complete(self, now: float) -> None:
        """Called when the request is complete."""
        self._enter(Stage.WORKING, now)

    def on_response(self, now: float) -> None:
        """Called when the answer is about to be sent."""
        self._enter(Stage.UNDER_WAY, now)

    def on_idle(self, now: float) -> None:
        """Called when the connection waits for a further request."""
        self._enter(Stage.IDLE, now)

    def _enter(self, stage: Stage, now: float) -> None:
        self.stage = stage
        self.since = now


def choose_eviction(sessions: Iterable[HttpSession]) -> HttpSession | None:
    """The session to close in favour of a new client; None if requests of all of them are being handled.

    First those that never had an answer: an honest client is among them for milliseconds only. Those that had one, and
    so are API servers, scrapers and probes most likely, go when there are no others. Of either kind the address with
    the most connections loses its oldest: a client that holds connections for nothing takes them from itself.
    """
    found = [session for session in sessions if session.stage is not Stage.WORKING]
    share = Counter((session.stage is Stage.NEW, session.address) for session in found)

    def rank(session: HttpSession) -> tuple[bool, int, Stage, float]:
        new = session.stage is Stage.NEW
        return not new, -share[new, session.address], session.stage, session.since

    return min(found, key=rank, default=None)
