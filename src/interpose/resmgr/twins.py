"""Keys of containers that have a name and an attempt in common, which Docker allows: the first one that is free.

Five hundred of them must not make the next one ask about each: what was found taken is passed over until it is freed.
"""

from collections.abc import Callable

from interpose.core.policy.request import Key


class FreeKeys:
    """The first free key of each name, by what `taken` says of a key."""

    def __init__(self, taken: Callable[[Key], bool]) -> None:
        self._taken = taken
        self._first: dict[Key, int] = {}  # of the eldest twin: every one below this was taken

    def first(self, key: Key) -> Key:
        """The first one that is not taken, from this one on."""
        eldest = key._replace(twin=0)
        known = self._first.get(eldest, 0)
        key = key._replace(twin=max(key.twin, known))
        below_is_taken = key.twin == known
        while self._taken(key):
            key = key.next
        if below_is_taken and key.twin:
            self._first[eldest] = key.twin
        return key

    def freed(self, key: Key) -> None:
        """Nobody has this one any more."""
        eldest = key._replace(twin=0)
        if key.twin < self._first.get(eldest, 0):
            if key.twin:
                self._first[eldest] = key.twin
            else:
                del self._first[eldest]
