"""The pools of the tree for people: what is free and granted in each, and which containers are there."""

from collections.abc import Iterator, Mapping

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.pool_report import PoolReport
from interpose.core.policy.request import Key
from interpose.core.policy.topology_aware.grants import RESERVED
from interpose.core.policy.topology_aware.placement import CpuSource, Placement
from interpose.core.policy.topology_aware.pool_tree import PoolTree
from interpose.core.policy.topology_aware.supply import CpuSupply


def report_tree(
    tree: PoolTree, supply: CpuSupply, reserved: CpuSet, places: Mapping[Key, Placement]
) -> Iterator[PoolReport]:
    """The reserved CPUs, then the tree from its top.

    Containers that have the reserved CPUs because no pool had one to share are with these.
    """
    inside: dict[str, list[Key]] = {}
    for key, place in places.items():
        if place.source is not CpuSource.PRESERVED:
            inside.setdefault(place.pool.name if place.source is CpuSource.POOL else RESERVED, []).append(key)
    on_reserved = sum(place.milli for place in places.values() if place.source is CpuSource.RESERVED)
    yield PoolReport(
        name=RESERVED,
        kind=RESERVED,
        cpus=reserved,
        granted=on_reserved,
        free=max(0, 1000 * len(reserved) - on_reserved),
        containers=tuple(inside.get(RESERVED, ())),
    )
    own = CpuSet.union(place.cpus for place in places.values())
    free = supply.shared_capacities(supply.balances())
    for pool in tree.from_top:
        yield PoolReport(
            name=pool.name,
            kind=pool.level.value,
            parent=tree.pools[pool.path[1]].name if len(pool.path) > 1 else "",
            cpus=pool.cpus & supply.sharable,
            own=pool.cpus & own,
            isolated=pool.cpus & supply.isolated,
            mems=pool.nodes,
            granted=supply.used(pool),
            free=free[pool.id],
            containers=tuple(inside.get(pool.name, ())),
        )
