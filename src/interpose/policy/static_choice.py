"""Which CPUs a container of the policy `static` gets: the kubelet's way to take them, with its options.

Pure functions of what is free. The kubelet takes CPUs of the NUMA nodes it has a hint for first, the rest anywhere;
here that is a list of sets to try one after the other, so that CPUs a container has already are just the first of them.
Invariant: with full-pcpus-only whatever is taken is a set of whole cores.
"""

from collections.abc import Iterable

from interpose.cpuallocator.kubelet import take_distributed, take_packed
from interpose.model.cpuset import EMPTY, CpuSet
from interpose.policy.static_options import StaticOptions
from interpose.topology.topology import Topology


class Chooser:
    """Takes CPUs on one machine, with one set of options."""

    def __init__(self, topology: Topology, options: StaticOptions) -> None:
        self._topology = topology
        self._options = options
        self._full_only = options.full_pcpus_only
        self.group = topology.threads_per_core if options.full_pcpus_only else 1  # CPUs come in multiples of this

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
        sized = CpuSet.union(
            core for core in self._topology.cores.values() if core <= usable and len(core) == self.group
        )
        return self._take_near(sized, count, near)

    def pick(self, free: CpuSet, count: int) -> CpuSet:
        """So many CPUs by the kubelet's algorithm, whole cores or not."""
        options = self._options
        if options.distribute_cpus_across_numa:
            return take_distributed(self._topology, free, count, group=self.group, by_socket=options.align_by_socket)
        return take_packed(
            self._topology,
            free,
            count,
            by_uncore=options.prefer_align_cpus_by_uncorecache,
            spread_cores=options.distribute_cpus_across_cores,
        )

    def _take_near(self, free: CpuSet, count: int, near: tuple[CpuSet, ...]) -> CpuSet:
        taken = EMPTY
        for cpus in near:
            here = self.usable(cpus & free) - taken
            taken |= self._some(here, min(len(here), count - len(taken)))
        return taken | self._some(free - taken, count - len(taken))

    def _some(self, cpus: CpuSet, count: int) -> CpuSet:
        if count == len(cpus):
            return cpus
        return self.pick(cpus, count) if count else EMPTY
