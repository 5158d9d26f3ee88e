"""The kubelet's own tables, and what they do not have."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from interpose.core.cpuallocator.bitmask import lowest_index
from interpose.core.cpuallocator.kubelet import FreeCpus, NotEnoughCpusError, take_distributed, take_packed
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.topology.topology import Topology
from tests.support.policy.machines import machine, oracle_topology

DATA = Path(__file__).resolve().parents[3] / "data" / "cpumanager-oracle.json"
ORACLE = json.loads(DATA.read_text())
MACHINES: Mapping[str, Topology] = {
    name: oracle_topology(table["cpus"], name) for name, table in ORACLE["topologies"].items()
}


def cases(kind: str) -> list[Any]:
    """The rows of a table."""
    return [
        pytest.param(case, id=f"{number}-{case['topo']}-{case['desc']}")
        for number, case in enumerate(ORACLE["cases"][kind])
    ]


@pytest.mark.parametrize("case", cases("take_packed"))
def test_packed_as_the_kubelet_does(case: Mapping[str, Any]) -> None:
    """The result is the same, CPU by CPU."""
    options = {name for name, value in case["opts"].items() if value == "true"}
    taken = take_packed(
        MACHINES[case["topo"]],
        CpuSet.of(case["avail"]),
        case["n"],
        by_uncore="PreferAlignByUncoreCacheOption" in options,
        spread_cores="DistributeCPUsAcrossCores" in options,
    )
    assert list(taken) == case["result"]
    assert not case["err"]


@pytest.mark.parametrize("case", cases("take_distributed"))
def test_distributed_as_the_kubelet_does(case: Mapping[str, Any]) -> None:
    """CPU by CPU, and word by word."""
    said, taken = "", EMPTY
    try:
        taken = take_distributed(MACHINES[case["topo"]], CpuSet.of(case["avail"]), case["n"], group=case["group"])
    except NotEnoughCpusError as error:
        said = str(error)
    assert (list(taken), said) == (case["result"], case["err"])


@pytest.mark.parametrize("case", cases("free"))
def test_the_order_is_the_kubelets(case: Mapping[str, Any]) -> None:
    """Of what is completely free. Their test of sockets sorts them, so that row is sorted here too."""
    free = FreeCpus(MACHINES[case["topo"]], CpuSet.of(case["avail"]))
    if case["kind"] == "cpus":
        found = [lowest_index(cpu) for cpu in free.cpus()]
    else:
        groups = {"sockets": free.packages, "numa": free.nodes, "cores": free.cores}[case["kind"]]()
        found = [group.id for group in groups if free.is_idle(group)]
    assert (sorted(found) if case["kind"] == "sockets" else found) == case["expect"]


@pytest.mark.parametrize(
    ("name", "available", "count", "expected"),
    [
        ("topoSingleSocketHT", "1,3,5,6,7", 1, "6"),  # a core in use first
        ("topoSingleSocketHT", "0-3,6", 2, "2,6"),  # the only idle core
        ("topoDualSocketHT", "0-11", 8, "0-2,4,6-8,10"),
        ("topoDualSocketMultiNumaPerSocketHT", "1-39,41-79", 60, "10-39,50-79"),
        ("topoDualSocketMultiNumaPerSocketHT", "0-79", 64, "0-31,40-71"),
    ],
)
def test_packing(name: str, available: str, count: int, expected: str) -> None:
    """Rows that are easy to follow."""
    assert take_packed(MACHINES[name], CpuSet.parse(available), count) == CpuSet.parse(expected)


def test_too_many_are_refused() -> None:
    """With the kubelet's words; CPUs that are offline or unknown do not count."""
    topology = machine("1 socket x 4 cores; offline 2")
    for take in (take_packed, take_distributed):
        with pytest.raises(
            NotEnoughCpusError, match=r"^not enough cpus available to satisfy request: requested=4, available=3$"
        ):
            take(topology, CpuSet.parse("0-9"), 4)
        assert take(topology, CpuSet.parse("0-9"), 3) == CpuSet.parse("0,1,3")
        assert take(topology, EMPTY, 0) == EMPTY


def test_cores_of_unequal_size_are_idle_if_all_of_them_is_free() -> None:
    """Kubelets compare with the average, and then take CPUs that others have."""
    topology = machine("1 socket x 4 cores x 2 threads; offline 1")
    assert take_packed(topology, CpuSet.parse("0,3-7"), 2) == CpuSet.parse("0,3")
    assert take_packed(topology, CpuSet.parse("2-7"), 2) == CpuSet.parse("2,3")


def test_a_cache_is_filled_before_the_next_is_opened() -> None:
    """Whole caches, then the first one that alone has the rest; if none has, cores as ever."""
    topology = machine("1 socket x 8 cores; l3 4 cores")
    assert take_packed(topology, CpuSet.parse("1-7"), 4, by_uncore=True) == CpuSet.parse("4-7")
    assert take_packed(topology, CpuSet.parse("2-7"), 3, by_uncore=True) == CpuSet.parse("4-6")
    assert take_packed(topology, CpuSet.parse("2-6"), 4, by_uncore=True) == CpuSet.parse("2-5")


def test_an_odd_request_leaves_the_last_thread_of_a_cache() -> None:
    """The lowest cores of the cache, without the one thread too many."""
    topology = machine("chiplets")
    assert take_packed(topology, topology.online, 3, by_uncore=True) == CpuSet.parse("0-1,32")
    assert take_packed(topology, topology.online, 1, by_uncore=True) == CpuSet.parse("0")


def test_without_caches_packages_count() -> None:
    """The kubelet does the same on such machines."""
    topology = oracle_topology({str(cpu): (cpu, cpu // 4, cpu // 4, 0) for cpu in range(8)})
    assert take_packed(topology, CpuSet.parse("2-7"), 3, by_uncore=True) == CpuSet.parse("2-4")
    plain = Topology(
        cpus=tuple(type(cpu)(id=cpu.id, package=cpu.package, node=cpu.node, core=cpu.core) for cpu in topology.cpus),
        nodes=topology.nodes,
    )
    assert take_packed(plain, CpuSet.parse("2-7"), 3, by_uncore=True) == CpuSet.parse("4-6")


def test_a_core_in_two_packages_is_taken_once() -> None:
    """There is no such machine, but there are such tables."""
    topology = oracle_topology({str(cpu): (cpu % 4, cpu // 4, cpu // 4, 0) for cpu in range(8)})
    assert take_packed(topology, CpuSet.parse("0-2,4-6"), 5) == CpuSet.parse("0-2,4-5")


def test_rather_from_one_socket() -> None:
    """Although the nodes of two sockets are more even."""
    topology = machine("2 sockets x 2 numa x 4 cores")
    available = topology.online - CpuSet.parse("4-5,12-13")
    assert take_distributed(topology, available, 6) == CpuSet.parse("0-2,8-10")
    assert take_distributed(topology, available, 6, by_socket=True) == CpuSet.parse("0-3,6-7")


def test_the_rest_comes_in_turns() -> None:
    """A node that has no group left is passed over."""
    topology = machine("1 socket x 3 numa x 8 cores")
    available = CpuSet.parse("0-1,8-10,16-23")
    assert take_distributed(topology, available, 12, by_socket=True) == CpuSet.parse("0-1,8-10,16-22")


def test_what_cannot_be_spread_is_packed() -> None:
    """No multiple of the group, or no nodes with enough."""
    topology = machine("2 sockets x 4 cores")
    assert take_distributed(topology, topology.online, 3, group=2) == CpuSet.parse("0-2")
    assert take_distributed(topology, CpuSet.parse("0-3,4"), 5) == CpuSet.parse("0-4")
