"""A circuit breaker: whether a hook server that fails again and again is called at all.

Pure: the caller passes the time. While the breaker is closed, every call is made. After some failures in a row it
opens, and no call waits for a hook server that does not work. After a pause it is half open: one call is made as a
trial, all others are refused. The trial closes the breaker, or opens it for twice as long.

Each call holds a ticket and returns it with the outcome, exactly once. The outcome of a ticket from before the last
change of state does not count: calls that started together and time out together are one failure, not several.
"""

from enum import StrEnum


class BreakerState(StrEnum):
    """How many calls the breaker lets through."""

    CLOSED = "closed"  # all
    OPEN = "open"  # none
    HALF_OPEN = "half-open"  # one at a time


class Breaker:
    """Circuit breaker of one hook server, see the module. `openings` counts how often it opened."""

    def __init__(self, *, failures: int = 3, pause: float = 1.0, longest: float = 30.0) -> None:
        self.state = BreakerState.CLOSED
        self.openings = 0
        self._threshold = failures
        self._first_pause = pause
        self._longest = longest
        self._pause = pause
        self._failures = 0  # in a row
        self._until = 0.0  # when it is open: the time of the next trial
        self._generation = 0  # grows with each change of state; a ticket is the generation it was issued in
        self._trial_running = False
        self._before_success = (
            self.state,
            self._failures,
            self._pause,
        )  # state before the latest success; see `retract_success`

    def enter(self, now: float) -> int | None:
        """A ticket for one call; None if the call must not be made."""
        if self.state is BreakerState.OPEN and now >= self._until:
            self._set_state(BreakerState.HALF_OPEN)
        if self.state is BreakerState.CLOSED:
            return self._generation
        if self.state is BreakerState.OPEN or self._trial_running:
            return None
        self._trial_running = True
        return self._generation

    def retry_in(self, now: float) -> float:
        """Seconds until the next trial may begin; 0 if it may now."""
        return max(self._until - now, 0.0) if self.state is BreakerState.OPEN else 0.0

    def record_success(self, ticket: int) -> None:
        """The hook server answered."""
        self._before_success = (self.state, self._failures, self._pause)
        if ticket != self._generation:
            return
        self._failures = 0
        self._pause = self._first_pause
        if self.state is not BreakerState.CLOSED:
            self._set_state(BreakerState.CLOSED)

    def record_failure(self, ticket: int, now: float) -> None:
        """The hook server did not answer, or not in a way that can be understood."""
        if ticket == self._generation:
            self._count_failure(now)

    def record_abandoned(self, ticket: int) -> None:
        """The call ended without an outcome, for example by cancellation: another call may be the trial."""
        if ticket == self._generation:
            self._trial_running = False

    def retract_success(self, now: float) -> None:
        """Turn the last recorded success into a failure: the answer could not be read.

        Otherwise a hook server whose answers are never readable would not fail twice in a row.
        """
        if self.state is BreakerState.CLOSED:
            state, self._failures, self._pause = self._before_success
            self._before_success = (BreakerState.CLOSED, self._failures, self._pause)
            if state is not BreakerState.CLOSED:
                self._set_state(state)
            self._count_failure(now)

    def reset(self) -> None:
        """The hook server is connected again: close the breaker, and let the first failure open it again.

        Not half open: calls that arrive at the same time would pass without a hook server that works.
        """
        if self.state is not BreakerState.CLOSED:
            self._pause = self._first_pause
            self._failures = self._threshold - 1
            self._set_state(BreakerState.CLOSED)

    def _count_failure(self, now: float) -> None:
        if self.state is BreakerState.CLOSED:
            self._failures += 1
            if self._failures < self._threshold:
                return
        else:
            self._pause = min(self._pause * 2, self._longest)
        self.openings += 1
        self._until = now + self._pause
        self._set_state(BreakerState.OPEN)

    def _set_state(self, state: BreakerState) -> None:
        self.state = state
        self._generation += 1
        self._trial_running = False
