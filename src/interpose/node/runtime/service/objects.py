"""Sandboxes and containers in memory: the record on disk, and what only a living process has.

Locks: `lock` is held by whoever changes the object. Order is sandbox before container, never the other way.
"""

import asyncio
from dataclasses import dataclass, field

from interpose.cri.messages import cri
from interpose.node.runtime.cgroups.cri_stats import CpuRate, FsUsage
from interpose.node.runtime.metrics.sampler import SampledValue
from interpose.node.runtime.metrics.values import ProcessCounts
from interpose.node.runtime.service.interfaces import Exit, Shim
from interpose.node.runtime.state.records import ContainerPhase, ContainerRecord, SandboxRecord


@dataclass(slots=True, kw_only=True, eq=False)
class Sandbox:
    """A sandbox. `containers` are in the order they were created, those half made included."""

    record: SandboxRecord
    shim: Shim | None = None
    containers: "dict[str, Container]" = field(default_factory=dict)
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
class Container:
    """A container. `exited` is set when it cannot run (any more); `early` is an end that came before start was done."""

    record: ContainerRecord
    sandbox: Sandbox
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    exited: asyncio.Event = field(default_factory=asyncio.Event)
    early: Exit | None = None
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
