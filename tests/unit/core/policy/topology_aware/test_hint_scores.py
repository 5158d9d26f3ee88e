"""How well pools go with devices: CPUs, NUMA nodes and packages."""

from fractions import Fraction

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.topology_aware.hint_scores import (
    HintScore,
    hint_cpus,
    hint_scores,
    pod_resource_hints,
)
from interpose.core.policy.topology_aware.pool_tree import PoolTree
from interpose.core.topology.hints import TopologyHint
from tests.support.policy.machines import machine


def scores(name: str, *hints: TopologyHint) -> dict[str, Fraction]:
    """By the name of a pool."""
    topology = machine(name)
    tree = PoolTree.of(topology, topology.online)
    found = hint_scores(topology, tree.pools, hints)
    return {pool.name: found[pool.id].product for pool in tree.pools}


def hint(**parts: str) -> TopologyHint:
    """Of a device."""
    return TopologyHint(provider="device", **{name: CpuSet.parse(text) for name, text in parts.items()})


def test_a_hint_about_cpus_counts_those_in_the_pool() -> None:
    """Of a die only its own, not those of its whole package."""
    found = scores("1 socket x 2 dies x 2 numa x 2 cores", hint(cpus="0-3"))
    assert found == {
        "NUMA node #0": Fraction(1, 2),
        "NUMA node #1": Fraction(1, 2),
        "die #0/0": 1,
        "NUMA node #2": 0,
        "NUMA node #3": 0,
        "die #0/1": 0,
        "socket #0": 1,
    }


def test_a_hint_about_nodes_prefers_the_narrowest_pool() -> None:
    """Nine tenths of that for the sockets, less for the machine."""
    found = scores("n4c16", hint(nodes="1"))
    assert found["NUMA node #1"] == 1
    assert found["NUMA node #0"] == found["socket #1"] == 0
    assert found["socket #0"] == Fraction(9, 10)
    assert found["root"] == Fraction(81, 100)


def test_a_hint_about_memory_without_cpus_is_for_the_nodes_beside_it() -> None:
    """Node 2 has persistent memory beside node 0, which is socket 0."""
    found = scores("c4pmem4", hint(nodes="2"))
    assert (found["socket #0"], found["socket #1"]) == (Fraction(9, 10), Fraction(0))


def test_a_hint_about_packages_prefers_the_socket() -> None:
    """Its nodes have a part of it each."""
    found = scores("n4c16", hint(packages="1"))
    assert found["socket #1"] == 1
    assert found["socket #0"] == found["NUMA node #1"] == 0
    assert found["root"] == Fraction(9, 10)
    assert found["NUMA node #2"] == Fraction(1, 2)


def test_dies_and_caches_have_a_part_of_their_package() -> None:
    """A die as many as it has nodes; a cache nine tenths of what the pool around it would have."""
    dies = scores("1 socket x 2 dies x 2 numa x 2 cores", hint(packages="0"))
    assert (dies["die #0/0"], dies["NUMA node #0"]) == (Fraction(1, 2), Fraction(1, 4))
    caches = scores("2 sockets x 8 cores; l3 4 cores", hint(packages="0"))
    assert caches["socket #0/L3 cache #0"] == Fraction(9, 10)
    assert caches["socket #1/L3 cache #2"] == 0


def test_several_hints_are_multiplied() -> None:
    """Where one of them does not fit at all, the others still count."""
    both = (Fraction(1, 2), Fraction(0))
    assert HintScore.of(both) == HintScore(Fraction(0), Fraction(1, 2))
    assert HintScore.of((Fraction(1, 2), Fraction(1, 3))) == HintScore(Fraction(1, 6), Fraction(1, 6))
    assert HintScore.of((Fraction(0),)) == HintScore(Fraction(0), Fraction(0))


@pytest.mark.parametrize(
    ("given", "expected"),
    [(hint(cpus="3-4", nodes="2"), "3-4"), (hint(nodes="1"), "4-7"), (hint(packages="1"), "8-15")],
)
def test_the_cpus_that_a_hint_is_about(given: TopologyHint, expected: str) -> None:
    """The narrowest that it says."""
    assert str(hint_cpus(machine("n4c16"), given)) == expected


def test_hints_of_the_kubelet_are_known_by_their_provider() -> None:
    """Those about devices that it has assigned."""
    known = TopologyHint(provider="podresourceapi:vendor/gpu")
    assert pod_resource_hints((known, hint(cpus="1"))) == (known,)
