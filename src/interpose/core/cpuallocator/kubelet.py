"""CPUs as the kubelet's CPU manager takes them, CPU by CPU the same.

Packed: whole NUMA nodes and packages while they fit, then whole cores, then single CPUs, each time those with the
fewest free CPUs first, so that what is broken already is used up. Distributed: evenly over NUMA nodes.

Where kubelets go wrong we do not follow: cores and packages of unequal size (a CPU is offline, or there are two kinds
of cores) are idle if all their own CPUs are free, and only CPUs that are free and online are ever taken.

Distributed CPUs come from as few NUMA nodes as possible: all sets of so many nodes are tried in order. Each node of a
set gives the same share; the rest comes in groups from some of them, round after round. The set after which the free
CPUs of all nodes differ least (standard deviation, to three decimals) is taken, the first one of equals. The work is
bounded: after MOST_TRIES sets and ways to take the rest, the best so far counts. With up to eight nodes, which is all
that kubelets support, this many are never needed.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from interpose.core.cpuallocator.bitmask import compute_once, iterate_bits, lowest_bits
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.topology.topology import Topology

MOST_TRIES = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """The CPUs that NUMA nodes give; nodes are numbered by their places in the list."""

    nodes: tuple[int, ...]
    even: int  # so many CPUs each
    rest: int  # so many more in all,
    extra: tuple[int, ...]  # a group from each of these in turn


@dataclass(slots=True, kw_only=True)
class Balance:
    """A search for NUMA nodes that give CPUs evenly."""

    free: Sequence[int]  # CPUs of each node
    count: int
    group: int = 1  # CPUs are given in groups of so many; `count` is a multiple of it
    sockets: Sequence[int] | None = None  # of each node: sets within a socket are better than others; None: no matter
    tries: int = 0
    _scores: dict[int, int] = field(default_factory=dict, init=False)

    def search(self, fewest: int, most: int) -> Shares | None:
        """The best way with the least number of nodes in this range; None if there is none."""
        for size in range(fewest, most + 1):
            best: tuple[tuple[bool, int], Shares] | None = None
            for nodes in combinations(range(len(self.free)), size):
                self.tries += 1
                if self.tries > MOST_TRIES or (best is not None and best[0] == (False, 0)):
                    break
                apart = self.sockets is not None and len({self.sockets[node] for node in nodes}) > 1
                worst = None if best is None or best[0][0] > apart else -1 if best[0][0] < apart else best[0][1]
                found = self._shares(nodes, worst)
                if found is not None:
                    best = (apart, found[0]), found[1]
            if best is not None:
                return best[1]
        return None

    def _shares(self, nodes: tuple[int, ...], worst: int | None) -> tuple[int, Shares] | None:
        """The best way with these nodes and its score; None if there is none with a score below `worst`."""
        if sum(self.free[node] // self.group for node in nodes) * self.group < self.count:
            return None
        least = min(self.free[node] for node in nodes)
        even = self.count // len(nodes) // self.group * self.group
        if self.sockets is not None:
            even = min(even, least // self.group * self.group)
        if least < even:
            return None
        left = list(self.free)
        for node in nodes:
            left[node] -= even
        rest = self.count - even * len(nodes)
        able = [node for node in nodes if left[node] >= self.group]
        bound = self._score(self._lowest(left, able, rest))
        if worst is not None and bound >= worst:
            return None
        if not rest:
            return bound, Shares(nodes=nodes, even=even, rest=0, extra=())
        best = worst
        chosen: tuple[int, ...] | None = None
        # The first way, from all of them, is always one.
        for subset in (subset for size in range(len(able), 0, -1) for subset in combinations(able, size)):
            self.tries += 1
            squares = self._after(left, subset, rest)
            if squares is not None and (best is None or self._score(squares) < best):
                best, chosen = self._score(squares), subset
            if best == bound or self.tries > MOST_TRIES:
                break
        if best is None or chosen is None:
            return None
        return best, Shares(nodes=nodes, even=even, rest=rest, extra=chosen)

    def _after(self, left: Sequence[int], subset: Sequence[int], rest: int) -> int | None:
        """The sum of squares of what is left when these nodes gave the rest; None if they have not enough."""
        if sum(left[node] // self.group for node in subset) * self.group < rest:
            return None
        after = list(left)
        groups = rest // self.group
        while groups:
            giving = [node for node in subset if after[node] >= self.group]
            # Whole rounds as long as none of them runs dry; then what is not enough for a round.
            rounds = min(groups // len(giving), min(after[node] for node in giving) // self.group)
            for node in giving if rounds else giving[:groups]:
                after[node] -= max(rounds, 1) * self.group
            groups -= rounds * len(giving) if rounds else groups
        return sum(number * number for number in after)

    def _lowest(self, left: Sequence[int], able: Sequence[int], rest: int) -> int:
        """No way to take the rest leaves a smaller sum of squares: always from where most is left.

        Only worked out for a rest of few groups, which is the rule. Otherwise 0.
        """
        groups = rest // self.group
        if groups > len(able):
            return 0
        after = list(left)
        for _ in range(groups):
            after[max(able, key=after.__getitem__)] -= self.group
        return sum(number * number for number in after)

    def _score(self, squares: int) -> int:
        """The standard deviation in thousandths. The sum is the same for all, so the sum of squares says it all."""
        if squares not in self._scores:
            size = len(self.free)
            total = sum(self.free) - self.count
            mean = _thousandths(total / size) / 1000
            variance = max(0.0, squares - 2 * mean * total + size * mean * mean) / size
            self._scores[squares] = _thousandths(math.sqrt(variance))
        return self._scores[squares]


def _thousandths(number: float) -> int:
    return math.floor(number * 1000 + 0.5)


class NotEnoughCpusError(ValueError):
    """More CPUs are wanted than there are."""


class CpuGroup(NamedTuple):
    """CPUs that belong together."""

    id: int
    mask: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineShape:
    """A machine as the kubelet sees it: groups in order of their numbers."""

    packages: tuple[CpuGroup, ...]
    nodes: tuple[CpuGroup, ...]
    caches: tuple[CpuGroup, ...]  # last level; packages where the kernel does not tell
    cores_of: Mapping[int, tuple[CpuGroup, ...]]  # the cores of packages, nodes and caches, by their masks
    nodes_first: bool  # nodes are wider than packages, or the same
    threads: int  # CPUs of a core, on average
    cache_size: int  # CPUs of a cache, on average

    @classmethod
    def of(cls, topology: Topology) -> "MachineShape":
        packages = _groups(topology.packages)
        nodes = _groups(topology.numa)
        caches = _groups(topology.l3_groups) or packages
        cores = _groups(topology.cores)
        nodes_first = len(packages) >= len(nodes)
        return cls(
            packages=packages,
            nodes=nodes,
            caches=caches,
            cores_of={
                outer.mask: tuple(core for core in cores if core.mask & outer.mask)
                for outer in (*packages, *nodes, *caches)
            },
            nodes_first=nodes_first,
            threads=len(topology.cpus) // len(cores),
            cache_size=len(topology.cpus) // len(caches),
        )


class FreeCpus:
    """Free CPUs, and the order in which they are used: groups with the fewest free CPUs first."""

    def __init__(self, topology: Topology, available: CpuSet) -> None:
        self.shape = compute_once(topology, MachineShape.of)
        self.mask = (available & topology.online).mask

    def packages(self) -> list[CpuGroup]:
        """Packages with free CPUs, in the order in which they are used."""
        shape = self.shape
        return self._below(self.nodes(), shape.packages) if shape.nodes_first else self._ordered(shape.packages)

    def nodes(self) -> list[CpuGroup]:
        """NUMA nodes with free CPUs, in the order in which they are used."""
        shape = self.shape
        return self._ordered(shape.nodes) if shape.nodes_first else self._below(self.packages(), shape.nodes)

    def caches(self) -> list[CpuGroup]:
        """Last level caches with free CPUs, in the order in which they are used."""
        return self._below(self.nodes(), self.shape.caches)

    def cores(self) -> Iterator[CpuGroup]:
        """Cores with free CPUs; a core that reaches into two packages comes twice."""
        free = self.mask
        for outer in self.packages() if self.shape.nodes_first else self.nodes():
            by_size: dict[int, list[CpuGroup]] = {}
            for core in self.shape.cores_of[outer.mask]:
                if core.mask & free & outer.mask:
                    by_size.setdefault((core.mask & free).bit_count(), []).append(core)
            for size in sorted(by_size):
                yield from by_size[size]

    def cpus(self, *, spread: bool = False) -> Iterator[int]:
        """Single CPUs as masks: core by core; spread: by their numbers in each package."""
        for outer in list(self.packages() if spread else self.cores()):
            yield from iterate_bits(outer.mask & self.mask)

    def is_idle(self, group: CpuGroup) -> bool:
        """Whether all CPUs of a group are free."""
        return not group.mask & ~self.mask

    def _ordered(self, groups: Iterable[CpuGroup]) -> list[CpuGroup]:
        sized = [((group.mask & self.mask).bit_count(), group) for group in groups]
        return [group for size, group in sorted(sized) if size]

    def _below(self, outers: Iterable[CpuGroup], groups: Iterable[CpuGroup]) -> list[CpuGroup]:
        """In the order of the groups that they are in, where the first one counts."""
        ordered = self._ordered(groups)
        found: dict[CpuGroup, None] = {}
        for outer in outers:
            found.update((group, None) for group in ordered if group.mask & outer.mask & self.mask)
        return list(found)


class _Packing(FreeCpus):
    """Takes CPUs until there are enough."""

    def __init__(self, topology: Topology, available: CpuSet, count: int) -> None:
        super().__init__(topology, available)
        self.need = count
        self.taken = 0
        if count > self.mask.bit_count():
            raise NotEnoughCpusError(
                f"not enough cpus available to satisfy request: requested={count}, available={self.mask.bit_count()}"
            )

    def run(self, *, by_uncore: bool, spread_cores: bool) -> CpuSet:
        """Step by step; the later ones find nothing to do once there are enough."""
        wide = (self.nodes, self.packages) if self.shape.nodes_first else (self.packages, self.nodes)
        for groups in wide:
            self._take_idle(groups())
        if by_uncore:
            self._take_caches()
        if not spread_cores:
            self._take_idle(self.cores())
        if self.need:
            for cpu in self.cpus(spread=spread_cores):
                self._take(lowest_bits(cpu, self.need))
        return CpuSet(self.taken)

    def _take(self, mask: int) -> None:
        self.taken |= mask
        self.mask &= ~mask
        self.need -= mask.bit_count()

    def _take_idle(self, groups: Iterable[CpuGroup]) -> None:
        if self.need:
            for group in [group for group in groups if self.is_idle(group)]:
                # Checked again for a core that came twice.
                if group.mask.bit_count() <= self.need and self.is_idle(group):
                    self._take(group.mask)

    def _take_caches(self) -> None:
        """Whole caches, then of the first one that alone can give what is still missing."""
        caches = self.caches()
        if self.need >= self.shape.cache_size:
            self._take_idle(caches)
        for cache in caches:
            part = self._part(cache)
            if part.bit_count() == self.need:
                self._take(part)
                return

    def _part(self, cache: CpuGroup) -> int:
        """The free CPUs of as many of its lowest cores as are needed, without the last one if that is one too many."""
        free = [core.mask & self.mask for core in self.shape.cores_of[cache.mask] if core.mask & cache.mask & self.mask]
        part = sum(free[: _divide_up(self.need, self.shape.threads)])
        if self.need % 2 and self.shape.threads > 1 and part.bit_count() > self.need:
            part &= ~(1 << part.bit_length() - 1)
        return part


def take_packed(
    topology: Topology, available: CpuSet, count: int, *, by_uncore: bool = False, spread_cores: bool = False
) -> CpuSet:
    """Take CPUs from as few parts of the machine as possible. NotEnoughCpusError if there are not so many.

    `by_uncore`: within one last level cache if that can be (prefer-align-cpus-by-uncorecache). `spread_cores`: no whole
    cores on purpose (distribute-cpus-across-cores).
    """
    if count <= 0:
        return EMPTY
    return _Packing(topology, available, count).run(by_uncore=by_uncore, spread_cores=spread_cores)


def take_distributed(
    topology: Topology, available: CpuSet, count: int, *, group: int = 1, by_socket: bool = False
) -> CpuSet:
    """Take CPUs evenly from as few NUMA nodes as possible. NotEnoughCpusError if there are not so many.

    `group`: always so many of a node at once (threads of a core; distribute-cpus-across-numa with full-pcpus-only); a
    count that is not a multiple of it is packed, and so is one that cannot be spread. `by_socket`: rather from the
    nodes of one package (align-by-socket).
    """
    if count <= 0:
        return EMPTY
    free = _Packing(topology, available, count)
    nodes = free.nodes()
    shares = None
    if count % group == 0:
        balance = Balance(
            free=[(node.mask & free.mask).bit_count() for node in nodes],
            count=count,
            group=group,
            # A node of several packages is counted to the first of them.
            sockets=[min(topology.packages_of(CpuSet(node.mask))) for node in nodes] if by_socket else None,
        )
        groups = count // group
        # As if the machine were empty and all nodes alike: fewer nodes than that are not worth a try.
        per_node = _divide_up(_divide_up(len(topology.cpus), group), len(topology.numa))
        shares = balance.search(_divide_up(groups, per_node), min(groups, len(nodes)))
    if shares is None:
        return take_packed(topology, available, count)
    taken = 0
    for place in shares.nodes:
        taken |= take_packed(topology, CpuSet(nodes[place].mask & free.mask), shares.even).mask
    rest = shares.rest
    while rest:
        for place in shares.extra:
            there = CpuSet(nodes[place].mask & free.mask & ~taken)
            if rest and len(there) >= group:
                taken |= take_packed(topology, there, group).mask
                rest -= group
    return CpuSet(taken)


def _divide_up(number: int, size: int) -> int:
    return -(-number // size)


def _groups(sets: Mapping[int, CpuSet]) -> tuple[CpuGroup, ...]:
    return tuple(CpuGroup(number, cpus.mask) for number, cpus in sets.items())
