"""A circuit breaker: whether a hook server that fails again and again is asked at all.

Pure: time is given by the caller. Closed, everyone may ask. After some failures in a row it opens, and nobody is kept
waiting by a hook server that does not work. After a pause it is half open: one caller may try, all others are refused.
The trial closes it, or opens it for twice as long.

Whoever may ask holds a ticket and gives it back with the outcome, exactly once. A ticket from before the last change of
state says nothing about the present one, so its outcome does not count: calls that began together and time out
together are not several bad news but one.
"""

from enum import StrEnum


class BreakerState(StrEnum):
    """Whether callers are let through."""

    CLOSED = "closed"  # all of them
    OPEN = "open"  # none
    HALF_OPEN = "half-open"  # one at a time


class Breaker:
    """See the module. `openings` counts how often it opened."""

    def __init__(self, *, failures: int = 3, pause: float = 1.0, longest: float = 30.0) -> None:
        self.state = BreakerState.CLOSED
        self.openings = 0
        self._most = failures
        self._first_pause = pause
        self._longest = longest
        self._pause = pause
        self._failures = 0  # in a row
        self._until = 0.0  # when it is open: the time of the next trial
        self._era = 0  # changes with the state; a ticket is the era it was given in
        self._trying = False
        self._before = (self.state, self._failures, self._pause)  # the latest success; see `disown`

    def enter(self, now: float) -> int | None:
        """A ticket for one call, or None: do not ask."""
        if self.state is BreakerState.OPEN and now >= self._until:
            self._become(BreakerState.HALF_OPEN)
        if self.state is BreakerState.CLOSED:
            return self._era
        if self.state is BreakerState.OPEN or self._trying:
            return None
        self._trying = True
        return self._era

    def retry_in(self, now: float) -> float:
        """Seconds until the next trial may begin; 0 if it may now."""
        return max(self._until - now, 0.0) if self.state is BreakerState.OPEN else 0.0

    def succeeded(self, ticket: int) -> None:
        """The hook server answered."""
        self._before = (self.state, self._failures, self._pause)
        if ticket != self._era:
            return
        self._failures = 0
        self._pause = self._first_pause
        if self.state is not BreakerState.CLOSED:
            self._become(BreakerState.CLOSED)

    def failed(self, ticket: int, now: float) -> None:
        """The hook server did not answer, or not in a way that can be understood."""
        if ticket == self._era:
            self._count_failure(now)

    def abandoned(self, ticket: int) -> None:
        """The caller lost interest before there was an outcome: another one may try."""
        if ticket == self._era:
            self._trying = False

    def disown(self, now: float) -> None:
        """What was reported as a success last was none after all: the answer could not be read.

        Without taking the success back, a hook server that always answers nonsense would never fail twice in a row.
        """
        if self.state is BreakerState.CLOSED:
            state, self._failures, self._pause = self._before
            self._before = (BreakerState.CLOSED, self._failures, self._pause)
            if state is not BreakerState.CLOSED:
                self._become(state)
            self._count_failure(now)

    def reset(self) -> None:
        """The hook server came back: if it was given up, everyone may ask at once, and the first failure opens again.

        Not half open: calls that come together just then would pass without a hook server that works.
        """
        if self.state is not BreakerState.CLOSED:
            self._pause = self._first_pause
            self._failures = self._most - 1
            self._become(BreakerState.CLOSED)

    def _count_failure(self, now: float) -> None:
        if self.state is BreakerState.CLOSED:
            self._failures += 1
            if self._failures < self._most:
                return
        else:
            self._pause = min(self._pause * 2, self._longest)
        self.openings += 1
        self._until = now + self._pause
        self._become(BreakerState.OPEN)

    def _become(self, state: BreakerState) -> None:
        self.state = state
        self._era += 1
        self._trying = False
