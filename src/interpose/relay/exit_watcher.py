"""Learning what happens without a call: containers that end, and whatever others do at the runtime's own socket.

A kubelet lists everything once a second. A tap notes when such a request passes and keeps its reply; it is read when
the heartbeat ticks, never while a frame is handled. One reply a second is enough: until the next tick the tap lets go
of that method, so that lists are not slower for being looked at. Where nobody lists, we do, every few seconds.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from interpose.cri.store import convert
from interpose.cri.store.sync import Synchronizer
from interpose.relay.api import CLIENT, Direction, Interest, Sighting

_log = logging.getLogger(__name__)

_PODS: Final = "ListPodSandbox"
_CONTAINERS: Final = "ListContainers"
_LISTS: Final = (_PODS, _CONTAINERS)
# A container that ended keeps its CPUs for as long.
_POLL: Final = 5.0


class ExitWatcher:
    """A tap on lists. `tick` is due once a second; `changed` is told when its interest is another."""

    name = "exits"

    def __init__(self, sync: Synchronizer, now: Callable[[], float], changed: Callable[[], None]) -> None:
        self._wanted: tuple[str, ...] = _LISTS
        self._sync = sync
        self._now = now
        self._changed = changed
        self._marks: dict[int, int] = {}  # calls in flight that asked for everything
        self._newest: dict[str, tuple[int, bytes]] = {}
        self._seen = dict.fromkeys(_LISTS, now())

    def interest(self, method: str) -> Interest:
        """In lists, until one has come."""
        return Interest.MESSAGES if method in self._wanted else Interest.NONE

    def on_begin(self, call: Sighting) -> None:
        """What it asks for is not known yet."""

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """Remember when a caller asked for everything, and the answer."""
        if call.origin != CLIENT or call.method is None:
            return
        name = call.method.name
        if direction is Direction.REQUEST:
            if convert.asks_for_all(name, message):
                self._marks[call.number] = self._sync.store.mark()
        elif direction is Direction.REPLY and (mark := self._marks.get(call.number)) is not None:
            self._newest[name] = (mark, message)
            self._seen[name] = self._now()
            self._listen(tuple(one for one in self._wanted if one != name))

    def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None:
        """Nothing to learn from it."""

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        """Forget the call."""
        self._marks.pop(call.number, None)

    def tick(self) -> None:
        """A second has passed: read what came, or ask if nothing came for long."""
        self._listen(_LISTS)
        newest, self._newest = self._newest, {}
        for method, read in ((_PODS, self._read_pods), (_CONTAINERS, self._read_containers)):
            if method in newest:
                try:
                    read(*newest[method])
                except ValueError as error:
                    _log.debug("Failed to read list", extra={"kv": {"method": method, "err": str(error)}})
        if self._now() - min(self._seen.values()) >= _POLL:
            self._seen = dict.fromkeys(_LISTS, self._now())
            self._sync.resync_soon()

    def _listen(self, methods: tuple[str, ...]) -> None:
        if methods != self._wanted:
            self._wanted = methods
            self._changed()

    def _read_pods(self, mark: int, message: bytes) -> None:
        pods = convert.listed_pods(message)
        self._sync.see_pods(pods, mark)
        self._sync.learn(pods=[one.id for one in pods])

    def _read_containers(self, mark: int, message: bytes) -> None:
        containers = convert.listed_containers(message)
        self._sync.see_containers(containers, mark)
        self._sync.learn(containers=[one.id for one in containers])
