"""How many clients may be connected at once, and who has to go when that is reached.

No process and no user may have all connections: a share is kept for others. Where a limit is met, whoever has been
there for the longest and does nothing gives up its place: a client that is told so politely dials again when it wants
something. Who is at work is never sent away; if nobody can be, the newcomer is refused.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from typing import Final, Generic, Protocol, TypeVar

# What is kept for others, as a part of all. A process that tests a runtime opens 280 of 512.
_FOR_OTHER_PROCESSES: Final = 4
_FOR_OTHER_USERS: Final = 8


class PeerId(Protocol):
    """Who is at the other end, as the kernel saw it when it connected."""

    @property
    def pid(self) -> int: ...

    @property
    def uid(self) -> int: ...


L = TypeVar("L")
_Process = tuple[int, int]  # user and PID; a PID of 0 is one that cannot be seen
_NOBODY: Final[_Process] = (-1, 0)


class ConnectionLimit(Generic[L]):
    """The connections of one socket by their owners, each owner's in the order in which they came."""

    def __init__(self, limit: int, idle: Callable[[L], bool], *, users: int = 1) -> None:
        """`idle` tells whether a connection may be closed without anybody losing anything; `users` may connect."""
        self.limit = limit
        self._idle = idle
        self._of_a_process = limit - limit // _FOR_OTHER_PROCESSES
        self._of_a_user = limit - (limit // _FOR_OTHER_USERS if users > 1 else 0)
        self._users: Counter[int] = Counter()
        self._owners: dict[L, _Process] = {}
        self._owned: dict[_Process, dict[L, None]] = {}

    def admit(self, link: L, peer: PeerId | None) -> bool:
        """Take it in, if there is room."""
        owner = _NOBODY if peer is None else (peer.uid, peer.pid)
        if self._full(owner) is not None:
            return False
        self._users[owner[0]] += 1
        self._owners[link] = owner
        self._owned.setdefault(owner, {})[link] = None
        return True

    def victim(self, peer: PeerId | None) -> L | None:
        """Who would have to go first if this peer is to come in; None if nobody has to, or nobody can."""
        owner = _NOBODY if peer is None else (peer.uid, peer.pid)
        candidates = self._full(owner)
        if candidates is None:
            return None
        # Whoever has the most is the first to do without.
        for process in sorted(candidates, key=lambda one: len(self._owned[one]), reverse=True):
            for link in self._owned[process]:
                if self._idle(link):
                    return link
        return None

    def siblings(self, link: L) -> Collection[L]:
        """All connections of the process that has this one, itself included."""
        return self._owned.get(self._owners.get(link, _NOBODY), ())

    @property
    def processes(self) -> int:
        """How many are connected; those that cannot be seen are one."""
        return len(self._owned)

    def remove(self, link: L) -> None:
        """It is gone, or on its way out."""
        owner = self._owners.pop(link, None)
        if owner is not None:
            self._users[owner[0]] -= 1
            links = self._owned[owner]
            del links[link]
            if not links:
                del self._owned[owner]

    def _full(self, owner: _Process) -> Iterable[_Process] | None:
        """Whose connections are too many for another one of this owner; None if there is room."""
        uid, pid = owner
        if pid and len(self._owned.get(owner, ())) >= self._of_a_process:
            return [owner]
        if len(self._owners) >= self.limit:
            return self._owned
        if self._users[uid] >= self._of_a_user:
            return [process for process in self._owned if process[0] == uid]
        return None
