"""Taking CPUs as the kubelet does: near ones first, whole cores only, spread or packed."""

from dataclasses import replace

import pytest

from interpose.core.cpuallocator.kubelet import NotEnoughCpusError
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.search import CpuTaker
from interpose.core.topology.topology import Topology
from tests.support.policy.machines import machine

N4C16 = "2 sockets x 2 numa x 2 cores x 2 threads"  # cores are 0-1, 2-3, ...; nodes are 0-3, 4-7, ...


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def chooser(topology: Topology | None = None, **options: bool) -> CpuTaker:
    return CpuTaker(topology or machine(N4C16), StaticOptions(**options))


def test_near_cpus_come_first() -> None:
    """All of the first set, then of the next, then any."""
    near = (cpus("8-9"), cpus("12"))
    assert chooser().take(cpus("0-15"), 2, near) == cpus("8-9")
    assert chooser().take(cpus("0-15"), 3, near) == cpus("8-9,12")
    assert cpus("8-9,12") < chooser().take(cpus("0-15"), 5, near)


def test_near_cpus_that_are_not_free_do_not_count() -> None:
    """Nor does a set that is near twice."""
    assert chooser().take(cpus("4-7"), 2, (cpus("0-5"), cpus("4-5"))) == cpus("4-5")


def test_none_is_none() -> None:
    """No CPUs of an empty set are no CPUs."""
    assert chooser().take(EMPTY, 0) == EMPTY


def test_too_few_are_not_taken() -> None:
    """Whether anything is near or not."""
    with pytest.raises(NotEnoughCpusError):
        chooser().take(cpus("0-3"), 5)
    with pytest.raises(NotEnoughCpusError):
        chooser().take(cpus("0-3"), 5, (cpus("0-1"),))


def test_full_pcpus_only_takes_cores_of_which_all_is_free() -> None:
    """CPUs near each other are no exception."""
    one = chooser(full_pcpus_only=True)
    assert one.group == 2
    assert one.usable(cpus("1-5,7")) == cpus("2-5")
    assert one.take(cpus("1-15"), 2, (cpus("5-7"),)) == cpus("6-7")
    assert one.take(cpus("1-15"), 4, (cpus("5-7"),)) > cpus("6-7")
    halves = one.take(cpus("1-15"), 4, (cpus("5,7"),))
    assert one.usable(halves) == halves
    with pytest.raises(NotEnoughCpusError):
        one.take(cpus("1,3,5,7"), 2)


def test_full_pcpus_only_does_not_split_a_core_where_cores_differ() -> None:
    """One thread of core 0-1 is offline, so that core 0 is whole with one CPU; two are still one other core."""
    whole = machine(N4C16)
    topology = replace(whole, cpus=tuple(cpu for cpu in whole.cpus if cpu.id != 1), offline=cpus("1"))
    one = chooser(topology, full_pcpus_only=True)
    assert one.usable(cpus("0,2-15")) == cpus("0,2-15")
    for count in (2, 4, 6, 8, 10, 12, 14):
        taken = one.take(cpus("0,2-15"), count)
        assert len(taken) == count
        assert one.usable(taken) == taken
        near = one.take(cpus("0,2-15"), count, (cpus("0-3"),))
        assert one.usable(near) == near


@pytest.mark.parametrize("spread", [False, True])
def test_full_pcpus_only_finds_whole_cores_that_add_up(spread: bool) -> None:
    """The kubelet's multiple is threads on average, rounded down; cores of two sizes come to every number they can."""
    one = chooser(
        machine("1 sockets x 4 cores x 2 threads; offline 1,3"),
        full_pcpus_only=True,
        distribute_cpus_across_numa=spread,
    )
    assert one.group == 1
    free = cpus("0,2,4-7")
    for count in range(1, 7):
        taken = one.take(free, count)
        assert len(taken) == count
        assert one.usable(taken) == taken
    assert one.take(free, 3, (cpus("6-7"),)) > cpus("6-7")
    assert one.take(cpus("0,4-7"), 3) in (cpus("0,4-5"), cpus("0,6-7"))
    for free, count in ((cpus("4-7"), 1), (cpus("4-7"), 3), (cpus("0,4-7"), 6)):
        with pytest.raises(NotEnoughCpusError):
            one.take(free, count)


def test_a_machine_without_cpus_has_a_multiple_too() -> None:
    """Nothing can be taken of it."""
    assert chooser(Topology(cpus=(), nodes=()), full_pcpus_only=True).group == 1


def test_what_is_around_nodes() -> None:
    """Their CPUs, or those of their packages; a node without CPUs has none."""
    assert chooser().around(cpus("1,3")) == cpus("4-7,12-15")
    assert chooser(align_by_socket=True).around(cpus("1")) == cpus("0-7")
    assert chooser().around(cpus("9")) == EMPTY


def test_parts_are_the_largest_first() -> None:
    """The lower node first if two have as many."""
    assert chooser().parts(cpus("1,4-5,8-9")) == (cpus("4-5"), cpus("8-9"), cpus("1"))
    assert chooser().parts(EMPTY) == ()


def test_options_choose_how_cpus_are_taken() -> None:
    """Packed, over cores, over NUMA nodes, over those of one package, by last level cache."""
    free = cpus("0-15")
    assert chooser().take(free, 2) == cpus("0-1")
    assert chooser(distribute_cpus_across_cores=True).take(cpus("0,2-7"), 2) == cpus("0,2")
    assert chooser(distribute_cpus_across_numa=True).take(free, 6) == cpus("0-2,4-6")
    assert chooser(distribute_cpus_across_numa=True, full_pcpus_only=True).take(free, 6) == cpus("0-3,4-5")
    caches = machine("1 socket x 4 cores x 2 threads; l3 2 cores")
    assert chooser(caches, prefer_align_cpus_by_uncorecache=True).take(cpus("1-7"), 4) == cpus("4-7")
