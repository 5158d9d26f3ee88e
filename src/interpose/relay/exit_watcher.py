"""Noticing changes without a call: containers that exit, and what other clients do at the runtime's own socket.

A kubelet lists everything once a second. A tap notes when such a request passes and keeps its reply; it is read when
the heartbeat ticks, never while a frame is handled, and a long one part by part, with turns for others in between. One
reply a second is enough: until the next tick the tap is not interested in that method, so that lists are not slower
because of it. Where no client lists, we do, every few seconds, and at the next tick after an event of the runtime: a
kubelet that goes by events hardly ever lists. The relay never subscribes to events itself, as containerd 1.7 gives each
event to one subscriber only.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from interpose.cri.store import convert
from interpose.cri.store.sync import Synchronizer
from interpose.relay.api import CLIENT, Direction, Interest, Sighting
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_PODS: Final = "ListPodSandbox"
_CONTAINERS: Final = "ListContainers"
_LISTS: Final = (_PODS, _CONTAINERS)
_EVENTS: Final = "GetContainerEvents"
# A container that ended keeps its CPUs for as long.
_POLL: Final = 5.0


class ExitWatcher:
    """A tap on lists and events. `tick` is due each second; `on_interest_changed` tells that it wants other methods."""

    name = "exits"

    def __init__(self, sync: Synchronizer, now: Callable[[], float], on_interest_changed: Callable[[], None]) -> None:
        self._wanted: tuple[str, ...] = _LISTS
        self._sync = sync
        self._now = now
        self._on_interest_changed = on_interest_changed
        self._marks: dict[int, int] = {}  # calls in flight that asked for everything
        self._newest: dict[str, tuple[int, bytes]] = {}
        self._last_reply = dict.fromkeys(_LISTS, now())
        self._event_passed = False  # and no list was made because of it
        self.tasks = TaskBag()  # reads long lists

    def interest(self, method: str) -> Interest:
        return Interest.MESSAGES if method in self._wanted or method == _EVENTS else Interest.NONE

    def on_begin(self, call: Sighting) -> None:
        """Nothing to do: the request is not known yet."""

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """Keep the reply to a client that listed everything, and the fact that something happened."""
        if call.origin != CLIENT or call.method is None:
            return
        name = call.method.name
        if name == _EVENTS:
            self._event_passed |= direction is Direction.REPLY
        elif direction is Direction.REQUEST:
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
        """Called once a second: read the newest replies, or list if there was an event or no reply for a while."""
        # Whoever lists does so again in a second, and that list tells what an event was about.
        unlisted = self._event_passed and not self._newest
        self._set_interest(_LISTS)
        if not self.tasks:
            newest, self._newest = self._newest, {}
            for method in _LISTS:
                if method in newest:
                    self._read(method, *newest[method])
        if unlisted or self._now() - min(self._last_reply.values()) >= _POLL:
            self._event_passed = False
            self._last_reply = dict.fromkeys(_LISTS, self._now())
            self._sync.resync_soon()

    def _set_interest(self, methods: tuple[str, ...]) -> None:
        if methods != self._wanted:
            self._wanted = methods
            self._on_interest_changed()

    def _read(self, method: str, mark: int, message: bytes) -> None:
        parts = convert.list_parts(message)
        if len(parts) > 1:
            self.tasks.spawn(self._read_parts(method, mark, parts), name=f"read the reply to {method}")
        elif (listed := _listed(method, message)) is not None:
            self._apply(method, mark, listed)

    async def _read_parts(self, method: str, mark: int, parts: Sequence[bytes]) -> None:
        found: list[Any] = []
        for part in parts:
            listed = _listed(method, part)
            if listed is None:
                return
            found += listed
            await asyncio.sleep(0)
        self._apply(method, mark, found)

    def _apply(self, method: str, mark: int, listed: Sequence[Any]) -> None:
        ids = [found.id for found in listed]
        if method == _PODS:
            self._sync.apply_pod_list(listed, mark)
            self._sync.look_up_soon(pods=ids)
        else:
            self._sync.apply_container_list(listed, mark)
            self._sync.look_up_soon(containers=ids)


def _listed(method: str, message: bytes) -> Sequence[Any] | None:
    """What a list shows; None if it cannot be read."""
    try:
        return convert.listed_pods(message) if method == _PODS else convert.listed_containers(message)
    except ValueError as error:
        _log.debug("Failed to read list", extra={"kv": {"method": method, "err": str(error)}})
        return None
