"""How many clients may be connected at once, and which connection is closed when the limit is reached.

No process and no user may have all connections: a share is kept for others. Where a limit is met, the oldest idle
connection is closed: a client that gets GOAWAY dials again for its next call. Busy connections are never closed; if all
are, the new one is refused.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final, Generic, Protocol, TypeVar

# What is kept for others, as a part of all. A process that tests a runtime opens 280 of 512.
_FOR_OTHER_PROCESSES: Final = 4
_FOR_OTHER_USERS: Final = 8


class PeerId(Protocol):
    """The process at the other end, as the kernel saw it when it connected."""

    @property
    def pid(self) -> int: ...

    @property
    def uid(self) -> int: ...


L = TypeVar("L")
_Process = tuple[int, int]  # user and PID; a PID of 0 is one that cannot be seen
_UNKNOWN: Final[_Process] = (-1, 0)


class ConnectionLimit(Generic[L]):
    """The connections of one socket by their owners, each owner's in the order in which they came."""

    def __init__(self, limit: int, idle: Callable[[L], bool], *, users: int = 1) -> None:
        """`idle` says whether a connection may be closed without losing a call; `users` is the number of users."""
        self.limit = limit
        self._idle = idle
        self._per_process = limit - limit // _FOR_OTHER_PROCESSES
        self._per_user = limit - (limit // _FOR_OTHER_USERS if users > 1 else 0)
        self._users: Counter[int] = Counter()
        self._owners: dict[L, _Process] = {}
        self._owned: dict[_Process, dict[L, None]] = {}

    def admit(self, link: L, peer: PeerId | None) -> bool:
        """Count a connection if there is room; False if there is none."""
        owner = _UNKNOWN if peer is None else (peer.uid, peer.pid)
        if self._over_limit(owner) is not None:
            return False
        self._users[owner[0]] += 1
        self._owners[link] = owner
        self._owned.setdefault(owner, {})[link] = None
        return True

    def victim(self, peer: PeerId | None) -> L | None:
        """The connection to close so that this peer may connect; None if none has to be closed, or none can."""
        owner = _UNKNOWN if peer is None else (peer.uid, peer.pid)
        candidates = self._over_limit(owner)
        if candidates is None:
            return None
        # The process with the most connections loses one first.
        for process in sorted(candidates, key=lambda owner: len(self._owned[owner]), reverse=True):
            for link in self._owned[process]:
                if self._idle(link):
                    return link
        return None

    def siblings(self, link: L) -> Collection[L]:
        """All connections of the process that has this one, itself included."""
        return self._owned.get(self._owners.get(link, _UNKNOWN), ())

    @property
    def processes(self) -> int:
        """The number of connected processes; those that cannot be seen count as one."""
        return len(self._owned)

    def remove(self, link: L) -> None:
        """Stop counting a connection that is closed or closing."""
        owner = self._owners.pop(link, None)
        if owner is not None:
            self._users[owner[0]] -= 1
            links = self._owned[owner]
            del links[link]
            if not links:
                del self._owned[owner]

    def _over_limit(self, owner: _Process) -> Iterable[_Process] | None:
        """The processes that fill a limit which another connection of this owner exceeds; None if there is room."""
        uid, pid = owner
        if pid and len(self._owned.get(owner, ())) >= self._per_process:
            return [owner]
        if len(self._owners) >= self.limit:
            return self._owned
        if self._users[uid] >= self._per_user:
            return [process for process in self._owned if process[0] == uid]
        return None
