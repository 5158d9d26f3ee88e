"""How the policy `static` finds CPUs for a container: isolated ones, ordinary ones, or both, in this order.

Isolated CPUs are for containers that prefer them, or that need one CPU or one whole core: the kernel does not spread
threads over them, so that a program that did not ask for them would run on the first of several all the time.

`CpuTaker` takes CPUs the kubelet's way. The kubelet takes CPUs of the NUMA nodes it has a hint for first, the rest
anywhere; here that is a list of sets to try one after the other, so that CPUs a container has already are just the
first of them. Invariant: with full-pcpus-only whatever is taken is a set of whole cores.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from interpose.core.cpuallocator.cost import Candidate
from interpose.core.cpuallocator.kubelet import NotEnoughCpusError, take_distributed, take_packed
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.annotations import numa_nodes, prefers_isolated
from interpose.core.policy.decision import Refusal, RefusalKind
from interpose.core.policy.request import Request
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.reasons import CpuChoice, candidates, exclusive_reason
from interpose.core.topology.topology import Topology


class CpuTaker:
    """Takes CPUs on one machine, with one set of options."""

    def __init__(self, topology: Topology, options: StaticOptions) -> None:
        self._topology = topology
        self._options = options
        self._full_only = options.full_pcpus_only
        # With full-pcpus-only, what requests must be a multiple of. Where cores differ in size the kubelet rounds down:
        # it asks for less than a core of the larger kind, and what is taken must still come to whole cores.
        self.group = _threads(topology) if options.full_pcpus_only else 1

    def usable(self, free: CpuSet) -> CpuSet:
        """CPUs that can be taken at all: with full-pcpus-only, cores of which every thread is free."""
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

        NotEnoughCpusError if there are not so many.
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
            raise NotEnoughCpusError(f"{count} CPUs cannot be had in whole cores")
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


_ISOLATED: Final = "isolated CPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuStock:
    """CPUs a container may get: those without another exclusive owner. The CPUs it has are among them."""

    ordinary: CpuSet
    isolated: CpuSet = EMPTY
    own: CpuSet = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSearchResult:
    """The CPUs that were found, or a refusal."""

    cpus: CpuSet = EMPTY
    refusal: Refusal | None = None
    reason: str = ""
    candidates: tuple[Candidate, ...] = ()


class CpuSearch:
    """Finds CPUs on one machine, with one set of options."""

    def __init__(self, topology: Topology, options: StaticOptions, chooser: CpuTaker) -> None:
        self._topology = topology
        self._options = options
        self._chooser = chooser
        self._nodes = CpuSet.of(node.id for node in topology.nodes)

    def find(self, request: Request, count: int, stock: CpuStock) -> CpuSearchResult:
        """So many CPUs, as many as possible of those it has."""
        try:
            prefer_isolated = prefers_isolated(request)
            nodes = numa_nodes(request, self._nodes)
        except ValueError as error:
            return _refuse(RefusalKind.INVALID, str(error))
        if count % self._chooser.group:
            return _refuse(
                RefusalKind.INVALID,
                f"CPUs of its own: {count} wanted, and full-pcpus-only gives whole cores: "
                f"ask for a multiple of {self._chooser.group}",
            )
        if prefer_isolated is False:
            stock = replace(stock, own=stock.own - stock.isolated)  # it may have got them before it was annotated
        if len(stock.own) == count and not self._takes_last(stock.own, stock):
            kept = Candidate(name="the CPUs it has", cpus=stock.own, score=f"{count} kept", chosen=True, reason="kept")
            return CpuSearchResult(
                cpus=stock.own, reason=f"keeps the CPUs of its own that it had: {stock.own}", candidates=(kept,)
            )
        return self._choose(count, stock, prefer_isolated, nodes)

    def _choose(
        self, count: int, stock: CpuStock, prefer_isolated: bool | None, nodes: CpuSet | None
    ) -> CpuSearchResult:
        wants_isolated = prefer_isolated if prefer_isolated is not None else self._options.relaxed_isolation
        skip_reason = self._explain_no_isolated(count, stock, prefer_isolated, wants_isolated=wants_isolated)
        near = tuple(self._near(stock.own, nodes))
        if not skip_reason:
            cpus = self._take(stock.isolated, count, near, stock)
            if cpus and (wants_isolated or count == 1 or cpus == self._topology.core_of(min(cpus))):
                return self._report(
                    CpuChoice(cpus=cpus, free=stock.isolated, own=stock.own, nodes=nodes), stock, "preferred"
                )
            skip_reason = "free ones are not one whole core" if cpus else f"fewer than {count} are free"
        both = stock.ordinary | stock.isolated if prefer_isolated is not False else stock.ordinary
        for free in (stock.ordinary, both):
            if cpus := self._take(free, count, near, stock):
                chosen = CpuChoice(
                    cpus=cpus,
                    free=free,
                    own=stock.own,
                    nodes=nodes,
                    spread=self._options.distribute_cpus_across_numa,
                )
                return self._report(chosen, stock, skip_reason)
        return _refuse(
            RefusalKind.EXHAUSTED,
            self._explain_shortage(count, both),
            self._isolated_candidate(stock, skip_reason, chosen=False),
        )

    def _explain_no_isolated(
        self, count: int, stock: CpuStock, prefer_isolated: bool | None, *, wants_isolated: bool
    ) -> str:
        """Why isolated CPUs are not even tried; empty if they are."""
        if prefer_isolated is False:
            return "its pod does not want them"
        if not stock.isolated:
            return "none is free"
        if not stock.own <= stock.isolated:
            return "the container has other ones"
        if not wants_isolated and count not in (1, self._topology.threads_per_core):
            return "nobody asked for them, and it needs more than one core"
        return ""

    def _near(self, own: CpuSet, nodes: CpuSet | None) -> Iterator[CpuSet]:
        """Where to take CPUs, best first."""
        yield from self._chooser.parts(own)
        named = self._topology.online if nodes is None else self._chooser.around(nodes)
        cores = self._topology.with_siblings(own)
        around = self._chooser.around(self._topology.nodes_of(own))
        # The rest of its own cores, which another container would share with it otherwise.
        yield named & (around - cores if self._options.distribute_cpus_across_cores else cores)
        if nodes is not None:
            yield named
        yield around

    def _take(self, free: CpuSet, count: int, near: tuple[CpuSet, ...], stock: CpuStock) -> CpuSet:
        """So many CPUs; none if there are not so many."""
        try:
            cpus = self._chooser.take(free, count, near)
            if self._takes_last(cpus, stock):
                spare = max(stock.ordinary - stock.own or stock.ordinary)
                cpus = self._chooser.take(free - CpuSet.of((spare,)), count, near)
        except NotEnoughCpusError:
            return EMPTY
        return cpus

    def _takes_last(self, cpus: CpuSet, stock: CpuStock) -> bool:
        """With strict-cpu-reservation the others have nothing but the ordinary CPUs: one of these stays."""
        return self._options.strict_cpu_reservation and stock.ordinary <= cpus

    def _report(self, chosen: CpuChoice, stock: CpuStock, isolated: str) -> CpuSearchResult:
        return CpuSearchResult(
            cpus=chosen.cpus,
            reason=exclusive_reason(chosen, stock.isolated, self._topology),
            candidates=(
                *self._isolated_candidate(stock, isolated, chosen=bool(chosen.cpus & stock.isolated)),
                *candidates(chosen, self._topology),
            ),
        )

    def _isolated_candidate(self, stock: CpuStock, why: str, *, chosen: bool) -> tuple[Candidate, ...]:
        if not self._topology.isolated:
            return ()
        free = stock.isolated
        return (Candidate(name=_ISOLATED, cpus=free, score=f"{len(free)} free", chosen=chosen, reason=why),)

    def _explain_shortage(self, count: int, free: CpuSet) -> str:
        usable = self._chooser.usable(free)
        text = f"CPUs of its own: {count} wanted, {len(usable)} free"
        if self._options.full_pcpus_only:
            text += " in whole cores"
            if len(usable) >= count:
                text += ", which do not come to exactly so many"
        if self._options.strict_cpu_reservation:
            text += ", one of which stays for containers that share CPUs (strict-cpu-reservation)"
        return text


def _refuse(why: RefusalKind, message: str, candidates_seen: tuple[Candidate, ...] = ()) -> CpuSearchResult:
    return CpuSearchResult(refusal=Refusal(kind=why, message=message), reason=message, candidates=candidates_seen)
