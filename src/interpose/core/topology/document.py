"""A topology as a document: plain values that JSON and YAML can carry.

`interpose.config.documents.topology` reads it back to the same topology. What is unknown or ordinary is left out.
"""

from dataclasses import MISSING, fields
from typing import Any, Final

from interpose.core.topology.topology import Cpu, Topology

API_VERSION: Final = "interpose/v1"
KIND: Final = "Topology"
# Field of a CPU -> key; in this order. The first five are always there.
CPU_KEYS: Final = {
    "id": "id",
    "package": "package",
    "die": "die",
    "node": "node",
    "core": "core",
    "l2": "l2",
    "l3": "l3",
    "kind": "kind",
    "base_khz": "baseKHz",
    "max_khz": "maxKHz",
}
_ALWAYS: Final = ("id", "package", "die", "node", "core")
_DEFAULTS: Final = {field.name: field.default for field in fields(Cpu) if field.default is not MISSING}


def topology_document(topology: Topology) -> dict[str, Any]:
    """The document. Which CPUs a node has follows from the CPUs."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": topology.name,
        "cpus": [_cpu(cpu) for cpu in topology.cpus],
        "nodes": [
            {
                "id": node.id,
                "memoryBytes": node.memory_bytes,
                "memory": node.memory.value,
                **({"movable": True} if node.movable else {}),
                "distances": {str(other): distance for other, distance in node.distances.items()},
            }
            for node in topology.nodes
        ],
        "caches": [
            {"level": cache.level, "kind": cache.kind, "sizeBytes": cache.size_bytes, "cpus": str(cache.cpus)}
            for cache in topology.caches
        ],
        "offline": str(topology.offline),
        "isolated": str(topology.isolated),
    }


def _cpu(cpu: Cpu) -> dict[str, Any]:
    values = {field: getattr(cpu, field) for field in CPU_KEYS}
    return {
        CPU_KEYS[field]: str(value) if field == "kind" else value
        for field, value in values.items()
        if field in _ALWAYS or value != _DEFAULTS[field]
    }
