"""How the policy `static` finds CPUs for a container: isolated ones, ordinary ones, or both, in this order.

Isolated CPUs are for who prefers them, or for a container that needs one CPU or one whole core: the kernel does not
spread threads over them, so that a program that did not ask for it would run on the first of several all the time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from interpose.core.cpuallocator.candidate import Candidate
from interpose.core.cpuallocator.kubelet import NotEnough
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.annotations import numa_nodes, prefers_isolated
from interpose.core.policy.decision import Refusal, Why
from interpose.core.policy.request import Request
from interpose.core.policy.static.choice import Chooser
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.reasons import Chosen, candidates, exclusive_reason
from interpose.core.topology.topology import Topology

_ISOLATED: Final = "isolated CPUs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """What a container may choose of: CPUs that nobody else holds alone. Those it has are among them."""

    ordinary: CpuSet
    isolated: CpuSet = EMPTY
    own: CpuSet = EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """CPUs, or why there are none."""

    cpus: CpuSet = EMPTY
    refusal: Refusal | None = None
    reason: str = ""
    candidates: tuple[Candidate, ...] = ()


class Search:
    """Finds CPUs on one machine, with one set of options."""

    def __init__(self, topology: Topology, options: StaticOptions, chooser: Chooser) -> None:
        self._topology = topology
        self._options = options
        self._chooser = chooser
        self._nodes = CpuSet.of(node.id for node in topology.nodes)

    def find(self, request: Request, count: int, stock: Stock) -> Found:
        """So many CPUs, as many as possible of those it has."""
        try:
            wish = prefers_isolated(request)
            nodes = numa_nodes(request, self._nodes)
        except ValueError as error:
            return _refused(Why.INVALID, str(error))
        if count % self._chooser.group:
            return _refused(
                Why.INVALID,
                f"CPUs of its own: {count} wanted, and full-pcpus-only gives whole cores: "
                f"ask for a multiple of {self._chooser.group}",
            )
        if wish is False:
            stock = replace(stock, own=stock.own - stock.isolated)  # it may have got them before it could say so
        if len(stock.own) == count and not self._takes_last(stock.own, stock):
            kept = Candidate(name="the CPUs it has", cpus=stock.own, score=f"{count} kept", chosen=True, why="kept")
            return Found(
                cpus=stock.own, reason=f"keeps the CPUs of its own that it had: {stock.own}", candidates=(kept,)
            )
        return self._choose(count, stock, wish, nodes)

    def _choose(self, count: int, stock: Stock, wish: bool | None, nodes: CpuSet | None) -> Found:
        asked = wish if wish is not None else self._options.relaxed_isolation
        passed = self._no_isolated(count, stock, wish, asked=asked)
        near = tuple(self._near(stock.own, nodes))
        if not passed:
            cpus = self._take(stock.isolated, count, near, stock)
            if cpus and (asked or count == 1 or cpus == self._topology.core_of(min(cpus))):
                return self._found(
                    Chosen(cpus=cpus, free=stock.isolated, own=stock.own, nodes=nodes), stock, "preferred"
                )
            passed = "free ones are not one whole core" if cpus else f"fewer than {count} are free"
        both = stock.ordinary | stock.isolated if wish is not False else stock.ordinary
        for free in (stock.ordinary, both):
            if cpus := self._take(free, count, near, stock):
                chosen = Chosen(
                    cpus=cpus,
                    free=free,
                    own=stock.own,
                    nodes=nodes,
                    spread=self._options.distribute_cpus_across_numa,
                )
                return self._found(chosen, stock, passed)
        return _refused(Why.EXHAUSTED, self._too_few(count, both), self._isolated_way(stock, passed, chosen=False))

    def _no_isolated(self, count: int, stock: Stock, wish: bool | None, *, asked: bool) -> str:
        """Why isolated CPUs are not even tried; empty if they are."""
        if wish is False:
            return "its pod does not want them"
        if not stock.isolated:
            return "none is free"
        if not stock.own <= stock.isolated:
            return "the container has other ones"
        if not asked and count not in (1, self._topology.threads_per_core):
            return "nobody asked for them, and it needs more than one core"
        return ""

    def _near(self, own: CpuSet, nodes: CpuSet | None) -> Iterator[CpuSet]:
        """Where to take CPUs, best first."""
        yield from self._chooser.parts(own)
        named = self._topology.online if nodes is None else self._chooser.around(nodes)
        cores = self._topology.with_siblings(own)
        around = self._chooser.around(self._topology.nodes_of(own))
        # The rest of its own cores, which somebody else would share with it otherwise.
        yield named & (around - cores if self._options.distribute_cpus_across_cores else cores)
        if nodes is not None:
            yield named
        yield around

    def _take(self, free: CpuSet, count: int, near: tuple[CpuSet, ...], stock: Stock) -> CpuSet:
        """So many CPUs; none if there are not so many."""
        try:
            cpus = self._chooser.take(free, count, near)
            if self._takes_last(cpus, stock):
                spare = max(stock.ordinary - stock.own or stock.ordinary)
                cpus = self._chooser.take(free - CpuSet.of((spare,)), count, near)
        except NotEnough:
            return EMPTY
        return cpus

    def _takes_last(self, cpus: CpuSet, stock: Stock) -> bool:
        """With strict-cpu-reservation the others have nothing but the ordinary CPUs: one of these stays."""
        return self._options.strict_cpu_reservation and stock.ordinary <= cpus

    def _found(self, chosen: Chosen, stock: Stock, isolated: str) -> Found:
        return Found(
            cpus=chosen.cpus,
            reason=exclusive_reason(chosen, stock.isolated, self._topology),
            candidates=(
                *self._isolated_way(stock, isolated, chosen=bool(chosen.cpus & stock.isolated)),
                *candidates(chosen, self._topology),
            ),
        )

    def _isolated_way(self, stock: Stock, why: str, *, chosen: bool) -> tuple[Candidate, ...]:
        if not self._topology.isolated:
            return ()
        free = stock.isolated
        return (Candidate(name=_ISOLATED, cpus=free, score=f"{len(free)} free", chosen=chosen, why=why),)

    def _too_few(self, count: int, free: CpuSet) -> str:
        usable = self._chooser.usable(free)
        text = f"CPUs of its own: {count} wanted, {len(usable)} free"
        if self._options.full_pcpus_only:
            text += " in whole cores"
            if len(usable) >= count:
                text += ", which do not come to exactly so many"
        if self._options.strict_cpu_reservation:
            text += ", one of which stays for containers that share CPUs (strict-cpu-reservation)"
        return text


def _refused(why: Why, message: str, ways: tuple[Candidate, ...] = ()) -> Found:
    return Found(refusal=Refusal(why=why, message=message), reason=message, candidates=ways)
