"""The CPUs of pools that are free, and what containers that share them use of each pool.

CPUs are isolated or sharable; reserved ones are counted apart. A container that shares CPUs of a pool uses an amount of
it, one thousandth at least, so that a pool with somebody in it keeps a CPU. The law: of the free sharable CPUs of every
pool, those in it and in the pools inside of it use no more than there are. `slice` finds CPUs that can be taken without
breaking it anywhere in the tree; the same holds for each part of what it finds.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from interpose.core.cpuallocator.allocator import take
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.topology_aware.pool_tree import PoolTree, TreePool
from interpose.core.topology.topology import Topology

_MILLI: Final = 1000


class CpuSlice(NamedTuple):
    """CPUs of which any so many can be taken."""

    cpus: CpuSet
    most: int


class CpuSupply:
    """Free CPUs and amounts in use, by pool."""

    def __init__(self, topology: Topology, tree: PoolTree, isolated: CpuSet, sharable: CpuSet) -> None:
        self._topology = topology
        self._tree = tree
        self._all_isolated = isolated
        self._all_sharable = sharable
        self.isolated = isolated  # free ones
        self.sharable = sharable
        self._used = [0] * len(tree.pools)  # by containers in the pool and in those inside of it
        self.containers = [0] * len(tree.pools)  # that are in exactly this pool, sharing or not

    @property
    def free(self) -> CpuSet:
        """All CPUs that nobody has alone, reserved ones left out."""
        return self.isolated | self.sharable

    def add(self, pool: TreePool, cpus: CpuSet, milli: int) -> None:
        """A container has these CPUs alone and uses so much of a pool."""
        self.isolated -= cpus
        self.sharable -= cpus
        for number in pool.path:
            self._used[number] += milli
        self.containers[pool.id] += 1

    def remove(self, pool: TreePool, cpus: CpuSet, milli: int) -> None:
        """The container gives back what was given by `add`."""
        self.isolated |= cpus & self._all_isolated
        self.sharable |= cpus & self._all_sharable
        for number in pool.path:
            self._used[number] -= milli
        self.containers[pool.id] -= 1

    # -- capacities

    def used(self, pool: TreePool) -> int:
        """Thousandths of shared CPUs that containers in a pool and in those inside of it use."""
        return self._used[pool.id]

    def balances(self) -> list[int]:
        """By pool: thousandths of free sharable CPUs that are not in use."""
        free = self.sharable.mask
        return [
            _MILLI * (pool.cpus.mask & free).bit_count() - used
            for pool, used in zip(self._tree.pools, self._used, strict=True)
        ]

    def shared_capacities(self, balances: Sequence[int]) -> list[int]:
        """By pool: how much a container more could use of it; the pools above it have to have that, too."""
        found = list(balances)
        for pool in reversed(self._tree.pools):
            for child in pool.children:
                found[child] = min(found[child], found[pool.id])
        return found

    def slice_sizes(self, balances: Sequence[int]) -> list[int]:
        """By pool: how many sharable CPUs could be taken of it without breaking the law in it or inside of it."""
        free, found = self.sharable.mask, [0] * len(balances)
        for pool in self._tree.pools:
            rest, inside = pool.cpus.mask & free, 0
            for child in pool.children:
                rest &= ~self._tree.pools[child].cpus.mask
                inside += found[child]
            found[pool.id] = max(0, min(balances[pool.id] // _MILLI, inside + rest.bit_count()))
        return found

    def is_legal(self) -> bool:
        """Whether the law holds."""
        return min(self.balances()) >= 0

    def slice(self, pool: TreePool, milli: int) -> CpuSlice:
        """Sharable CPUs that can be taken of a pool if a container uses so much of it as well."""
        balances = self.balances()
        for number in pool.path:
            balances[number] -= milli
        sizes = self.slice_sizes(balances)
        most = min(balances[number] // _MILLI for number in pool.path)
        return CpuSlice(self._choose(pool, sizes), max(0, min(most, sizes[pool.id])))

    def _choose(self, pool: TreePool, sizes: Sequence[int]) -> CpuSet:
        """CPUs of a pool of which any `sizes[pool.id]` can be taken."""
        free = pool.cpus & self.sharable
        if sizes[pool.id] == len(free):
            return free
        for child in pool.children:
            inner = self._tree.pools[child]
            cpus = self._choose(inner, sizes)
            if len(cpus) > sizes[child]:
                cpus = take(self._topology, cpus, sizes[child]).cpus
            free = (free - inner.cpus) | cpus
        return free
