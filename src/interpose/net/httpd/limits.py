"""What clients may cost, and how a server and its conversations see each other. No IO."""

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
    first_timeout: float = 10.0  # before the first request; who connects has something to ask
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
        """They are free again."""
        self.used -= size


class Stage(IntEnum):
    """What a connection does. Those that do less go first when room is needed; one we work for never does."""

    NEW = 0  # nothing was answered yet: shakes hands, says nothing, or sends its first request
    IDLE = 1  # between two requests
    UNDER_WAY = 2  # sends a further request, or takes its answer
    WORKING = 3  # its request is complete, and the answer is being made


@dataclass(slots=True, eq=False)
class Visit:
    """One connection, seen from both sides: the conversation says what it does, the server when it shall end."""

    address: str = ""  # of the client; unix sockets have none
    since: float = 0.0  # when its stage began, by the loop's clock
    requests: int = 0  # begun so far
    stage: Stage = Stage.NEW
    last: bool = False  # the request at hand, or the next one, is the last
    cut: bool = False  # somebody else needs the room: no goodbyes

    @property
    def busy(self) -> bool:
        """From the first byte of a request to the last of its answer."""
        return self.stage > Stage.IDLE or (self.stage is Stage.NEW and self.requests > 0)

    def begin(self, now: float) -> None:
        """The first byte of a request is there. Before the first answer that is nothing yet."""
        self.requests += 1
        if self.stage is not Stage.NEW:
            self._enter(Stage.UNDER_WAY, now)

    def work(self, now: float) -> None:
        """The request is complete."""
        self._enter(Stage.WORKING, now)

    def write(self, now: float) -> None:
        """The answer is on its way."""
        self._enter(Stage.UNDER_WAY, now)

    def rest(self, now: float) -> None:
        """Waits for a further request."""
        self._enter(Stage.IDLE, now)

    def _enter(self, stage: Stage, now: float) -> None:
        self.stage = stage
        self.since = now


def first_to_go(visits: Iterable[Visit]) -> Visit | None:
    """Whose place somebody new may have; None if everybody is being worked for.

    First those that never had an answer: an honest client is among them for milliseconds only. Those who had one, and
    so are API servers, scrapers and probes most likely, go when there are no others. Of either kind an address that
    has many gives one of its own, the oldest: whoever holds connections for nothing takes them from itself.
    """
    found = [visit for visit in visits if visit.stage is not Stage.WORKING]
    share = Counter((visit.stage is Stage.NEW, visit.address) for visit in found)

    def rank(visit: Visit) -> tuple[bool, int, Stage, float]:
        new = visit.stage is Stage.NEW
        return not new, -share[new, visit.address], visit.stage, visit.since

    return min(found, key=rank, default=None)
