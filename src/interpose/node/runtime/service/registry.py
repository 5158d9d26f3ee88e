"""Sandboxes and containers in memory, by id and by reserved name.

An entry is a record, which is also on disk, and the state of this process. Belongs to one event loop. Invariants: a
container here belongs to a sandbox here; a name belongs to one object; an object can be found from `add` to `discard`,
but is listed only while it is `visible`.

Locks: an object is changed only while its `lock` is held. The order is sandbox before container, never the other way.
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
from interpose.node.runtime.state.ids import ids_with_prefix
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, SandboxRecord


@dataclass(slots=True, kw_only=True, eq=False)
class SandboxEntry:
    """A sandbox. `containers` are in the order of creation, those being created included."""

    record: SandboxRecord
    shim: Shim | None = None
    containers: "dict[str, ContainerEntry]" = field(default_factory=dict)
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    visible: bool = True  # False while it is being created: it is in no list
    cpu: CpuRate = field(default_factory=CpuRate)
    item: tuple[SandboxRecord, cri.PodSandbox] | None = None  # the list item of this record

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def pause_pid(self) -> int:
        """The process that holds the namespaces; 0 if there is none."""
        return self.shim.pause_pid if self.shim is not None else 0


@dataclass(slots=True, kw_only=True, eq=False)
class ContainerEntry:
    """A container. `exited` is set when it cannot run (any more); `early_exit` came before the start was done."""

    record: ContainerRecord
    sandbox: SandboxEntry
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    exited: asyncio.Event = field(default_factory=asyncio.Event)
    early_exit: ContainerExit | None = None
    visible: bool = True
    needs_cleanup: bool = False  # it exited, but the OCI runtime still knows it
    cpu: CpuRate = field(default_factory=CpuRate)
    layer: SampledValue[FsUsage] = field(default_factory=SampledValue)
    processes: SampledValue[ProcessCounts] = field(default_factory=SampledValue)
    item: tuple[ContainerRecord, cri.Container] | None = None  # the list item of this record

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
        """All by id, those being created included."""
        return MappingProxyType(self._sandboxes)

    @property
    def containers(self) -> Mapping[str, ContainerEntry]:
        """All by id, those being created included."""
        return MappingProxyType(self._containers)

    def visible_sandboxes(self) -> Iterator[SandboxEntry]:
        """The sandboxes that lists show."""
        return (sandbox for sandbox in self._sandboxes.values() if sandbox.visible)

    def visible_containers(self) -> Iterator[ContainerEntry]:
        """The containers that lists show."""
        return (container for container in self._containers.values() if container.visible)

    # -- finding

    def sandbox(self, sandbox_id: str) -> SandboxEntry:
        """By id or a unique prefix; NOT_FOUND, or INVALID_ARGUMENT for a prefix of several ids."""
        found = self.find_sandbox(sandbox_id)
        if found is None:
            raise not_found("sandbox", sandbox_id)
        return found

    def container(self, container_id: str) -> ContainerEntry:
        """A container by id, with the errors of `sandbox`."""
        found = self.find_container(container_id)
        if found is None:
            raise not_found("container", container_id)
        return found

    def find_sandbox(self, sandbox_id: str) -> SandboxEntry | None:
        """As `sandbox`, but None if there is no such sandbox."""
        if not sandbox_id:
            raise empty_id("pod_sandbox_id")
        return _find(self._sandboxes, "sandbox", sandbox_id)

    def find_container(self, container_id: str) -> ContainerEntry | None:
        """As `container`, but None if there is no such container."""
        if not container_id:
            raise empty_id("container_id")
        return _find(self._containers, "container", container_id)

    # -- changing

    def reserve(self, kind: str, name: str) -> str:
        """Reserve a name and return an id for its object; ALREADY_EXISTS if it is reserved already."""
        owner = self._names.get((kind, name))
        if owner is not None:
            raise reserved(kind, name, owner)
        object_id = self._new_id()
        self._names[kind, name] = object_id
        return object_id

    def release(self, kind: str, name: str) -> None:
        """Free a name, which can be reserved again."""
        self._names.pop((kind, name), None)

    def add_sandbox(self, sandbox: SandboxEntry) -> None:
        """Add a sandbox and reserve its name."""
        self._names["sandbox", sandbox.record.name] = sandbox.id
        self._sandboxes[sandbox.id] = sandbox

    def add_container(self, container: ContainerEntry) -> None:
        """Add a container and reserve its name."""
        self._names["container", container.record.name] = container.id
        self._containers[container.id] = container
        container.sandbox.containers[container.id] = container

    def discard_sandbox(self, sandbox: SandboxEntry) -> None:
        """Remove a sandbox and free its name."""
        self._sandboxes.pop(sandbox.id, None)
        self.release("sandbox", sandbox.record.name)

    def discard_container(self, container: ContainerEntry) -> None:
        """Remove a container and free its name."""
        self._containers.pop(container.id, None)
        container.sandbox.containers.pop(container.id, None)
        self.release("container", container.record.name)


def _find(known: Mapping[str, _Object], kind: str, object_id: str) -> _Object | None:
    matches = ids_with_prefix(known, object_id)
    if len(matches) > 1:
        raise ambiguous(kind, object_id)
    return known[matches[0]] if matches and known[matches[0]].visible else None
