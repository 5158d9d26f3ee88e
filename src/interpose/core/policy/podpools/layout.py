"""The instances of pools on a machine: which CPUs each has.

Pools get their CPUs in the order in which they are configured, and each instance those of the first NUMA node, by
number, that has enough left; if none has, of the first die or package. So the same configuration gives the same
instances, and one more pool at its end moves none of those before it. Invariant: no CPU is in two instances, with one
exception: while nothing is left for pool default, it has the reserved CPUs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from interpose.core.cpuallocator.allocator import take
from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.text import quoted
from interpose.core.policy.podpools.options import (
    BUILT_IN,
    DEFAULT,
    NO_PODS,
    ONE_ONLY,
    RESERVED,
    UNLIMITED,
    UNREACHABLE,
    FillOrder,
    InstanceAmount,
    InstanceUnit,
    PodPool,
    is_unreachable,
    pool_problems,
)
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolInstance:
    """CPUs that some pods share."""

    name: str  # NAME[INDEX]; the built-in ones have no index
    cpus: CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPool:
    """A pool with its instances."""

    instances: tuple[PoolInstance, ...]
    max_pods: int = UNLIMITED  # of each instance
    fill_order: FillOrder = FillOrder.BALANCED

    def has_room(self, pods: int) -> bool:
        """Whether an instance with so many pods takes one more."""
        return self.max_pods == UNLIMITED or pods < self.max_pods

    @property
    def takes_pods(self) -> bool:
        """Whether there can be a pod at all."""
        return self.max_pods != NO_PODS


def place_pools(
    topology: Topology, free: CpuSet, reserved: CpuSet, pools: Sequence[PodPool]
) -> Mapping[str, PlacedPool]:
    """All pools by name, the built-in ones first; ConfigError with everything that is wrong.

    `free` are the CPUs besides the reserved ones.
    """
    if problems := pool_problems(pools):
        raise ConfigError([f"policy.podpools.Pools: {problem}" for problem in problems])
    left, whole = free, len(free)
    found: dict[str, tuple[PoolInstance, ...]] = {}
    for pool in pools:
        where = f"policy.podpools.Pools: pool {quoted(pool.name)}: "
        if pool.name == RESERVED:
            if pool.cpus not in (None, len(reserved)):
                problems.append(f"{where}CPU: {pool.cpus} cannot be, the reserved CPUs are {reserved}")
            continue
        if pool.cpus is None:
            continue
        count = _count_instances(pool.instances or InstanceAmount(), pool.cpus, whole)
        if problem := _explain_misfit(pool, pool.cpus, count, whole, len(left)):
            problems.append(where + problem)
            continue
        instances = []
        for index in range(count):
            cpus = _choose_cpus(topology, left, pool.cpus)
            left -= cpus
            name = pool.name if pool.name in BUILT_IN else f"{pool.name}[{index}]"
            instances.append(PoolInstance(name=name, cpus=cpus))
        found[pool.name] = tuple(instances)
    if problems:
        raise ConfigError(problems)
    rest = CpuSet.union(chain((left,), (instance.cpus for instance in found.pop(DEFAULT, ()))))
    built_in = {RESERVED: reserved, DEFAULT: rest or reserved}
    instances_of = {name: (PoolInstance(name=name, cpus=cpus),) for name, cpus in built_in.items()} | found
    configured = {pool.name: pool for pool in pools}
    return {
        name: PlacedPool(
            instances=instances,
            max_pods=configured[name].max_pods if name in configured else UNLIMITED,
            fill_order=configured[name].fill_order if name in configured else FillOrder.BALANCED,
        )
        for name, instances in instances_of.items()
    }


def _count_instances(amount: InstanceAmount, cpus: int, whole: int) -> int:
    """How many instances with so many CPUs; `whole` are all CPUs that are not reserved."""
    if amount.unit is InstanceUnit.PERCENT:
        return whole * amount.number // 100 // cpus
    return amount.number // cpus if amount.unit is InstanceUnit.CPUS else amount.number


def _explain_misfit(pool: PodPool, cpus: int, count: int, whole: int, left: int) -> str:
    """Why a pool cannot have so many instances with so many CPUs; empty if it can."""
    if not count:
        return f"Instances: {pool.instances} with CPU: {cpus} make no instance, {whole} CPUs are not reserved"
    if count * cpus > left:
        return f"{count * cpus} CPUs are needed for {count} of it, {left} of the {whole} that are not reserved are left"
    if count > 1 and pool.name in BUILT_IN:
        return ONE_ONLY
    return UNREACHABLE if count > 1 and is_unreachable(pool) else ""


def _choose_cpus(topology: Topology, left: CpuSet, count: int) -> CpuSet:
    for cpus in chain(topology.numa.values(), topology.dies.values(), topology.packages.values()):
        if len(left & cpus) >= count:
            left &= cpus
            break
    return take(topology, left, count, prefer=CpuPriority.NORMAL).cpus
