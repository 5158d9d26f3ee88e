"""Machines as lists of groups of nodes."""

import json

import pytest

from interpose.config.documents.fields import Report
from interpose.config.documents.topology import read_groups
from interpose.config.documents.yaml import parse_document
from interpose.core.topology.topology import MemoryKind, Topology
from interpose.errors import ConfigError

GIB = 1 << 30


def read(*groups: object) -> Topology:
    """The machine."""
    report = Report("x")
    found = read_groups(parse_document(json.dumps(groups), "x"), report)
    report.settle()
    assert found is not None
    return found


def problems(*groups: object) -> list[str]:
    """What is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        read(*groups)
    return [problem.removeprefix("x line 1: ") for problem in caught.value.problems]


def test_the_usual_machine_of_sixteen_cpus() -> None:
    """Two threads per core if nothing is said, next to each other."""
    found = read({"mem": "2G", "cores": 2, "nodes": 2, "packages": 2})
    assert [str(cpus) for cpus in found.numa.values()] == ["0-3", "4-7", "8-11", "12-15"]
    assert [str(cpus) for cpus in found.packages.values()] == ["0-7", "8-15"]
    assert str(found.core_of(3)) == "2-3"
    assert {node.memory_bytes for node in found.nodes} == {2 * GIB}
    assert list(found.nodes[0].distances.values()) == [10, 11, 21, 21]


def test_a_group_without_cores_is_memory() -> None:
    """It adds no package; distances of a group hold in both directions."""
    found = read(
        {"mem": "1G", "cores": 1, "packages": 2, "threads": 1},
        {"nvmem": "8G", "node-dist": {"0": 17, "2": 99}},
        {"mem": 1024},
    )
    assert (len(found.cpus), len(found.packages)) == (2, 2)
    assert [(node.memory, node.memory_bytes) for node in found.nodes] == [
        (MemoryKind.DRAM, GIB),
        (MemoryKind.DRAM, GIB),
        (MemoryKind.PMEM, 8 * GIB),
        (MemoryKind.DRAM, 1024),
    ]
    assert list(found.nodes[2].distances.values()) == [17, 21, 10, 21]
    assert found.nodes[0].distances[2] == 17


def test_persistent_memory_beside_ordinary_is_a_node_of_its_own() -> None:
    """Behind all others, so that their numbers stay; near to its own node only."""
    found = read({"mem": "4G", "nvmem": "8G", "cores": 1, "nodes": 2}, {"cores": 1, "mem": "1g"})
    assert [(node.id, str(node.cpus), node.memory) for node in found.nodes] == [
        (0, "0-1", MemoryKind.DRAM),
        (1, "2-3", MemoryKind.DRAM),
        (2, "4-5", MemoryKind.DRAM),
        (3, "", MemoryKind.PMEM),
        (4, "", MemoryKind.PMEM),
    ]
    assert list(found.nodes[3].distances.values()) == [17, 28, 28, 10, 28]
    assert list(found.nodes[1].distances.values()) == [11, 10, 21, 28, 17]


def test_memory_that_is_not_plugged_in_is_not_there() -> None:
    """Neither kind."""
    found = read({"mem": "4G", "nvmem": "8G", "dimm": "unplugged", "cores": 1}, {"mem": "4G", "dimm": "plugged"})
    assert [(node.memory, node.memory_bytes) for node in found.nodes] == [
        (MemoryKind.NONE, 0),
        (MemoryKind.DRAM, 4 * GIB),
    ]


def test_distances_of_a_kind_hold_for_all_groups() -> None:
    """Whichever of them has the key."""
    found = read(
        {"cores": 1, "dies": 2, "nodes": 2, "dist-other-package": 50},
        {"cores": 1, "dist-same-die": 12, "dist-same-package": 13},
    )
    assert list(found.nodes[0].distances.values()) == [10, 12, 13, 13, 50]


def test_all_distances_may_be_given() -> None:
    """Row by row, not the same in both directions."""
    found = read({"cores": 1, "nodes": 2, "dist-all": [[10, 5], [7, 10]]})
    assert [list(node.distances.values()) for node in found.nodes] == [[10, 5], [7, 10]]


@pytest.mark.parametrize("matrix", [[[10]], [[10, 20], [10]]])
def test_distances_must_be_of_all_nodes(matrix: list[list[int]]) -> None:
    """As many rows and columns as there are nodes."""
    assert problems({"cores": 1, "nodes": 2, "dist-all": matrix}) == [
        "dist-all: expected 2 rows of 2 distances, one for each node"
    ]


def test_all_problems_are_found_at_once() -> None:
    """In every group."""
    found = problems(
        {"cores": -1, "mem": "4 apples", "core": 2},
        {"nvmem": [], "node-dist": {"a": 1, "0": 300, "1": 5, "01": 5}},
        {"node-dist": 3, "dimm": "lost"},
    )
    assert found == [
        "[0].cores: expected a number from 0 to 8192, found '-1'",
        "[0].mem: expected an amount of memory such as 4G, found '4 apples'",
        "[0].core: is not a known key, did you mean cores?",
        "[1].nvmem: expected an amount of memory such as 4G, found a list",
        "[1].node-dist['a']: expected the number of a node",
        "[1].node-dist['0']: expected a number from 0 to 255, found '300'",
        "[1].node-dist['01']: is given twice",
        "[2].node-dist: expected distances by node, found a number ('3')",
        "[2].dimm: expected plugged or unplugged, found 'lost'",
    ]


def test_a_machine_larger_than_any_is_refused_before_it_is_made() -> None:
    """With its size."""
    assert problems({"cores": 8192, "packages": 8192}) == [
        f"a machine has from 1 to 8192 CPUs, this one has {2 * 8192**2}"
    ]
