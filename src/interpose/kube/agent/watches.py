"""Which objects of the cluster a node goes by: its Node, up to four ConfigMaps, its NodeSLO.

A label of the Node says which group it is in, and so which ConfigMap may be that of its group: when the label changes,
another one is followed and the old one no more. A label that comes and goes is followed with patience. Invariant:
questions are answered from what was last seen, never from the network, and a group that is not known is never taken for
none.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple, Protocol

from interpose.kube.agent.configmap_choice import (
    ConfigChoice,
    ObservedObject,
    choose,
    group_problem,
    is_name,
    map_names,
)
from interpose.kube.client.api import CONFIG_MAPS, NODE_SLOS, NODES, Api, Object, Resource
from interpose.kube.client.objects import mapping, metadata
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


class NodeWatches:
    """Watches the Node, its ConfigMaps and its NodeSLO from `start` on. Callbacks are called after each change."""

    def __init__(
        self,
        api: Api,
        *,
        node: str,
        namespace: str,
        base: str,
        group_label: str,
        slo: bool,
        on_choice: Callable[[ConfigChoice], None] | None,
        on_node: Callable[[], None],
        on_slo: Callable[[], None],
        went_by: Callable[[Object | None], str | None] = lambda _node: None,
        make: WatcherFactory = ObjectWatcher,
        now: Callable[[], float] = time.monotonic,
        after: CallLater = call_later,
    ) -> None:
        """`base` is what names of ConfigMaps begin with. Without `on_choice` no ConfigMap is followed, without `slo` no
        NodeSLO.

        `went_by` says which map the node went by last, given the Node: see `choose`.
        """
        self._follows_maps = on_choice is not None
        self.group: str | None = None if self._follows_maps and group_label else ""  # None: not known
        self.choice = choose((), node=node, namespace=namespace)
        self._api = api
        self._node_name = node
        self._namespace = namespace
        self._base = base
        self._group_label = group_label
        self._on_choice = on_choice
        self._on_node = on_node
        self._went_by = went_by
        self._make = make
        self._now = now
        self._after = after
        self._grouped_at: float | None = None  # when the group changed last
        self._regrouping: asyncio.TimerHandle | None = None
        self._node = make(api, NODES, name=node, changed=self._node_changed)
        self._slo = make(api, NODE_SLOS, name=node, changed=on_slo) if slo else None
        self._maps: dict[str, WatcherProtocol] = {}
        self._map_tasks: dict[str, asyncio.Task[None]] = {}
        self._past = WatchCounts()  # of ConfigMaps that are followed no more
        self._tasks = TaskBag()

    # -- what is seen

    @property
    def node(self) -> ObservedObject:
        """The Node we run on."""
        return _observe(self._node_name, self._node)

    @property
    def slo(self) -> ObservedObject:
        """Its NodeSLO, if somebody wants to know."""
        return (
            ObservedObject(self._node_name, False, None) if self._slo is None else _observe(self._node_name, self._slo)
        )

    @property
    def maps(self) -> list[ObservedObject]:
        """The ConfigMaps that may count, the first that exists does."""
        observed = []
        for name in self._names():
            watcher = self._maps.get(name)
            if watcher is not None:
                observed.append(_observe(name, watcher))
            else:
                problem = self._node.problem or "there is no such Node yet" if self._node.known else self._node.problem
                observed.append(
                    ObservedObject(name, False, None, f"the group is not known: {problem}" if problem else "")
                )
        return observed

    @property
    def followers(self) -> Iterator[tuple[str, str, WatcherProtocol]]:
        """All of them: kind, name, follower."""
        yield NODES.kind, self._node_name, self._node
        if self._slo is not None:
            yield NODE_SLOS.kind, self._node_name, self._slo
        for name in self._names():
            if name in self._maps:
                yield CONFIG_MAPS.kind, name, self._maps[name]

    @property
    def counts(self) -> dict[str, WatchCounts]:
        """By kind; never less than before."""
        found = {CONFIG_MAPS.kind: self._past} if self._follows_maps else {}
        for kind, _, watcher in self.followers:
            found[kind] = found.get(kind, WatchCounts()).plus(watcher)
        return found

    # -- following

    def start(self) -> None:
        """Start watching the objects."""
        self._tasks.spawn(self._node.run(), name="follow the Node")
        if self._slo is not None:
            self._tasks.spawn(self._slo.run(), name="follow the NodeSLO")
        if self._follows_maps:
            own = f"{self._base}.node.{self._node_name}"
            if not is_name(own):
                _log.warning(
                    "Node has no ConfigMap of its own", extra={"kv": {"err": f"{own} is not a valid object name"}}
                )
            self._follow_maps()

    async def close(self) -> None:
        """Stop watching the objects."""
        if self._regrouping is not None:
            self._regrouping.cancel()
        await self._tasks.cancel()

    def _names(self) -> tuple[str, ...]:
        """Of the ConfigMaps, with a name that no object has in the place of that of an unknown group."""
        if not self._follows_maps:
            return ()
        if self.group is not None:
            return map_names(self._base, self._node_name, self.group)
        first = f"{self._base}.node.{self._node_name}"
        rest = map_names(self._base, self._node_name, "")
        unknown = f"{self._base}.group.{_UNKNOWN_GROUP}"
        return (first, unknown, *rest[1:]) if rest[:1] == (first,) else (unknown, *rest)

    def _follow_maps(self) -> None:
        wanted = [name for name in self._names() if not name.endswith(f".group.{_UNKNOWN_GROUP}")]
        for name in self._maps.keys() - set(wanted):
            self._past = self._past.plus(self._maps.pop(name))
            self._map_tasks.pop(name).cancel()
        for name in wanted:
            if name not in self._maps:
                watcher = self._make(
                    self._api, CONFIG_MAPS, name=name, namespace=self._namespace, changed=self._maps_changed
                )
                self._maps[name] = watcher
                self._map_tasks[name] = self._tasks.spawn(watcher.run(), name=f"follow ConfigMap {name}")
        self._maps_changed()

    def _maps_changed(self) -> None:
        before = self._went_by(self._node.object)
        self.choice = choose(self.maps, node=self._node_name, namespace=self._namespace, before=before)
        if self._on_choice is not None:
            self._on_choice(self.choice)

    def _node_changed(self) -> None:
        if self._follows_maps and not self._regroup():
            unclear = self.group is None or self.choice.before != self._went_by(self._node.object)
            if unclear:
                self._maps_changed()
        self._on_node()

    def _regroup(self) -> bool:
        """Follow the map of another group if it is time to; true if that was done."""
        group = self._group_of(self._node.object)
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
        if problem := group_problem(self._base, group):
            _log.warning("Node group has no ConfigMap", extra={"kv": {"err": problem}})
        self._grouped_at = now if self.group is not None else None  # the first one is no change
        self.group = group
        self._follow_maps()
        return True

    def _regroup_late(self) -> None:
        self._regrouping = None
        self._regroup()

    def _group_of(self, node: Object | None) -> str | None:
        """None if it cannot be told: a Node that is gone may come back as it was."""
        if not self._group_label or node is None:
            return None
        value = mapping(metadata(node).get("labels")).get(self._group_label)
        return value if isinstance(value, str) else ""


def _observe(name: str, watcher: WatcherProtocol) -> ObservedObject:
    return ObservedObject(name, watcher.known, watcher.object, watcher.problem, watcher.forbidden, watcher.current)
