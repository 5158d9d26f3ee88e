"""What was used last, and no more than so much of it. Pure."""

from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class LruCache(Generic[_K, _V]):
    """Values by key; the one that nobody asked for the longest time makes room for a new one."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[_K, _V] = {}  # the one used last is the last one

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: _K) -> _V | None:
        """The value of a key."""
        if key in self._values:
            self._values[key] = self._values.pop(key)
        return self._values.get(key)

    def put(self, key: _K, value: _V) -> list[_V]:
        """Keep a value; those that had to go."""
        gone = [self._values.pop(key)] if key in self._values else []
        self._values[key] = value
        while len(self._values) > self._most:
            gone.append(self._values.pop(next(iter(self._values))))
        return gone

    def values(self) -> list[_V]:
        """All of them."""
        return list(self._values.values())

    def clear(self) -> list[_V]:
        """Forget all of them; which."""
        values = self.values()
        self._values.clear()
        return values
