"""Laws of taking CPUs: as many as wanted, of those available, always the same ones, in as few places as possible."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations

from hypothesis import assume, given
from hypothesis import strategies as st

from interpose.core.cpuallocator.allocator import take
from interpose.core.cpuallocator.kubelet import take_distributed, take_packed
from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.topology.topology import Topology
from tests.support.policy.machines import machine

# All groups of a kind are alike here, so that one group holds what another holds.
EVEN = (
    "n4c16",
    "smt8",
    "chiplets",
    "2 sockets x 2 numa x 4 cores x 2 threads; interleaved; l3 2 cores",
    "4 sockets x 2 numa x 4 cores",
    "3 sockets x 2 dies x 2 cores x 4 threads",
)
ODD = (
    "hybrid",
    "1 socket x 6 cores x 2 threads; efficiency 8-11",
    "2 sockets x 2 numa x 3 cores x 2 threads; interleaved; offline 0,7,13",
    "2 sockets x 4 cores x 2 threads; l3 2 cores; offline 3,9; isolated 4-5",
)
MACHINES = {text: machine(text) for text in EVEN + ODD}


@st.composite
def wanted(draw: st.DrawFn, machines: tuple[str, ...] = EVEN + ODD) -> tuple[Topology, CpuSet, int]:
    """A machine, what is free of it (whole groups more often than chance has it), and how many are wanted."""
    topology = MACHINES[draw(st.sampled_from(machines))]
    groups = [*topology.numa.values(), *topology.cores.values(), *(CpuSet.of([cpu]) for cpu in topology.online)]
    gone = draw(st.lists(st.sampled_from(groups), max_size=14))
    available = topology.online - CpuSet.union(gone)
    assume(available)
    return topology, available, draw(st.integers(1, len(available)))


def parts(groups: Mapping[int, CpuSet], cpus: CpuSet) -> list[CpuSet]:
    """The groups these CPUs are in."""
    return [group for group in groups.values() if group & cpus]


def fewest(groups: Mapping[int, CpuSet], available: CpuSet, count: int) -> int:
    """How many groups are needed at least."""
    sizes = sorted((len(group & available) for group in groups.values()), reverse=True)
    return next(number for number in range(1, len(sizes) + 1) if sum(sizes[:number]) >= count)


@given(wanted(), st.sampled_from(CpuPriority), st.data())
def test_as_many_as_wanted_of_those_available(
    case: tuple[Topology, CpuSet, int], prefer: CpuPriority, data: st.DataObject
) -> None:
    """And the same ones the next time, on a machine that nobody asked before, from a set made another way."""
    topology, available, count = case
    keep = CpuSet.of(data.draw(st.sets(st.sampled_from(sorted(topology.online)), max_size=6)))
    result = take(topology, available, count, keep=keep, prefer=prefer)
    assert len(result.cpus) == count
    assert result.cpus <= available
    fresh = replace(topology)
    shuffled = CpuSet.of(data.draw(st.permutations(list(available))))
    assert take(fresh, shuffled, count, keep=keep, prefer=prefer) == result


@given(wanted(), st.data())
def test_what_is_held_is_kept(case: tuple[Topology, CpuSet, int], data: st.DataObject) -> None:
    """All of it, or nothing else."""
    topology, available, count = case
    keep = CpuSet.of(data.draw(st.sets(st.sampled_from(sorted(available)))))
    result = take(topology, available, count, keep=keep).cpus
    assert keep <= result if len(keep) <= count else result <= keep


@given(wanted(), st.sampled_from(CpuPriority))
def test_everything_is_everything(case: tuple[Topology, CpuSet, int], prefer: CpuPriority) -> None:
    """There is nothing to choose."""
    topology, available, _ = case
    assert take(topology, available, len(available), prefer=prefer).cpus == available


@given(wanted(), st.sampled_from(CpuPriority))
def test_the_fewest_packages_and_in_these_the_fewest_nodes(
    case: tuple[Topology, CpuSet, int], prefer: CpuPriority
) -> None:
    """No other choice of that many packages needs fewer nodes. Priorities do not change that."""
    topology, available, count = case
    result = take(topology, available, count, prefer=prefer).cpus
    packages = fewest(topology.packages, available, count)
    assert len(parts(topology.packages, result)) == packages
    nodes = min(
        fewest(topology.numa, available & CpuSet.union(chosen), count)
        for chosen in combinations(topology.packages.values(), packages)
        if len(available & CpuSet.union(chosen)) >= count
    )
    assert len(parts(topology.numa, result)) == nodes


@given(wanted(EVEN), st.sampled_from(["l3_groups", "numa", "packages", "cores"]))
def test_an_idle_group_of_just_the_size_is_taken_whole(case: tuple[Topology, CpuSet, int], kind: str) -> None:
    """One cache, one node, one package."""
    topology, available, _ = case
    groups: Mapping[int, CpuSet] = getattr(topology, kind)
    idle = [group for group in groups.values() if group <= available]
    assume(idle)
    assert take(topology, available, len(idle[0])).cpus in idle


@given(wanted(EVEN))
def test_no_core_is_split_without_need(case: tuple[Topology, CpuSet, int]) -> None:
    """If there are enough whole cores in the caches that are used, whole cores are taken."""
    topology, available, count = case
    count -= count % topology.threads_per_core
    assume(count)
    result = take(topology, available, count).cpus
    # Where a cache is wider than a node, the nodes that are used.
    near = CpuSet.union(parts(topology.l3_groups, result)) & CpuSet.union(parts(topology.numa, result)) & available
    whole = [core for core in topology.cores.values() if core <= near]
    if len(whole) * topology.threads_per_core >= count:
        assert topology.with_siblings(result) == result


@given(wanted(), st.integers(1, 3), st.booleans())
def test_the_kubelets_ways_take_as_many_as_wanted(case: tuple[Topology, CpuSet, int], group: int, switch: bool) -> None:
    """Of those available, whatever the options are, and the same ones again."""
    topology, available, count = case
    ways = [
        take_packed(topology, available, count, by_uncore=switch),
        take_packed(topology, available, count, spread_cores=switch),
        take_distributed(topology, available, count, group=group, by_socket=switch),
    ]
    assert all(len(taken) == count and taken <= available for taken in ways)
    assert take_packed(replace(topology), available, count, by_uncore=switch) == ways[0]
    assert take_packed(topology, available, len(available)) == available
    assert take_packed(topology, available, 0) == EMPTY
