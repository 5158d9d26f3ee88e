"""A bounded memory of verdicts: what is used stays, what is not goes, and nothing is ever searched or sorted.

Two halves: a verdict that is used again moves from the old half to the young one; when the young one is full it becomes
the old one, and what was old is dropped. Invariant: never more than `entries` verdicts.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Memo(Generic[K, V]):
    """Verdicts by what they are about."""

    __slots__ = ("_half", "_old", "_young")

    def __init__(self, entries: int) -> None:
        self._half = entries // 2
        self._young: dict[K, V] = {}
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def get(self, key: K) -> V | None:
        """The verdict, if it is remembered."""
        found = self._young.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        """Remember a verdict."""
        if len(self._young) >= self._half:
            if not self._half:
                return
            self._old, self._young = self._young, {}
        self._young[key] = value
