"""What we ever wrote in containers, so that it can be put back when a policy has nothing to say about it any more.

A value that its caller asked for is put back once, and is the caller's from then on: hook servers may change it. Where
the caller asked for nothing there is nothing to put back; everything the machine has is given, for as long as we are
there. Pure.
"""

from collections.abc import Iterable

from interpose.core.policy.decision import Assignment
from interpose.core.policy.request import Key
from interpose.resmgr.restore import FIELDS


class Touched:
    """Fields by container."""

    def __init__(self) -> None:
        self._fields: dict[Key, frozenset[str]] = {}

    def add(self, key: Key, written: Assignment) -> None:
        """We wrote these values."""
        self.note(key, (name for name in FIELDS if getattr(written, name) is not None))

    def note(self, key: Key, names: Iterable[str]) -> None:
        """We wrote these fields."""
        self._fields[key] = self._fields.get(key, frozenset()).union(names)

    def gone(self, key: Key, assignment: Assignment) -> list[str]:
        """What we wrote, and an assignment has nothing to say about."""
        return [name for name in self._fields.get(key, ()) if getattr(assignment, name) is None]

    def let_go(self, key: Key, names: Iterable[str]) -> None:
        """These fields are their caller's again."""
        if key in self._fields:
            self._fields[key] = self._fields[key].difference(names)

    def drop(self, key: Key) -> None:
        """The container is gone."""
        self._fields.pop(key, None)
