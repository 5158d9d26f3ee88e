"""Sessions that were requested and not opened yet, by the token in their URL: once, for a minute, and not too many.

The token is all that protects a URL: it is made of 48 random bits, and is never logged.

Invariant: never more than `limit` are outstanding; one that was taken or is too old is not found again.
"""

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from interpose.net.streaming.handler import TooManyRequestsError

LIFETIME: Final = 60.0  # seconds
OUTSTANDING: Final = 1000

V = TypeVar("V")


class Tokens(Generic[V]):
    """Outstanding values by token. `make` gives a new token; `now` is a monotonic clock."""

    def __init__(self, make: Callable[[], str], *, limit: int = OUTSTANDING, lifetime: float = LIFETIME) -> None:
        self._make = make
        self._limit = limit
        self._lifetime = lifetime
        self._waiting: OrderedDict[str, tuple[float, V]] = OrderedDict()  # oldest first

    def __len__(self) -> int:
        return len(self._waiting)

    def issue(self, value: V, now: float) -> str:
        """A new token for a value. TooManyRequestsError if too many are outstanding."""
        self._drop_old(now)
        if len(self._waiting) >= self._limit:
            raise TooManyRequestsError("maximum number of in-flight requests exceeded")
        token = self._make()
        while token in self._waiting:
            token = self._make()
        self._waiting[token] = (now, value)
        return token

    def peek(self, token: str, now: float) -> V | None:
        """The value of a token, which stays valid; None if it is not known."""
        self._drop_old(now)
        found = self._waiting.get(token)
        return None if found is None else found[1]

    def take(self, token: str, now: float) -> V | None:
        """The value of a token, which is no longer valid; None if it is not known."""
        found = self.peek(token, now)
        self._waiting.pop(token, None)
        return found

    def _drop_old(self, now: float) -> None:
        while self._waiting:
            token, (since, _value) = next(iter(self._waiting.items()))
            if now - since < self._lifetime:
                return
            del self._waiting[token]
