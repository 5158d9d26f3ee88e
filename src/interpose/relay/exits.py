"""Learning what happens without a call: containers that end, and whatever others do at the runtime's own socket.

A kubelet lists everything once a second. A tap notes when such a request passes and keeps its reply; it is read when
the heartbeat ticks, never while a frame is handled. One reply a second is enough: until the next tick the tap lets go
of that method, so that lists are not slower for being looked at. Where nobody lists, we do, every few seconds.
"""

import logging
from collections.abc import Callable
from typing import Final

from interpose.relay.interceptor import CLIENT, Direction
from interpose.relay.methods import Method
from interpose.store import convert
from interpose.store.sync import Synchronizer

_log = logging.getLogger(__name__)

_PODS: Final = "ListPodSandbox"
_CONTAINERS: Final = "ListContainers"
_LISTS: Final = (_PODS, _CONTAINERS)
# A container that ended keeps its CPUs for as long.
_POLL: Final = 5.0


class Exits:
    """A tap on lists. `tick` is due once a second; `now` is the clock; `changed` is told when `methods` is another."""

    name = "exits"

    def __init__(self, sync: Synchronizer, now: Callable[[], float], changed: Callable[[], None]) -> None:
        self.methods: tuple[str, ...] = _LISTS
        self._sync = sync
        self._now = now
        self._changed = changed
        self._marks: dict[int, int] = {}  # calls in flight that asked for everything
        self._newest: dict[str, tuple[int, bytes]] = {}
        self._seen = dict.fromkeys(_LISTS, now())

    def on_message(self, call: int, method: Method, origin: str, direction: Direction, message: bytes) -> None:
        """Remember when a caller asked for everything, and the answer."""
        if origin != CLIENT:
            return
        if direction is Direction.REQUEST:
            if convert.asks_for_all(method.name, message):
                self._marks[call] = self._sync.store.mark()
        elif direction is Direction.REPLY and (mark := self._marks.get(call)) is not None:
            self._newest[method.name] = (mark, message)
            self._seen[method.name] = self._now()
            self._listen(tuple(name for name in self.methods if name != method.name))

    def on_end(self, call: int, method: Method, code: int) -> None:
        """Forget the call."""
        self._marks.pop(call, None)

    def tick(self) -> None:
        """A second has passed: read what came, or ask if nothing came for long."""
        self._listen(_LISTS)
        newest, self._newest = self._newest, {}
        for method, read in ((_PODS, self._read_pods), (_CONTAINERS, self._read_containers)):
            if method in newest:
                try:
                    read(*newest[method])
                except ValueError as error:
                    _log.debug("List could not be read", extra={"kv": {"method": method, "err": str(error)}})
        if self._now() - min(self._seen.values()) >= _POLL:
            self._seen = dict.fromkeys(_LISTS, self._now())
            self._sync.resync_soon()

    def _listen(self, methods: tuple[str, ...]) -> None:
        if methods != self.methods:
            self.methods = methods
            self._changed()

    def _read_pods(self, mark: int, message: bytes) -> None:
        pods = convert.listed_pods(message)
        self._sync.see_pods(pods, mark)
        self._sync.learn(pods=[one.id for one in pods])

    def _read_containers(self, mark: int, message: bytes) -> None:
        containers = convert.listed_containers(message)
        self._sync.see_containers(containers, mark)
        self._sync.learn(containers=[one.id for one in containers])
