"""A cache of the pods that containers belong to, by full id, for as long as that is sure. Pure.

Labels of a container never change, so what was true of an id stays true until the container is removed. Afterwards the
same letters may be the name of another one. So an id is cached only while dockerd's events are received, which include
every removal; and an answer of dockerd is not cached if anything was removed since the request, because that may have
been it. That a container is not of Kubernetes is never cached.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from interpose.relay.docker.translate.labels import DockerIdentity

_FULL_ID: Final = 64
_HEX: Final = frozenset("0123456789abcdef")
_MOST: Final = 8192


class CacheMark(NamedTuple):
    """The state of the event stream when dockerd was called."""

    event_session: int
    removals: int


class IdentityCache:
    """A bounded number of identities; what was longest unused goes first."""

    def __init__(self, event_session: Callable[[], int]) -> None:
        """`event_session` returns 0 while no events are received, and another number for each new event stream."""
        self._event_session = event_session
        self._removals = 0
        self._since = 0  # the event session of the cached entries
        self._known: dict[str, DockerIdentity] = {}

    def mark(self) -> CacheMark:
        """A mark to be taken before dockerd is called."""
        return CacheMark(self._event_session(), self._removals)

    def get(self, ref: str) -> DockerIdentity | None:
        """The identity of a full id; None: dockerd has to be asked."""
        if self._since != self._event_session():
            self._known.clear()
        found = self._known.pop(ref, None)
        if found is not None:
            self._known[ref] = found
        return found

    def add(self, identity: DockerIdentity, mark: CacheMark) -> None:
        """Cache an answer of dockerd, if nothing was removed since the mark."""
        if not mark.event_session or mark != self.mark() or not is_full(identity.id):
            return
        if self._since != mark.event_session:
            self._known.clear()
            self._since = mark.event_session
        self._known.pop(identity.id, None)
        self._known[identity.id] = identity
        if len(self._known) > _MOST:
            del self._known[next(iter(self._known))]

    def remove(self, object_id: str) -> None:
        self._removals += 1
        self._known.pop(object_id, None)


def is_full(ref: str) -> bool:
    """Whether this is as long as an id, and could be one."""
    return len(ref) == _FULL_ID and _HEX.issuperset(ref)
