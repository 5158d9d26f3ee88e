"""Why a container of the policy `static` has these CPUs: the candidates, and one sentence."""

from dataclasses import dataclass

from interpose.core.cpuallocator.cost import Candidate
from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.request import Request
from interpose.core.topology.topology import Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuChoice:
    """The CPUs chosen for a container, and what they were chosen of."""

    cpus: CpuSet
    free: CpuSet  # what it was chosen of; the CPUs the container had are in it
    own: CpuSet = EMPTY  # what it had before
    nodes: CpuSet | None = None  # NUMA nodes its pod names
    spread: bool = False  # over NUMA nodes on purpose


def shared_reason(request: Request) -> str:
    """Why a container has no CPUs of its own."""
    if request.pod_amounts is not None:
        return f"shares CPUs: its pod asks for {request.pod_amounts.milli}m as a whole"
    if request.qos is not KubeQos.GUARANTEED:
        return f"shares CPUs: its pod is {request.qos}, not Guaranteed"
    if not request.milli:
        return "shares CPUs: it asks for none"
    return f"shares CPUs: {request.milli}m is not a whole number of CPUs"


def exclusive_reason(chosen: CpuChoice, isolated: CpuSet, topology: Topology) -> str:
    """Why a container has these CPUs of its own."""
    cpus = chosen.cpus
    places = f"{_numbered('package', topology.packages_of(cpus))}, {_numbered('NUMA node', topology.nodes_of(cpus))}"
    return (
        f"{_counted(len(cpus), 'CPU', 'CPUs')} of its own: {_shape(cpus, topology)} of {places}, "
        f"{_explain_choice(chosen, isolated, topology)}"
    )


def candidates(chosen: CpuChoice, topology: Topology) -> tuple[Candidate, ...]:
    """The NUMA nodes: those that CPUs were taken of, then those that would have had enough, then the others."""
    count = len(chosen.cpus)
    most = max((len(chosen.free & cpus) for cpus in topology.numa.values() if chosen.cpus & cpus), default=0)
    ranked = []
    for node, cpus in topology.numa.items():
        free, taken = len(chosen.free & cpus), len(chosen.cpus & cpus)
        candidate = Candidate(
            name=f"NUMA node {node}",
            cpus=chosen.free & cpus,
            score=f"{free} of {len(cpus)} free",
            chosen=taken > 0,
            reason=f"{taken} of them taken" if taken else _explain_skipped(node, free, count, most, chosen),
        )
        fits = free >= count
        ranked.append(((-taken, not fits, free if fits else -free, node), candidate))
    return tuple(candidate for _, candidate in sorted(ranked, key=lambda pair: pair[0]))


def _explain_skipped(node: int, free: int, count: int, most: int, chosen: CpuChoice) -> str:
    if not free:
        return "nothing is free"
    if chosen.own:
        return "the container has CPUs elsewhere"
    if chosen.nodes is not None and node not in chosen.nodes:
        return "its pod names other NUMA nodes"
    if free < count:
        return f"fewer than {count} are free"
    if free > most:
        return "more would be left over"
    return "whole cores, fuller packages and lower numbers come first"


def _explain_choice(chosen: CpuChoice, isolated: CpuSet, topology: Topology) -> str:
    cpus = chosen.cpus
    if cpus <= isolated:
        return "isolated: the kernel runs nothing else there"
    if cpus & isolated:
        return "some of them isolated because too few others are free"
    if chosen.own & cpus:
        return _explain_kept(chosen.own, cpus)
    if chosen.nodes is not None:
        met = topology.nodes_of(cpus) <= chosen.nodes
        return "as its pod says" if met else f"as many as possible of NUMA node {chosen.nodes} as its pod says"
    return "spread evenly over NUMA nodes" if chosen.spread else "where least is left over"


def _explain_kept(own: CpuSet, cpus: CpuSet) -> str:
    if own <= cpus:
        return "next to those it had"
    return "of those it had" if cpus <= own else "as many as possible of those it had"


def _shape(cpus: CpuSet, topology: Topology) -> str:
    """What of the machine a set of CPUs is."""
    cores = [core for core in {topology.by_id[cpu].core for cpu in cpus} if topology.cores[core] <= cpus]
    rest = len(cpus) - sum(len(topology.cores[core]) for core in cores)
    shape = [_counted(len(cores), "a whole core", "whole cores")] if cores else []
    if rest:
        shape.append(_counted(rest, "a thread", "threads"))
    return " and ".join(shape)


def _counted(number: int, singular: str, plural: str) -> str:
    if number == 1:
        return singular if singular.startswith("a ") else f"1 {singular}"
    return f"{number} {plural}"


def _numbered(noun: str, ids: CpuSet) -> str:
    return f"{noun} {ids}" if len(ids) == 1 else f"{noun}s {ids}"
