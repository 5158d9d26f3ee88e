"""A least-recently-used cache of bounded size. Pure."""

from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class LruCache(Generic[_K, _V]):
    """Values by key, at most `limit`; the least recently used value is evicted."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values: dict[_K, _V] = {}  # the most recently used value is the last one

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: _K) -> _V | None:
        """The value of a key, which becomes the most recently used; None without one."""
        if key in self._values:
            self._values[key] = self._values.pop(key)
        return self._values.get(key)

    def put(self, key: _K, value: _V) -> list[_V]:
        """Store a value; returns the values that were replaced or evicted."""
        evicted = [self._values.pop(key)] if key in self._values else []
        self._values[key] = value
        while len(self._values) > self._limit:
            evicted.append(self._values.pop(next(iter(self._values))))
        return evicted

    def values(self) -> list[_V]:
        """All values, the least recently used first."""
        return list(self._values.values())

    def clear(self) -> list[_V]:
        """Remove all values and return them."""
        values = self.values()
        self._values.clear()
        return values
