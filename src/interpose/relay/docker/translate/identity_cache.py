"""Whose containers are, by their whole ids, for as long as that is sure. Pure.

Labels of a container never change, so what was true of an id stays true until the container is removed. Afterwards the
same letters may be the name of another one. So an id is kept only while dockerd's events are heard, which tell of every
removal; and what dockerd said is not kept if anything was removed since it was asked, because that may have been it.
That something is nobody's is never kept.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from interpose.relay.docker.translate.labels import DockerIdentity

_FULL_ID: Final = 64
_HEX: Final = frozenset("0123456789abcdef")
_MOST: Final = 8192


class CacheMark(NamedTuple):
    """A moment."""

    hearing: int
    removals: int


class IdentityCache:
    """A bounded number of identities; what was longest unused goes first."""

    def __init__(self, hearing: Callable[[], int]) -> None:
        """`hearing` is 0 while removals are not heard, and another number each time that this begins again."""
        self._hearing = hearing
        self._removals = 0
        self._since = 0  # what `hearing` was when the first of them came
        self._known: dict[str, DockerIdentity] = {}

    def mark(self) -> CacheMark:
        """To be taken before dockerd is asked."""
        return CacheMark(self._hearing(), self._removals)

    def get(self, ref: str) -> DockerIdentity | None:
        """What this id means; None: dockerd has to be asked."""
        if self._since != self._hearing():
            self._known.clear()
        found = self._known.pop(ref, None)
        if found is not None:
            self._known[ref] = found
        return found

    def add(self, identity: DockerIdentity, mark: CacheMark) -> None:
        """dockerd said so after the mark was taken."""
        if not mark.hearing or mark != self.mark() or not is_full(identity.id):
            return
        if self._since != mark.hearing:
            self._known.clear()
            self._since = mark.hearing
        self._known.pop(identity.id, None)
        self._known[identity.id] = identity
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]

    def removed(self, object_id: str) -> None:
        """It is gone."""
        self._removals += 1
        self._known.pop(object_id, None)


def is_full(ref: str) -> bool:
    """Whether this is as long as an id, and could be one."""
    return len(ref) == _FULL_ID and _HEX.issuperset(ref)
