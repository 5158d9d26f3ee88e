"""Values that were refused, and when to try them again: what the kernel will not take is not offered 8 times a second.

Each refusal doubles the wait. Another value for the same place starts anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from interpose.model.cgroup import Level, Parameter, Value

FIRST_DELAY: Final = 1.0  # seconds; what is only a matter of order is right in the next round
LONGEST_DELAY: Final = 300.0  # seconds; whoever repairs the cause should not wait for longer

Spot = tuple[Level, str, Parameter]  # level and key of a target, and a parameter


@dataclass(slots=True)
class Hold:
    """A value that was refused."""

    value: Value
    error: str
    delay: float
    until: float
    refusals: int = 1


class Holds:
    """What is held, by place. One thread at a time for a place; several for several."""

    def __init__(self) -> None:
        self._holds: dict[Spot, Hold] = {}

    def __len__(self) -> int:
        return len(self._holds)

    def __contains__(self, spot: Spot) -> bool:
        return spot in self._holds

    def refuse(self, spot: Spot, value: Value, error: str, now: float) -> bool:
        """A value was refused; says whether that is news. A second refusal during the wait does not prolong it."""
        hold = self._holds.get(spot)
        if hold is None or hold.value != value:
            self._holds[spot] = Hold(value, error, FIRST_DELAY, now + FIRST_DELAY)
            return True
        hold.error = error
        if now >= hold.until:
            hold.delay = min(hold.delay * 2, LONGEST_DELAY)
            hold.until = now + hold.delay
            hold.refusals += 1
        return False

    def reason(self, spot: Spot, value: Value, now: float) -> str:
        """Why a value is not to be tried now; empty if it may be."""
        hold = self._holds.get(spot)
        if hold is None or hold.value != value or now >= hold.until:
            return ""
        return f"{hold.error}; again in {hold.until - now:.0f} s"

    def release(self, spot: Spot) -> Hold | None:
        """A place has what it shall have; gives what was held there."""
        return self._holds.pop(spot, None)

    def keep(self, of_interest: Callable[[Spot], bool]) -> None:
        """Forget the others."""
        for spot in list(self._holds):
            if not of_interest(spot):
                self._holds.pop(spot, None)
