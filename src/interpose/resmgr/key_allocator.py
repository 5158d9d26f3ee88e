"""Keys of containers that have a name and an attempt in common, which Docker allows: the first one that is free.

With five hundred duplicates the next one must not check each: keys found taken are skipped until they are released.
"""

from collections.abc import Callable

from interpose.core.policy.request import Key


class KeyAllocator:
    """Finds the first free key of each name. `is_taken` tells whether a container has a key."""

    def __init__(self, is_taken: Callable[[Key], bool]) -> None:
        self._is_taken = is_taken
        self._first: dict[Key, int] = {}  # by key without duplicate number: every number below this was taken

    def first_free(self, key: Key) -> Key:
        """The first key that is not taken, from this one on."""
        base = key._replace(duplicate=0)
        known = self._first.get(base, 0)
        key = key._replace(duplicate=max(key.duplicate, known))
        below_is_taken = key.duplicate == known
        while self._is_taken(key):
            key = key.next
        if below_is_taken and key.duplicate:
            self._first[base] = key.duplicate
        return key

    def release(self, key: Key) -> None:
        """No container has this key any more."""
        base = key._replace(duplicate=0)
        if key.duplicate < self._first.get(base, 0):
            if key.duplicate:
                self._first[base] = key.duplicate
            else:
                del self._first[base]
