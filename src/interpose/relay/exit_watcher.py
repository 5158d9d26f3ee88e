"""Noticing changes without a call: containers that exit, and what other clients do at the runtime's own socket.

A kubelet lists everything once a second. A tap notes when such a request passes and keeps its reply; it is read when
the heartbeat ticks, never while a frame is handled. One reply a second is enough: until the next tick the tap is not
interested in that method, so that lists are not slower because of it. Where no client lists, we do, every few seconds.
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
    """A tap on lists. `tick` is due once a second; `on_interest_changed` is called when its interest has changed."""

    name = "exits"

    def __init__(self, sync: Synchronizer, now: Callable[[], float], on_interest_changed: Callable[[], None]) -> None:
        self._wanted: tuple[str, ...] = _LISTS
        self._sync = sync
        self._now = now
        self._on_interest_changed = on_interest_changed
        self._marks: dict[int, int] = {}  # calls in flight that asked for everything
        self._newest: dict[str, tuple[int, bytes]] = {}
        self._last_reply = dict.fromkeys(_LISTS, now())

    def interest(self, method: str) -> Interest:
        return Interest.MESSAGES if method in self._wanted else Interest.NONE

    def on_begin(self, call: Sighting) -> None:
        """Nothing to do: the request is not known yet."""

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """Keep the reply to a client that listed everything."""
        if call.origin != CLIENT or call.method is None:
            return
        name = call.method.name
        if direction is Direction.REQUEST:
            if convert.asks_for_all(name, message):
                self._marks[call.number] = self._sync.store.mark()
        elif direction is Direction.REPLY and (mark := self._marks.get(call.number)) is not None:
            self._newest[name] = (mark, message)
            self._last_reply[name] = self._now()
            self._set_interest(tuple(method for method in self._wanted if method != name))

    def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None:
        """Nothing to do: there is no content to read."""

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        self._marks.pop(call.number, None)

    def tick(self) -> None:
        """Called once a second: read the newest replies, or list if there was none for a while."""
        self._set_interest(_LISTS)
        newest, self._newest = self._newest, {}
        for method, read in ((_PODS, self._read_pods), (_CONTAINERS, self._read_containers)):
            if method in newest:
                try:
                    read(*newest[method])
                except ValueError as error:
                    _log.debug("Failed to read list", extra={"kv": {"method": method, "err": str(error)}})
        if self._now() - min(self._last_reply.values()) >= _POLL:
            self._last_reply = dict.fromkeys(_LISTS, self._now())
            self._sync.resync_soon()

    def _set_interest(self, methods: tuple[str, ...]) -> None:
        if methods != self._wanted:
            self._wanted = methods
            self._on_interest_changed()

    def _read_pods(self, mark: int, message: bytes) -> None:
        pods = convert.listed_pods(message)
        self._sync.apply_pod_list(pods, mark)
        self._sync.look_up_soon(pods=[pod.id for pod in pods])

    def _read_containers(self, mark: int, message: bytes) -> None:
        containers = convert.listed_containers(message)
        self._sync.apply_container_list(containers, mark)
        self._sync.look_up_soon(containers=[container.id for container in containers])
