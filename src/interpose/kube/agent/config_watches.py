"""Follows the objects of one kind that may be the configuration of a node: its own, that of its group, the default one.

A label of the Node says which group it is in, and so which object may be that of its group: when the label changes,
another one is followed and the old one no more. A label that comes and goes is followed with patience. Invariant: a
group that is not known is never taken for none.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from interpose.kube.agent.config_choice import ObservedObject
from interpose.kube.agent.config_kinds import ConfigKind, is_name
from interpose.kube.client.api import Api, Object, Resource
from interpose.kube.client.watcher import ObjectWatcher
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)

_UNKNOWN_GROUP: Final = "?"
# Between two changes of the group: each is a list, a watch, and perhaps another configuration.
GROUP_SPACING: Final = 10.0


class WatcherProtocol(Protocol):
    """The part of an ObjectWatcher that is used here."""

    known: bool
    object: Object | None
    problem: str
    forbidden: bool
    current: bool
    lists: int
    watches: int
    failures: int

    async def run(self) -> None:
        """Watch the object until cancelled."""


class WatcherFactory(Protocol):
    """Makes the watcher of one object."""

    def __call__(
        self, api: Api, resource: Resource, *, name: str, namespace: str = "", changed: Callable[[], None]
    ) -> WatcherProtocol:
        """Same parameters as the class ObjectWatcher."""


class CallLater(Protocol):
    """Schedules a callback after some seconds; the returned handle cancels it."""

    def __call__(self, seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
        """Same parameters as call_later of a loop."""


def call_later(seconds: float, callback: Callable[[], None]) -> asyncio.TimerHandle:
    """Schedule a callback in the running loop."""
    return asyncio.get_running_loop().call_later(seconds, callback)


class WatchCounts(NamedTuple):
    """Counters of lists, watches and failures."""

    lists: int = 0
    watches: int = 0
    failures: int = 0

    def plus(self, one: WatcherProtocol) -> "WatchCounts":
        """The sum with the counters of a watcher."""
        return WatchCounts(self.lists + one.lists, self.watches + one.watches, self.failures + one.failures)


class ConfigWatches:
    """Follows the objects of a kind from `start` on; `changed` is called after each change of what is seen."""

    def __init__(
        self,
        api: Api,
        kind: ConfigKind,
        *,
        node: str,
        namespace: str,
        changed: Callable[[], None],
        make: WatcherFactory = ObjectWatcher,
        now: Callable[[], float] = time.monotonic,
        after: CallLater = call_later,
    ) -> None:
        self.kind = kind
        self.group: str | None = None if kind.group_labels else ""  # None: not known
        self.past = WatchCounts()  # of objects that are followed no more
        self._api = api
        self._node_name = node
        self._namespace = namespace
        self._changed = changed
        self._make = make
        self._now = now
        self._after = after
        self._node: Object | None = None
        self._grouped_at: float | None = None  # when the group changed last
        self._regrouping: asyncio.TimerHandle | None = None
        self._watchers: dict[str, WatcherProtocol] = {}
        self._watcher_tasks: dict[str, asyncio.Task[None]] = {}
        self._tasks = TaskBag()

    def observed(self, node: WatcherProtocol) -> list[ObservedObject]:
        """The objects that may count, the first that exists does. `node` tells why a group may not be known."""
        found = []
        for name in self._names():
            watcher = self._watchers.get(name)
            if watcher is not None:
                found.append(observe(name, watcher, self.kind.resource.kind))
                continue
            problem = node.problem or "there is no such Node yet" if node.known else node.problem
            why = f"the group is not known: {problem}" if problem else ""
            found.append(ObservedObject(name, False, None, why, kind=self.kind.resource.kind))
        return found

    @property
    def followers(self) -> Iterator[tuple[str, str, WatcherProtocol]]:
        """All watchers: kind, name, watcher."""
        for name in self._names():
            if name in self._watchers:
                yield self.kind.resource.kind, name, self._watchers[name]

    def start(self) -> None:
        """Start watching the objects."""
        own = self.kind.node_name(self._node_name)
        if not is_name(own):
            kv = {"kind": self.kind.resource.kind, "err": f"{own} is not a valid object name"}
            _log.warning("Node has no configuration of its own", extra={"kv": kv})
        self._follow()

    async def close(self) -> None:
        """Stop watching the objects."""
        if self._regrouping is not None:
            self._regrouping.cancel()
        await self._tasks.cancel()

    def regroup(self, node: Object | None) -> bool:
        """Take over what is seen of the Node; true if other objects are followed now. `changed` was called then."""
        self._node = node
        # A Node that is gone may come back as it was.
        group = self.kind.group_of(node) if self.kind.group_labels and node is not None else None
        if group is None or group == self.group:
            return False
        now = self._now()
        if self._grouped_at is not None and now < self._grouped_at + GROUP_SPACING:
            if self._regrouping is None:
                self._regrouping = self._after(self._grouped_at + GROUP_SPACING - now, self._regroup_late)
            return False
        kv: dict[str, Any] = {"node": self._node_name, "group": group, "before": self.group or ""}
        if group or self.group:
            _log.info("Node group determined", extra={"kv": kv})
        if problem := self.kind.group_problem(group):
            _log.warning("Node group has no configuration", extra={"kv": {"err": problem}})
        self._grouped_at = now if self.group is not None else None  # the first one is no change
        self.group = group
        self._follow()
        return True

    def _regroup_late(self) -> None:
        self._regrouping = None
        self.regroup(self._node)

    def _names(self) -> tuple[str, ...]:
        """Of the objects, with a name that no object has in the place of that of an unknown group."""
        if self.group is not None:
            return self.kind.names(self._node_name, self.group)
        first = self.kind.node_name(self._node_name)
        rest = self.kind.names(self._node_name, "")
        unknown = self.kind.group_name(_UNKNOWN_GROUP)
        return (first, unknown, *rest[1:]) if rest[:1] == (first,) else (unknown, *rest)

    def _follow(self) -> None:
        wanted = [name for name in self._names() if name != self.kind.group_name(_UNKNOWN_GROUP)]
        for name in self._watchers.keys() - set(wanted):
            self.past = self.past.plus(self._watchers.pop(name))
            self._watcher_tasks.pop(name).cancel()
        resource = self.kind.resource
        for name in wanted:
            if name not in self._watchers:
                watcher = self._make(self._api, resource, name=name, namespace=self._namespace, changed=self._changed)
                self._watchers[name] = watcher
                self._watcher_tasks[name] = self._tasks.spawn(watcher.run(), name=f"follow {resource.kind} {name}")
        self._changed()


def observe(name: str, watcher: WatcherProtocol, kind: str) -> ObservedObject:
    """What a watcher knows of its object."""
    return ObservedObject(
        name, watcher.known, watcher.object, watcher.problem, watcher.forbidden, watcher.current, kind
    )
