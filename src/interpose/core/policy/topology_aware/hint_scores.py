"""How well a pool goes with what is known about the devices of a container: scores from 0 to 1 for each hint.

Fractions, not floating point: two pools that go equally well with a container are equal.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction
from math import prod
from typing import Final, NamedTuple

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.topology_aware.options import PoolLevel
from interpose.core.policy.topology_aware.pool_tree import TreePool
from interpose.core.topology.hints import TopologyHint
from interpose.core.topology.topology import Topology

_POD_RESOURCES: Final = "podresourceapi:"  # how providers begin that the kubelet knows
_WIDER: Final = Fraction(9, 10)  # the factor of each level that is wider than what a hint is about


class HintScore(NamedTuple):
    """The score of a pool for all hints together."""

    product: Fraction
    reachable: Fraction  # the product of those that are not 0; 0 if all are

    @classmethod
    def of(cls, scores: Iterable[Fraction]) -> "HintScore":
        known = list(scores)
        above = [score for score in known if score]
        return cls(prod(known, start=Fraction(1)), prod(above, start=Fraction(1)) if above else Fraction(0))


def hint_scores(topology: Topology, pools: Sequence[TreePool], hints: Sequence[TopologyHint]) -> list[HintScore]:
    """By pool: its score for these hints."""
    return [HintScore.of(_score(topology, pool, hint) for hint in hints) for pool in pools]


def hint_cpus(topology: Topology, hint: TopologyHint) -> CpuSet:
    """The CPUs that a hint is about."""
    if hint.cpus:
        return hint.cpus
    if hint.nodes:
        return CpuSet.union(cpus for node, cpus in topology.numa.items() if node in hint.nodes)
    return CpuSet.union(cpus for package, cpus in topology.packages.items() if package in hint.packages)


def pod_resource_hints(hints: Iterable[TopologyHint]) -> tuple[TopologyHint, ...]:
    """Those about devices that the kubelet has assigned."""
    return tuple(hint for hint in hints if hint.provider.startswith(_POD_RESOURCES))


def _score(topology: Topology, pool: TreePool, hint: TopologyHint) -> Fraction:
    if hint.cpus:
        return Fraction(len(hint.cpus & pool.cpus), len(hint.cpus))
    if hint.nodes:
        return _node_score(topology, pool, hint.nodes)
    return _package_score(topology, pool, hint.packages)


def _node_score(topology: Topology, pool: TreePool, nodes: CpuSet) -> Fraction:
    there = Fraction(bool(nodes & (pool.nodes | topology.nodes_of(pool.cpus))))
    if pool.level is PoolLevel.NUMA:
        return there
    return _WIDER * _WIDER if pool.level is PoolLevel.SYSTEM else _WIDER * there


def _package_score(topology: Topology, pool: TreePool, packages: CpuSet) -> Fraction:
    if pool.level is PoolLevel.SYSTEM:
        return _WIDER
    there = Fraction(bool(packages & topology.packages_of(pool.cpus)))
    if pool.level is PoolLevel.PACKAGE:
        return there
    # A part of what the hint is about: the more parts there are, the less of it is in one.
    outside = (
        pool.cpus
        if pool.level is PoolLevel.DIE
        else CpuSet.union(cpus for package, cpus in topology.packages.items() if cpus & pool.cpus)
    )
    score = there / max(1, len(topology.nodes_of(outside)))
    return _WIDER * score if pool.level is PoolLevel.L3_CACHE else score
