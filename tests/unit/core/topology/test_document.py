"""Topologies as documents."""

import json

from interpose.core.topology.document import topology_document
from interpose.core.topology.topology import Topology
from tests.support.policy.machines import machine


def test_the_document_of_a_small_machine() -> None:
    """Word for word; what is unknown or ordinary is left out."""
    found = topology_document(machine("2 cores; efficiency 1; offline 0; memory 1Gi"))
    assert found == {
        "apiVersion": "interpose/v1",
        "kind": "Topology",
        "name": "2 cores; efficiency 1; offline 0; memory 1Gi",
        "cpus": [
            {"id": 1, "package": 0, "die": 0, "node": 0, "core": 1, "l2": 1, "l3": 1, "kind": "efficiency"},
        ],
        "nodes": [{"id": 0, "memoryBytes": 1 << 30, "memory": "dram", "distances": {"0": 10}}],
        "caches": [
            {"level": 2, "kind": "unified", "sizeBytes": 0, "cpus": "1"},
            {"level": 3, "kind": "unified", "sizeBytes": 0, "cpus": "1"},
        ],
        "offline": "0",
        "isolated": "",
    }


def test_frequencies_are_in_the_document() -> None:
    """Where they are known."""
    first = topology_document(machine("server"))["cpus"][0]
    assert (first["baseKHz"], first["maxKHz"]) == (2700000, 4000000)


def test_a_document_is_made_of_plain_values() -> None:
    """JSON carries it as it is."""
    found = topology_document(machine("server"))
    assert json.loads(json.dumps(found)) == found
    assert topology_document(Topology(cpus=(), nodes=()))["cpus"] == []
