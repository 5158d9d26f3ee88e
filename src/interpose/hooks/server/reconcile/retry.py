"""Values that were refused, and when to try them again: what the kernel will not take is not offered 8 times a second.

Each refusal doubles the wait. Another value for the same place starts anew. What was put back and is found undone by
somebody else is held in the same way, however long it was in place.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from interpose.core.backoff import Backoff
from interpose.core.model.cgroup import Level, Parameter, Value

# Seconds: what is only a matter of order is right in the next round, and a repair of the cause is noticed in minutes.
_BACKOFF: Final = Backoff(1.0, 300.0)

Spot = tuple[Level, str, Parameter]  # level and key of a target, and a parameter


@dataclass(slots=True)
class RetryDelay:
    """A value that was refused."""

    value: Value
    error: str
    until: float
    refusals: int = 1
    undone: bool = False  # it was not refused, but did not last


class RetryBackoff:
    """What is held, by place. One thread at a time for a place; several for several."""

    def __init__(self) -> None:
        self._holds: dict[Spot, RetryDelay] = {}
        self._restored: dict[
            Spot, RetryDelay
        ] = {}  # values that were put back, with the next wait if somebody undoes that

    def __len__(self) -> int:
        return len(self._holds)

    def __contains__(self, spot: Spot) -> bool:
        return spot in self._holds

    def refuse(self, spot: Spot, value: Value, error: str, now: float) -> bool:
        """A value was refused; says whether that is news. A second refusal during the wait does not prolong it."""
        hold = self._holds.get(spot)
        if hold is None or hold.value != value:
            self._holds[spot] = RetryDelay(value, error, now + _BACKOFF.delay(1))
            return True
        hold.error = error
        if now >= hold.until:
            hold.refusals += 1
            hold.until = now + _BACKOFF.delay(hold.refusals)
        return False

    def restored(self, spot: Spot, value: Value) -> RetryDelay | None:
        """A value was put back; gives what was refused there before. It is remembered, for somebody may undo it."""
        hold = self._holds.pop(spot, None)
        undone = hold is not None and hold.undone and hold.value == value
        self._restored[spot] = hold if hold is not None and undone else RetryDelay(value, "", 0.0, 0, True)
        return None if undone else hold

    def undone(self, spot: Spot, value: Value, error: str, now: float) -> bool:
        """Hold a value that is to be put back if it was before: another process undid that. Says whether it is news."""
        hold = self._restored.get(spot)
        if hold is None or hold.value != value or spot in self._holds:
            return False
        del self._restored[spot]
        hold.error, hold.refusals = error, hold.refusals + 1
        hold.until = now + _BACKOFF.delay(hold.refusals)
        self._holds[spot] = hold
        return hold.refusals == 1

    def reason(self, spot: Spot, value: Value, now: float) -> str:
        """Why a value is not to be tried now; empty if it may be."""
        hold = self._holds.get(spot)
        if hold is None or hold.value != value or now >= hold.until:
            return ""
        return f"{hold.error}; again in {hold.until - now:.0f} s"

    def release(self, spot: Spot) -> RetryDelay | None:
        """A place has what it shall have; gives what was held there."""
        return self._holds.pop(spot, None)

    def wanted(self, spot: Spot) -> None:
        """Somebody wants a value in this place: that it was put back once is of no interest any more."""
        self._restored.pop(spot, None)

    def keep(self, of_interest: Callable[[Spot], bool]) -> None:
        """Forget the others."""
        for known in (self._holds, self._restored):
            for spot in list(known):
                if not of_interest(spot):
                    known.pop(spot, None)
