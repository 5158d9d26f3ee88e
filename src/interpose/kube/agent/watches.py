"""Which objects of the cluster a node goes by: its Node, the objects that may be its configuration, its NodeSLO.

Invariant: questions are answered from what was last seen, never from the network.
"""

import time
from collections.abc import Callable, Iterator, Sequence

from interpose.kube.agent.config_choice import ConfigChoice, ObservedObject, choose
from interpose.kube.agent.config_kinds import ConfigKind
from interpose.kube.agent.config_watches import (
    CallLater,
    ConfigWatches,
    WatchCounts,
    WatcherFactory,
    WatcherProtocol,
    call_later,
    observe,
)
from interpose.kube.client.api import NODE_SLOS, NODES, Api, Object
from interpose.kube.client.watcher import ObjectWatcher
from interpose.tasks import TaskBag


class NodeWatches:
    """Watches the Node, its configuration and its NodeSLO from `start` on. Callbacks are called after each change."""

    def __init__(
        self,
        api: Api,
        *,
        node: str,
        namespace: str,
        kinds: Sequence[ConfigKind],
        slo: bool,
        on_choice: Callable[[ConfigChoice], None] | None,
        on_config: Callable[[], None] = lambda: None,
        on_node: Callable[[], None],
        on_slo: Callable[[], None],
        went_by: Callable[[Object | None], str | None] = lambda _node: None,
        make: WatcherFactory = ObjectWatcher,
        now: Callable[[], float] = time.monotonic,
        after: CallLater = call_later,
    ) -> None:
        """`kinds` are those of configurations in their order. Without `on_choice` none of them is followed, without
        `slo` no NodeSLO. `on_config` is called whenever something else is seen of them, also if the choice is the same.

        `went_by` says which object the node went by last, given the Node: see `choose`.
        """
        self.choice = choose((), node=node, namespace=namespace)
        self._node_name = node
        self._namespace = namespace
        self._on_choice = on_choice
        self._on_config = on_config
        self._on_node = on_node
        self._went_by = went_by
        self._node = make(api, NODES, name=node, changed=self._node_changed)
        self._slo = make(api, NODE_SLOS, name=node, changed=on_slo) if slo else None
        self._configs = [
            ConfigWatches(
                api,
                kind,
                node=node,
                namespace=namespace,
                changed=self._configs_changed,
                make=make,
                now=now,
                after=after,
            )
            for kind in (kinds if on_choice is not None else ())
        ]
        self._tasks = TaskBag()

    # -- what is seen

    @property
    def node(self) -> ObservedObject:
        """The Node we run on."""
        return observe(self._node_name, self._node, NODES.kind)

    @property
    def slo(self) -> ObservedObject:
        """Its NodeSLO, if somebody wants to know."""
        if self._slo is None:
            return ObservedObject(self._node_name, False, None, kind=NODE_SLOS.kind)
        return observe(self._node_name, self._slo, NODE_SLOS.kind)

    @property
    def group(self) -> str | None:
        """The group of the Node, by the label that the first kind of configurations goes by; None: not known."""
        return self._configs[0].group if self._configs else ""

    @property
    def configs(self) -> list[ObservedObject]:
        """The objects that may be the configuration, the first that exists counts."""
        return [observed for kind in self._configs for observed in kind.observed(self._node)]

    @property
    def followers(self) -> Iterator[tuple[str, str, WatcherProtocol]]:
        """All of them: kind, name, follower."""
        yield NODES.kind, self._node_name, self._node
        if self._slo is not None:
            yield NODE_SLOS.kind, self._node_name, self._slo
        for kind in self._configs:
            yield from kind.followers

    @property
    def counts(self) -> dict[str, WatchCounts]:
        """By kind; never less than before."""
        found = {kind.kind.resource.kind: kind.past for kind in self._configs}
        for name, _, watcher in self.followers:
            found[name] = found.get(name, WatchCounts()).plus(watcher)
        return found

    # -- following

    def start(self) -> None:
        """Start watching the objects."""
        self._tasks.spawn(self._node.run(), name="follow the Node")
        if self._slo is not None:
            self._tasks.spawn(self._slo.run(), name="follow the NodeSLO")
        for kind in self._configs:
            kind.start()

    async def close(self) -> None:
        """Stop watching the objects."""
        for kind in self._configs:
            await kind.close()
        await self._tasks.cancel()

    def _configs_changed(self) -> None:
        before = self._went_by(self._node.object)
        self.choice = choose(self.configs, node=self._node_name, namespace=self._namespace, before=before)
        if self._on_choice is not None:
            self._on_choice(self.choice)
        self._on_config()

    def _node_changed(self) -> None:
        node = self._node.object
        # All of them, whatever the first one did.
        regrouped = [kind.regroup(node) for kind in self._configs]
        unclear = any(kind.group is None for kind in self._configs)
        if self._configs and not any(regrouped) and (unclear or self.choice.before != self._went_by(node)):
            self._configs_changed()
        self._on_node()
