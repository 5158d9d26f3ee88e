"""What clients may cost, and how a server and its conversations see each other. No IO."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpLimits:
    """What one client may cost. Sizes in bytes, times in seconds."""

    head: int = 16384  # request line and headers; curl and Prometheus send a few hundred
    body: int = 1 << 20  # the largest body we expect is a settings document
    request_timeout: float = 10.0  # from the first byte of a request to its last
    idle_timeout: float = 90.0  # between requests; above the usual scrape interval of 60
    write_timeout: float = 30.0  # for a reader that stopped reading
    first_timeout: float = 0.0  # before the first request, if that shall be another; 0: as between requests


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


@dataclass(slots=True, eq=False)
class Visit:
    """One connection, seen from both sides: the conversation says what it does, the server when it shall end."""

    requests: int = 0  # begun so far
    busy: bool = True  # until it waits for a request; then from the first byte of one to the last of its answer
    idle_since: float = 0.0  # by the loop's clock
    last: bool = False  # the request at hand, or the next one, is the last

    def begin(self) -> None:
        """The first byte of a request is there."""
        self.requests += 1
        self.busy = True

    def rest(self, now: float) -> None:
        """Waits for a request."""
        self.busy = False
        self.idle_since = now
