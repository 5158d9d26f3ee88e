"""What containers and pods use: the calls for statistics. Files are read in threads, a few at a time.

A container that does not run has its writable layer only; what cannot be read is left out.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path

from google.protobuf.message import Message

from interpose.cri.messages import cri
from interpose.node.runtime.cgroups import usage as netcounters
from interpose.node.runtime.cgroups.cgroups import CgroupDirs
from interpose.node.runtime.cgroups.cri_stats import FsUsage, container_stats, pod_stats
from interpose.node.runtime.cgroups.usage import CgroupStats, InterfaceCounters
from interpose.node.runtime.fs.rootfs import Rootfs
from interpose.node.runtime.metrics.sampler import Sampler
from interpose.node.runtime.service import cri_views as views
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.methods import Methods, QueryMethod, ServerStreamMethod, stream_in_batches
from interpose.node.runtime.service.registry import ContainerEntry, SandboxEntry
from interpose.node.runtime.state.ids import wanted_id
from interpose.node.runtime.state.records import NetworkPlace


class StatsService:
    """Methods about usage."""

    def __init__(self, core: RuntimeCore, cgroups: CgroupDirs, rootfs: Rootfs, layers: Sampler[str, FsUsage]) -> None:
        self._core = core
        self._cgroups = cgroups
        self._rootfs = rootfs
        self._layers = layers

    def methods(self) -> Methods:
        """The part of the method table that lives here."""
        return {
            "ContainerStats": QueryMethod(self._container_stats),
            "ListContainerStats": QueryMethod(self._list_container_stats),
            "StreamContainerStats": ServerStreamMethod(self._stream_container_stats),
            "PodSandboxStats": QueryMethod(self._pod_stats),
            "ListPodSandboxStats": QueryMethod(self._list_pod_stats),
            "StreamPodSandboxStats": ServerStreamMethod(self._stream_pod_stats),
        }

    # -- containers

    async def _container_stats(self, request: cri.ContainerStatsRequest) -> cri.ContainerStatsResponse:
        container = self._core.registry.container(request.container_id)
        return cri.ContainerStatsResponse(stats=(await self._of([container]))[0])

    async def _list_container_stats(self, request: cri.ListContainerStatsRequest) -> cri.ListContainerStatsResponse:
        return cri.ListContainerStatsResponse(stats=await self._matching(request.filter))

    async def _stream_container_stats(self, request: cri.StreamContainerStatsRequest) -> AsyncGenerator[Message, None]:
        items = await self._matching(request.filter)
        async for answer in stream_in_batches(
            items, lambda part: cri.StreamContainerStatsResponse(container_stats=part)
        ):
            yield answer

    async def _matching(self, wanted: cri.ContainerStatsFilter) -> list[cri.ContainerStats]:
        found = views.matching(self._core.registry, wanted.id, wanted.pod_sandbox_id, wanted.label_selector)
        return await self._of(list(found))

    async def _of(self, containers: Sequence[ContainerEntry]) -> list[cri.ContainerStats]:
        running = [one for one in containers if one.record.running]
        used = await asyncio.to_thread(self._read, [one.record.cgroup for one in running])
        now, mountpoint = self._core.clock(), str(self._rootfs.folder)
        by_id = dict(zip((one.id for one in running), used, strict=True))
        answers = []
        for one, written in zip(containers, await self._written(containers), strict=True):
            figures, config = by_id.get(one.id), one.record.config
            rate = None if figures is None else one.cpu.rate(figures.cpu_ns, now)
            attributes = cri.ContainerAttributes(
                id=one.id, metadata=config.metadata, labels=config.labels, annotations=config.annotations
            )
            answers.append(
                container_stats(attributes, figures, at=now, rate=rate, written=written, mountpoint=mountpoint)
            )
        return answers

    async def written_in_all(self) -> tuple[str, int, int]:
        """Where containers write, and what all of them have written: bytes and inodes."""
        found = await self._written(list(self._core.registry.containers.values()))
        there = [one for one in found if one is not None]
        return str(self._rootfs.folder), sum(one.bytes for one in there), sum(one.inodes for one in there)

    def _read(self, groups: Iterable[str]) -> list[CgroupStats]:
        return [self._cgroups.stats(group) for group in groups]

    async def _written(self, containers: Sequence[ContainerEntry]) -> list[FsUsage | None]:
        return await self._layers.of([(one.id, one.layer) for one in containers])

    # -- pods

    async def _pod_stats(self, request: cri.PodSandboxStatsRequest) -> cri.PodSandboxStatsResponse:
        sandbox = self._core.registry.sandbox(request.pod_sandbox_id)
        return cri.PodSandboxStatsResponse(stats=await self._of_pod(sandbox))

    async def _list_pod_stats(self, request: cri.ListPodSandboxStatsRequest) -> cri.ListPodSandboxStatsResponse:
        return cri.ListPodSandboxStatsResponse(stats=await self._matching_pods(request.filter))

    async def _stream_pod_stats(self, request: cri.StreamPodSandboxStatsRequest) -> AsyncGenerator[Message, None]:
        items = await self._matching_pods(request.filter)
        async for answer in stream_in_batches(
            items, lambda part: cri.StreamPodSandboxStatsResponse(pod_sandbox_stats=part)
        ):
            yield answer

    async def _matching_pods(self, wanted: cri.PodSandboxStatsFilter) -> list[cri.PodSandboxStats]:
        sandbox_id = wanted_id(self._core.registry.sandboxes, wanted.id)
        found = [
            one
            for one in self._core.registry.shown_sandboxes()
            if sandbox_id in ("", one.id) and views.has_labels(one.record.config.labels, wanted.label_selector)
        ]
        return [await self._of_pod(one) for one in found]

    async def _of_pod(self, sandbox: SandboxEntry) -> cri.PodSandboxStats:
        config = sandbox.record.config
        attributes = cri.PodSandboxAttributes(
            id=sandbox.id, metadata=config.metadata, labels=config.labels, annotations=config.annotations
        )
        if not sandbox.record.ready:
            return cri.PodSandboxStats(attributes=attributes)
        running = [one for one in views.shown(sandbox) if one.record.running]
        containers = await self._of(running)
        used, network = await asyncio.to_thread(self._read_pod, sandbox)
        now = self._core.clock()
        rate = sandbox.cpu.rate(used.cpu_ns, now) if used is not None else None
        return pod_stats(attributes, used, at=now, rate=rate, network=network, containers=containers)

    def _read_pod(self, sandbox: SandboxEntry) -> tuple[CgroupStats | None, dict[str, InterfaceCounters] | None]:
        parent = sandbox.record.config.linux.cgroup_parent
        used = self._cgroups.stats(parent) if parent else None
        network = None
        if sandbox.record.place is NetworkPlace.POD and sandbox.holder:
            try:
                network = netcounters.parse_net_dev(Path(f"/proc/{sandbox.holder}/net/dev").read_text())
            except OSError:
                network = None
        return used, network
