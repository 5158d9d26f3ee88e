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

ValueKey = tuple[Level, str, Parameter]  # level and key of a target, and a parameter


@dataclass(slots=True)
class RetryDelay:
    """A refused value and the time of the next try."""

    value: Value
    error: str
    until: float
    refusals: int = 1
    undone: bool = False  # it was not refused, but did not last


class RetryBackoff:
    """Refused values and their waits. One thread at a time for one value."""

    def __init__(self) -> None:
        self._retries: dict[ValueKey, RetryDelay] = {}
        self._restored_values: dict[
            ValueKey, RetryDelay
        ] = {}  # values that were put back, with the next wait if somebody undoes that

    def __len__(self) -> int:
        return len(self._retries)

    def __contains__(self, key: ValueKey) -> bool:
        return key in self._retries

    def record_refusal(self, key: ValueKey, value: Value, error: str, now: float) -> bool:
        """Note a refused value; whether it is the first refusal. A second one during the wait does not prolong it."""
        retry = self._retries.get(key)
        if retry is None or retry.value != value:
            self._retries[key] = RetryDelay(value, error, now + _BACKOFF.delay(1))
            return True
        retry.error = error
        if now >= retry.until:
            retry.refusals += 1
            retry.until = now + _BACKOFF.delay(retry.refusals)
        return False

    def record_restore(self, key: ValueKey, value: Value) -> RetryDelay | None:
        """Note a restored value, which another process may undo; returns the refusal that it ends, if any."""
        retry = self._retries.pop(key, None)
        was_undone = retry is not None and retry.undone and retry.value == value
        self._restored_values[key] = retry if retry is not None and was_undone else RetryDelay(value, "", 0.0, 0, True)
        return None if was_undone else retry

    def record_undone(self, key: ValueKey, value: Value, error: str, now: float) -> bool:
        """Hold a value that was restored before and was changed back; whether this is the first time."""
        retry = self._restored_values.get(key)
        if retry is None or retry.value != value or key in self._retries:
            return False
        del self._restored_values[key]
        retry.error, retry.refusals = error, retry.refusals + 1
        retry.until = now + _BACKOFF.delay(retry.refusals)
        self._retries[key] = retry
        return retry.refusals == 1

    def wait_reason(self, key: ValueKey, value: Value, now: float) -> str:
        """Why a value must not be written now; empty if it may be."""
        retry = self._retries.get(key)
        if retry is None or retry.value != value or now >= retry.until:
            return ""
        return f"{retry.error}; again in {retry.until - now:.0f} s"

    def release(self, key: ValueKey) -> RetryDelay | None:
        """End the wait of a value that is in place; returns the refusal, if any."""
        return self._retries.pop(key, None)

    def forget_restore(self, key: ValueKey) -> None:
        """Forget that a value was restored: a plugin sets it again."""
        self._restored_values.pop(key, None)

    def retain(self, of_interest: Callable[[ValueKey], bool]) -> None:
        """Forget the values for which the function returns False."""
        for known in (self._retries, self._restored_values):
            for key in list(known):
                if not of_interest(key):
                    known.pop(key, None)
