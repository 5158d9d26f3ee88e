"""Fields of containers that the policy manages: all it ever wrote, to be put back when it no longer decides.

A value that the caller asked for is put back once, and is the caller's from then on: hook servers may change it. Where
the caller asked for nothing there is nothing to put back; everything the machine has is given, for as long as the relay
runs. Pure.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Assignment
from interpose.core.policy.request import Key
from interpose.core.topology.topology import Topology
from interpose.resmgr.existing_containers import FIELDS


class ManagedFields:
    """Names of managed fields by container; the names are those of an `Assignment`."""

    def __init__(self) -> None:
        self._fields: dict[Key, frozenset[str]] = {}

    def add(self, key: Key, written: Assignment) -> None:
        """The policy wrote the values of this assignment that are not None."""
        self.add_names(key, (name for name in FIELDS if getattr(written, name) is not None))

    def add_names(self, key: Key, names: Iterable[str]) -> None:
        """The policy wrote these fields."""
        self._fields[key] = self._fields.get(key, frozenset()).union(names)

    def abandoned(self, key: Key, assignment: Assignment) -> list[str]:
        """Managed fields about which an assignment says nothing any more."""
        return [name for name in self._fields.get(key, ()) if getattr(assignment, name) is None]

    def release(self, key: Key, names: Iterable[str]) -> None:
        """These fields belong to the caller of the container again."""
        if key in self._fields:
            self._fields[key] = self._fields[key].difference(names)

    def drop(self, key: Key) -> None:
        """Forget a container that is gone."""
        self._fields.pop(key, None)


def put_back(assignment: Assignment, names: Iterable[str], requested: Assignment, topology: Topology) -> Assignment:
    """An assignment with abandoned fields as the caller requested them, or everything that the machine has."""
    values: dict[str, Any] = {name: getattr(requested, name) or _everything(name, topology) for name in names}
    return replace(assignment, **values)


def _everything(name: str, topology: Topology) -> CpuSet | None:
    if name == "cpus":
        return topology.online
    if name == "mems":
        return CpuSet.of(node.id for node in topology.nodes if node.memory_bytes)
    return None
