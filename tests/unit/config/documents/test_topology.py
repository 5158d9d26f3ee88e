"""Documents about machines, in our form."""

import json
from dataclasses import replace
from typing import Any

import pytest

from interpose.config.documents.topology import read_topology_document
from interpose.config.documents.yaml import parse_document
from interpose.core.model.cpuset import EMPTY
from interpose.core.topology.document import topology_document
from interpose.core.topology.topology import MemoryKind, Topology
from interpose.errors import ConfigError
from tests.support.policy.machines import COPIES, NAMED, machine

SMALL: dict[str, Any] = {"kind": "Topology", "cpus": [{"id": 0}, {"id": 1}], "nodes": [{"id": 0}]}


def read(text: str) -> Topology:
    """A document in YAML or JSON."""
    return read_topology_document(parse_document(text, "file m.yaml"), "file m.yaml")


def problems(document: object) -> list[str]:
    """What is wrong with it."""
    with pytest.raises(ConfigError) as caught:
        read(json.dumps(document))
    return [problem.removeprefix("file m.yaml line 1: ") for problem in caught.value.problems]


@pytest.mark.parametrize("name", [*COPIES, *NAMED, "2p2d3c2t; offline 3,8; isolated 5; l3 2 cores; efficiency 0-3"])
def test_what_is_written_is_read_back(name: str) -> None:
    """Every machine, to the last field, and with the order of everything."""
    topology = machine(name)
    found = read(json.dumps(topology_document(topology)))
    assert found == topology
    assert topology_document(found) == topology_document(topology)


def test_a_person_may_leave_out_what_is_ordinary() -> None:
    """Every CPU is a core then, memory that has a size is ordinary, and distances are what kernels assume."""
    found = read(
        """
        kind: Topology
        cpus: [{id: 1, node: 8}, {id: 0}]
        nodes: [{id: 8}, {id: 0, memoryBytes: 1024, distances: {8: 15}}]
        isolated: 1
        caches: [{level: 3, cpus: 0-1}]
        """
    )
    assert [(cpu.id, cpu.node, cpu.core) for cpu in found.cpus] == [(0, 0, 0), (1, 8, 1)]
    assert [(node.id, str(node.cpus), node.memory, dict(node.distances)) for node in found.nodes] == [
        (0, "0", MemoryKind.DRAM, {0: 10, 8: 15}),
        (8, "1", MemoryKind.NONE, {0: 20, 8: 10}),
    ]
    assert (str(found.isolated), found.caches[0].kind, found.caches[0].size_bytes) == ("1", "unified", 0)


def test_movable_memory_comes_back() -> None:
    """It is in the document only where it is so."""
    laptop = machine("laptop")
    topology = replace(laptop, nodes=(*laptop.nodes, replace(laptop.nodes[0], id=1, cpus=EMPTY, movable=True)))
    topology = replace(topology, nodes=tuple(replace(node, distances={0: 10, 1: 20}) for node in topology.nodes))
    document = topology_document(topology)
    assert ["movable" in node for node in document["nodes"]] == [False, True]
    assert read(json.dumps(document)) == topology


def test_all_problems_of_values_are_found_at_once() -> None:
    """Each with its line and key."""
    with pytest.raises(ConfigError) as caught:
        read(
            "kind: Machine\ncpus:\n- {id: -1}\n- {core: 3}\nnodes: [{id: 0, distances: {x: 1}}]\noffline: 3-\nsize: 3\n"
        )
    assert caught.value.problems == [
        "file m.yaml line 1: kind: expected Topology, found 'Machine'",
        "file m.yaml line 3: cpus[0].id: expected a number from 0 to 8191, found '-1'",
        "file m.yaml line 4: cpus[1].id: is missing",
        "file m.yaml line 5: nodes[0].distances['x']: expected the number of a node",
        "file m.yaml line 6: offline: '3-' is not a list of CPUs: '3-' is neither a number nor a range",
        "file m.yaml line 7: size: is not a known key",
    ]


def test_all_that_does_not_fit_together_is_found_at_once() -> None:
    """CPUs, nodes and caches that contradict each other."""
    document = {
        "kind": "Topology",
        "cpus": [{"id": 0}, {"id": 1, "core": 0, "node": 7}, {"id": 1, "l3": 0}, {"id": 3, "core": 4, "l2": 1}],
        "nodes": [{"id": 0, "distances": {"5": 10}}, {"id": 0}],
        "caches": [{"level": 1, "cpus": "0,9"}],
        "offline": "0",
        "isolated": "2",
    }
    assert problems(document) == [
        "cpus[1]: node 7 is not among the nodes",
        "cpus[2]: id 1 is given twice",
        "cpus[2]: l3 0 is not the lowest CPU of those with the same l3",
        "cpus[3]: core 4 is not the lowest CPU of those with the same core",
        "cpus[3]: l2 1 is not the lowest CPU of those with the same l2",
        "nodes[0]: distances: node 5 is not among the nodes",
        "nodes[1]: id 0 is given twice",
        "caches[0]: CPUs 9 are not among the cpus",
        "offline: CPUs 0 are among the cpus, which are online",
        "isolated: CPUs 2 are not among the cpus",
    ]


def test_a_core_named_by_a_higher_cpu_is_refused() -> None:
    """The name is the lowest one."""
    assert problems(SMALL | {"cpus": [{"id": 0, "core": 1}, {"id": 1, "core": 1}]}) == [
        "cpus[0]: core 1 is not the lowest CPU of those with the same core"
    ]


def test_a_machine_has_a_cpu() -> None:
    """At least one."""
    assert problems(SMALL | {"cpus": []}) == ["cpus: there must be one at least"]


def test_a_list_that_is_neither_text_nor_a_number_is_refused() -> None:
    """CPUs are not a list of the document."""
    assert problems(SMALL | {"isolated": [1]}) == ["isolated: expected a list of CPUs such as 0-3,8, found a list"]


def test_text_is_no_document() -> None:
    """Neither our form nor a list."""
    assert problems("2 sockets") == ["expected a group of keys, found text ('2 sockets')"]


def test_the_list_of_groups_is_read_as_well() -> None:
    """It begins with a bracket."""
    assert len(read('[{"cores": 2, "packages": 2}]').cpus) == 8
    assert problems([{"cores": 0}]) == ["a machine has from 1 to 8192 CPUs, this one has 0"]
