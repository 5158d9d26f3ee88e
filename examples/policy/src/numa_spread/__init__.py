"""Every pod on one NUMA node: the one with the least CPU requested so far."""

from collections.abc import Mapping
from typing import Any

from interpose.policyplugin import Action, ConfigError, CpuSet, Decision, Grant, Key, PolicyState, Request, Setup


class NumaSpread:
    """One pool of CPUs for each NUMA node; containers of a pod share one."""

    name = "numa-spread"
    notes: tuple[str, ...] = ()

    def __init__(self, setup: Setup, options: Mapping[str, Any]) -> None:
        avoided = options.get("avoidNodes", [])
        if unknown := options.keys() - {"avoidNodes"}:
            raise ConfigError(f"{', '.join(sorted(unknown))}: is not a known option, there is avoidNodes")
        if not isinstance(avoided, list) or not set(avoided) < set(setup.topology.numa):
            nodes = ", ".join(map(str, setup.topology.numa))
            raise ConfigError(f"avoidNodes: {avoided!r} is not a list of some, but not all, of the nodes {nodes}")
        usable = setup.topology.online if setup.available is None else setup.available
        if isinstance(setup.reserved, CpuSet):
            usable = usable - setup.reserved
        shared = {node: cpus & usable for node, cpus in setup.topology.numa.items() if node not in avoided}
        self._nodes = {f"node{node}": node for node, cpus in shared.items() if cpus}
        if not self._nodes:
            raise ConfigError("avoidNodes: nothing is left beside the reserved CPUs")
        self.state = PolicyState({pool: shared[node] for pool, node in self._nodes.items()})
        self.fallback = CpuSet.union(self.state.pools.values())

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        """A container that runs already stays where it is, others join their pod or the emptiest node."""
        pools = [grant.pools[0] for key, grant in self.state.grants.items() if key.pod_id == request.key.pod_id]
        pools += [pool for pool in (held.pools if held else ()) if pool in self._nodes]
        pool = pools[-1] if pools else min(self._nodes, key=lambda pool: (self._milli(pool), self._nodes[pool]))
        return self._grant(Action.ALLOCATE, request, pool, "with its pod" if pools else "least requested")

    def resize(self, request: Request) -> Decision:
        """Other amounts count for pods to come; nothing moves."""
        return self._grant(Action.RESIZE, request, self.state.grants[request.key].pools[0], "stays")

    def release(self, key: Key) -> Decision:
        """Its CPUs were shared: nothing changes for others."""
        self.state.drop(key)
        return Decision(action=Action.RELEASE, key=key, reason="its request no longer counts")

    def pools(self) -> Mapping[str, CpuSet]:
        """The CPUs of each node."""
        return self.state.pools

    def _milli(self, pool: str) -> int:
        return sum(self.state.grants[key].milli for key in self.state.members(pool))

    def _grant(self, action: Action, request: Request, pool: str, why: str) -> Decision:
        grant = Grant(pools=(pool,), mems=CpuSet.of([self._nodes[pool]]), milli=request.milli)
        self.state.put(request.key, grant)
        changed = tuple(key for key in self.state.changes() if key != request.key)
        return Decision(action=action, key=request.key, grant=grant, reason=f"{pool}: {why}", changed=changed)
