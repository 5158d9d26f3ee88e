"""Sandboxes and containers in memory, by id and by reserved name.

Each has its record on disk and what only a living process has. Belongs to one event loop. Invariants: a container here
belongs to a sandbox here; a name belongs to one object; an object can be found from `add` to `discard`, but is listed
only while it is `visible`.

Locks: whoever changes an object holds its `lock`. The order is sandbox before container, never the other way.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from interpose.cri.messages import cri
from interpose.node.runtime.cgroups.cri_stats import CpuRate, FsUsage
from interpose.node.runtime.metrics.sampler import SampledValue
from interpose.node.runtime.metrics.values import ProcessCounts
from interpose.node.runtime.service.errors import ambiguous, empty_id, not_found, reserved
from interpose.node.runtime.service.interfaces import ContainerExit, Shim
from interpose.node.runtime.state.ids import ids_like
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, SandboxRecord


@dataclass(slots=True, kw_only=True, eq=False)
class SandboxEntry:
    """A sandbox. `containers` are in the order they were created, those half made included."""

    record: SandboxRecord
    shim: Shim | None = None
    containers: "dict[str, ContainerEntry]" = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    visible: bool = True  # what is half made is in no list
    cpu: CpuRate = field(default_factory=CpuRate)
    item: tuple[SandboxRecord, cri.PodSandbox] | None = None  # as lists show this record

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def holder(self) -> int:
        """The process that has the namespaces; 0 if there is none."""
        return self.shim.holder if self.shim is not None else 0


@dataclass(slots=True, kw_only=True, eq=False)
class ContainerEntry:
    """A container. `exited` is set when it cannot run (any more); `early` is an end that came before start was done."""

    record: ContainerRecord
    sandbox: SandboxEntry
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    exited: asyncio.Event = field(default_factory=asyncio.Event)
    early: ContainerExit | None = None
    visible: bool = True
    untidy: bool = False  # ended, but the OCI runtime still knows it
    cpu: CpuRate = field(default_factory=CpuRate)
    layer: SampledValue[FsUsage] = field(default_factory=SampledValue)
    processes: SampledValue[ProcessCounts] = field(default_factory=SampledValue)
    item: tuple[ContainerRecord, cri.Container] | None = None  # as lists show this record

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def phase(self) -> ContainerPhase:
        return self.record.phase


_Object = TypeVar("_Object", SandboxEntry, ContainerEntry)


class ObjectRegistry:
    """The objects of one runtime."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._sandboxes: dict[str, SandboxEntry] = {}
        self._containers: dict[str, ContainerEntry] = {}
        self._names: dict[tuple[str, str], str] = {}

    @property
    def sandboxes(self) -> Mapping[str, SandboxEntry]:
        """By id, half made ones included."""
        return MappingProxyType(self._sandboxes)

    @property
    def containers(self) -> Mapping[str, ContainerEntry]:
        """By id, half made ones included."""
        return MappingProxyType(self._containers)

    def shown_sandboxes(self) -> Iterator[SandboxEntry]:
        """Those for lists."""
        return (one for one in self._sandboxes.values() if one.visible)

    def shown_containers(self) -> Iterator[ContainerEntry]:
        """Those for lists."""
        return (one for one in self._containers.values() if one.visible)

    # -- finding

    def sandbox(self, sandbox_id: str) -> SandboxEntry:
        """By id or a unique start of it; NOT_FOUND, INVALID_ARGUMENT for a start that several have."""
        found = self.find_sandbox(sandbox_id)
        if found is None:
            raise not_found("sandbox", sandbox_id)
        return found

    def container(self, container_id: str) -> ContainerEntry:
        """As `sandbox`."""
        found = self.find_container(container_id)
        if found is None:
            raise not_found("container", container_id)
        return found

    def find_sandbox(self, sandbox_id: str) -> SandboxEntry | None:
        """As `sandbox`, but None for what is not there."""
        if not sandbox_id:
            raise empty_id("pod_sandbox_id")
        return _found(self._sandboxes, "sandbox", sandbox_id)

    def find_container(self, container_id: str) -> ContainerEntry | None:
        """As `container`, but None for what is not there."""
        if not container_id:
            raise empty_id("container_id")
        return _found(self._containers, "container", container_id)

    # -- changing

    def reserve(self, kind: str, name: str) -> str:
        """An id for a new object of this name; ALREADY_EXISTS if the name is taken."""
        owner = self._names.get((kind, name))
        if owner is not None:
            raise reserved(kind, name, owner)
        object_id = self._new_id()
        self._names[kind, name] = object_id
        return object_id

    def release(self, kind: str, name: str) -> None:
        """The name can be used again."""
        self._names.pop((kind, name), None)

    def add_sandbox(self, sandbox: SandboxEntry) -> None:
        """A sandbox is there; its name is taken."""
        self._names["sandbox", sandbox.record.name] = sandbox.id
        self._sandboxes[sandbox.id] = sandbox

    def add_container(self, container: ContainerEntry) -> None:
        """A container is there; its name is taken."""
        self._names["container", container.record.name] = container.id
        self._containers[container.id] = container
        container.sandbox.containers[container.id] = container

    def discard_sandbox(self, sandbox: SandboxEntry) -> None:
        """A sandbox is gone."""
        self._sandboxes.pop(sandbox.id, None)
        self.release("sandbox", sandbox.record.name)

    def discard_container(self, container: ContainerEntry) -> None:
        """A container is gone."""
        self._containers.pop(container.id, None)
        container.sandbox.containers.pop(container.id, None)
        self.release("container", container.record.name)


def _found(known: Mapping[str, _Object], kind: str, object_id: str) -> _Object | None:
    matches = ids_like(known, object_id)
    if len(matches) > 1:
        raise ambiguous(kind, object_id)
    return known[matches[0]] if matches and known[matches[0]].visible else None
