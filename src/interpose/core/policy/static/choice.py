"""Which CPUs a container of the policy `static` gets: the kubelet's way to take them, with its options.

Pure functions of what is free. The kubelet takes CPUs of the NUMA nodes it has a hint for first, the rest anywhere;
here that is a list of sets to try one after the other, so that CPUs a container has already are just the first of them.
Invariant: with full-pcpus-only whatever is taken is a set of whole cores.
"""

from collections.abc import Iterable, Mapping, Sequence

from interpose.core.cpuallocator.kubelet import NotEnough, take_distributed, take_packed
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.static.options import StaticOptions
from interpose.core.topology.topology import Topology


class Chooser:
    """Takes CPUs on one machine, with one set of options."""

    def __init__(self, topology: Topology, options: StaticOptions) -> None:
        self._topology = topology
        self._options = options
        self._full_only = options.full_pcpus_only
        # With full-pcpus-only, what requests must be a multiple of. Where cores differ in size the kubelet rounds down:
        # it asks for less than a core of the larger kind, and what is taken must still come to whole cores.
        self.group = _threads(topology) if options.full_pcpus_only else 1

    def usable(self, free: CpuSet) -> CpuSet:
        """Those that can be taken at all: with full-pcpus-only, cores of which every thread is free."""
        if not self._full_only:
            return free
        return CpuSet.union(core for core in self._topology.cores.values() if core <= free)

    def around(self, nodes: CpuSet) -> CpuSet:
        """The CPUs of these NUMA nodes; with align-by-socket those of their packages."""
        cpus = CpuSet.union(self._topology.numa.get(node, EMPTY) for node in nodes)
        if not self._options.align_by_socket:
            return cpus
        return CpuSet.union(self._topology.packages[package] for package in self._topology.packages_of(cpus))

    def parts(self, own: CpuSet) -> tuple[CpuSet, ...]:
        """CPUs of a container by NUMA node, most first: what to keep of them if it cannot keep all."""
        nodes = (own & cpus for cpus in self._topology.numa.values())
        return tuple(sorted(filter(None, nodes), key=len, reverse=True))

    def take(self, free: CpuSet, count: int, near: Iterable[CpuSet] = ()) -> CpuSet:
        """So many free CPUs, as many as possible of the first set in `near`, then of the next, the rest anywhere.

        NotEnough if there are not so many.
        """
        usable, near = self.usable(free), tuple(near)
        cpus = self._take_near(usable, count, near)
        if not self._full_only or self.usable(cpus) == cpus:
            return cpus
        # Cores of several sizes, as on machines with two kinds of them: one was split to have exactly so many.
        return self._take_sized(usable, count, near)

    def pick(self, free: CpuSet, count: int, group: int = 0) -> CpuSet:
        """So many CPUs by the kubelet's algorithm, whole cores or not; `group`: spread by so many at once."""
        options = self._options
        if options.distribute_cpus_across_numa:
            return take_distributed(
                self._topology, free, count, group=group or self.group, by_socket=options.align_by_socket
            )
        return take_packed(
            self._topology,
            free,
            count,
            by_uncore=options.prefer_align_cpus_by_uncorecache,
            spread_cores=options.distribute_cpus_across_cores,
        )

    def _take_sized(self, free: CpuSet, count: int, near: tuple[CpuSet, ...]) -> CpuSet:
        """So many CPUs of whole cores, as many as possible of the larger ones."""
        kinds: dict[int, CpuSet] = {}
        for core in self._topology.cores.values():
            if core <= free:
                kinds[len(core)] = kinds.get(len(core), EMPTY) | core
        parts = _sum_up(count, tuple((size, len(kinds[size])) for size in sorted(kinds, reverse=True)))
        if parts is None:
            raise NotEnough(f"{count} CPUs cannot be had in whole cores")
        return CpuSet.union(self._take_near(kinds[size], part, near, size) for size, part in parts.items())

    def _take_near(self, free: CpuSet, count: int, near: tuple[CpuSet, ...], group: int = 0) -> CpuSet:
        taken = EMPTY
        for cpus in near:
            here = self.usable(cpus & free) - taken
            taken |= self._some(here, min(len(here), count - len(taken)), group)
        return taken | self._some(free - taken, count - len(taken), group)

    def _some(self, cpus: CpuSet, count: int, group: int) -> CpuSet:
        if count == len(cpus):
            return cpus
        return self.pick(cpus, count, group) if count else EMPTY


def _threads(topology: Topology) -> int:
    """Threads of a core as the kubelet counts them: on average, rounded down."""
    return len(topology.cpus) // len(topology.cores) if topology.cores else 1


def _sum_up(count: int, kinds: Sequence[tuple[int, int]]) -> Mapping[int, int] | None:
    """So many CPUs of cores of several sizes, (size, CPUs there are): how many of each, of the first ones most.

    None if no number of whole cores comes to it.
    """
    sums = [1]  # what can be had of the last kinds: a bit for each amount
    for size, cpus in reversed(kinds):
        some = sums[-1]
        for _ in range(cpus // size):
            some |= some << size
        sums.append(some & ((2 << count) - 1))
    if not sums.pop() >> count & 1:
        return None
    parts = {}
    for size, cpus in kinds:
        rest = sums.pop()
        most = min(count, cpus) // size * size
        parts[size] = next(part for part in range(most, -1, -size) if rest >> (count - part) & 1)
        count -= parts[size]
    return parts
