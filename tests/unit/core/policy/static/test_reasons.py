"""Why: sentences that say what was chosen and how, and candidates that say what else there was."""

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static.reasons import CpuChoice, candidates, exclusive_reason, shared_reason
from tests.support.policy.machines import machine

MACHINE = machine("2 sockets x 2 numa x 2 cores x 2 threads")  # cores are 0-1, 2-3, ...; nodes are 0-3, 4-7, ...
ALL = MACHINE.online


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


@pytest.mark.parametrize(
    ("milli", "qos", "said"),
    [
        (2000, KubeQos.BURSTABLE, "shares CPUs: its pod is Burstable, not Guaranteed"),
        (0, KubeQos.BEST_EFFORT, "shares CPUs: its pod is BestEffort, not Guaranteed"),
        (0, KubeQos.GUARANTEED, "shares CPUs: it asks for none"),
        (1500, KubeQos.GUARANTEED, "shares CPUs: 1500m is not a whole number of CPUs"),
    ],
)
def test_why_a_container_shares(milli: int, qos: KubeQos, said: str) -> None:
    """The first reason there is."""
    assert shared_reason(Request(key=Key("p", "a"), qos=qos, amounts=Amounts(milli=milli))) == said


@pytest.mark.parametrize(
    ("chosen", "said"),
    [
        ("1", "1 CPU of its own: a thread of package 0, NUMA node 0, where least is left over"),
        ("1,3", "2 CPUs of its own: 2 threads of package 0, NUMA node 0, where least is left over"),
        ("4-5", "2 CPUs of its own: a whole core of package 0, NUMA node 1, where least is left over"),
        (
            "2-7,9",
            "7 CPUs of its own: 3 whole cores and a thread of packages 0-1, NUMA nodes 0-2, where least is left over",
        ),
    ],
)
def test_a_choice_is_told_by_its_parts_and_places(chosen: str, said: str) -> None:
    """Whole cores, threads, packages, nodes."""
    assert exclusive_reason(CpuChoice(cpus=cpus(chosen), free=ALL), EMPTY, MACHINE) == said


@pytest.mark.parametrize(
    ("chosen", "isolated", "said"),
    [
        (CpuChoice(cpus=cpus("4-5"), free=ALL), "4-7", "isolated: the kernel runs nothing else there"),
        (CpuChoice(cpus=cpus("3-4"), free=ALL), "4-7", "some of them isolated because too few others are free"),
        (CpuChoice(cpus=cpus("4-5"), free=ALL, own=cpus("4")), "", "next to those it had"),
        (CpuChoice(cpus=cpus("4-5"), free=ALL, own=cpus("4-6")), "", "of those it had"),
        (CpuChoice(cpus=cpus("4-5"), free=ALL, own=cpus("5-6")), "", "as many as possible of those it had"),
        (CpuChoice(cpus=cpus("4-5"), free=ALL, own=cpus("9")), "", "where least is left over"),
        (CpuChoice(cpus=cpus("4-5"), free=ALL, nodes=cpus("1")), "", "as its pod says"),
        (
            CpuChoice(cpus=cpus("3-5"), free=ALL, nodes=cpus("1")),
            "",
            "as many as possible of NUMA node 1 as its pod says",
        ),
        (CpuChoice(cpus=cpus("3-5"), free=ALL, spread=True), "", "spread evenly over NUMA nodes"),
    ],
)
def test_a_choice_says_how_it_was_made(chosen: CpuChoice, isolated: str, said: str) -> None:
    """By what decided it."""
    assert exclusive_reason(chosen, cpus(isolated), MACHINE).endswith(f", {said}")


def test_candidates_are_the_nodes_best_first() -> None:
    """Those taken of, then those that have enough with the fewest left over, then the others."""
    chosen = CpuChoice(cpus=cpus("2-3"), free=cpus("1-3,4-7,8,12-14"))
    told = [
        (candidate.name, candidate.score, candidate.chosen, candidate.reason)
        for candidate in candidates(chosen, MACHINE)
    ]
    assert told == [
        ("NUMA node 0", "3 of 4 free", True, "2 of them taken"),
        ("NUMA node 3", "3 of 4 free", False, "whole cores, fuller packages and lower numbers come first"),
        ("NUMA node 1", "4 of 4 free", False, "more would be left over"),
        ("NUMA node 2", "1 of 4 free", False, "fewer than 2 are free"),
    ]
    assert candidates(chosen, MACHINE)[0].cpus == cpus("1-3")


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (CpuChoice(cpus=cpus("0-1"), free=cpus("0-11")), "nothing is free"),
        (CpuChoice(cpus=cpus("0-1"), free=ALL, own=cpus("0")), "the container has CPUs elsewhere"),
        (CpuChoice(cpus=cpus("0-1"), free=ALL, nodes=cpus("0")), "its pod names other NUMA nodes"),
        (CpuChoice(cpus=cpus("0-4"), free=ALL, nodes=cpus("0,3")), "fewer than 5 are free"),
    ],
)
def test_a_node_says_why_it_was_passed_over(chosen: CpuChoice, why: str) -> None:
    """NUMA node 3 does, here."""
    assert {candidate.name: candidate.reason for candidate in candidates(chosen, MACHINE)}["NUMA node 3"] == why
