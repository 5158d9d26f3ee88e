"""Keys of containers that have a name and an attempt in common, which Docker allows: the first one that is free.

Five hundred of them must not make the next one ask about each: what was found taken is passed over until it is freed.
"""

from collections.abc import Callable

from interpose.core.policy.request import Key


class KeyAllocator:
    """The first free key of each name, by what `taken` says of a key."""

    def __init__(self, taken: Callable[[Key], bool]) -> None:
        self._taken = taken
        self._first: dict[Key, int] = {}  # of the eldest twin: every one below this was taken

    def first(self, key: Key) -> Key:
        """The first one that is not taken, from this one on."""
        eldest = key._replace(duplicate=0)
        known = self._first.get(eldest, 0)
        key = key._replace(duplicate=max(key.duplicate, known))
        below_is_taken = key.duplicate == known
        while self._taken(key):
            key = key.next
        if below_is_taken and key.duplicate:
            self._first[eldest] = key.duplicate
        return key

    def freed(self, key: Key) -> None:
        """Nobody has this one any more."""
        eldest = key._replace(duplicate=0)
        if key.duplicate < self._first.get(eldest, 0):
            if key.duplicate:
                self._first[eldest] = key.duplicate
            else:
                del self._first[eldest]
