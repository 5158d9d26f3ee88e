"""The calls for statistics: resource usage of containers and pods. Files are read in threads, a few at a time.

A container that does not run has its writable layer only; values that cannot be read are left out.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Sequence
from pathlib import Path

from google.protobuf.message import Message

from interpose.cri.messages import cri
from interpose.node.runtime.cgroups.cgroups import CgroupDirs
from interpose.node.runtime.cgroups.cri_stats import FsUsage, container_stats, pod_stats
from interpose.node.runtime.cgroups.usage import CgroupStats, InterfaceCounters, parse_net_dev
from interpose.node.runtime.fs.rootfs import Rootfs
from interpose.node.runtime.metrics.sampler import Sampler
from interpose.node.runtime.service import cri_views
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.methods import Methods, QueryMethod, ServerStreamMethod, stream_in_batches
from interpose.node.runtime.service.registry import ContainerEntry, SandboxEntry
from interpose.node.runtime.state.records import NetworkMode


class StatsService:
    """The CRI methods for statistics of containers and pods."""

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
        return cri.ContainerStatsResponse(stats=(await self._stats_of([container]))[0])

    async def _list_container_stats(self, request: cri.ListContainerStatsRequest) -> cri.ListContainerStatsResponse:
        return cri.ListContainerStatsResponse(stats=await self._matching(request.filter))

    async def _stream_container_stats(self, request: cri.StreamContainerStatsRequest) -> AsyncGenerator[Message, None]:
        items = await self._matching(request.filter)
        async for answer in stream_in_batches(
            items, lambda part: cri.StreamContainerStatsResponse(container_stats=part)
        ):
            yield answer

    async def _matching(self, query: cri.ContainerStatsFilter) -> list[cri.ContainerStats]:
        registry = self._core.registry
        found = cri_views.matching_containers(registry, query.id, query.pod_sandbox_id, query.label_selector)
        return await self._stats_of(list(found))

    async def _stats_of(self, containers: Sequence[ContainerEntry]) -> list[cri.ContainerStats]:
        running = [container for container in containers if container.record.running]
        usage = await asyncio.to_thread(self._read, [container.record.cgroup for container in running])
        now, mountpoint = self._core.clock(), str(self._rootfs.folder)
        by_id = dict(zip((container.id for container in running), usage, strict=True))
        answers = []
        for container, written in zip(containers, await self._written(containers), strict=True):
            used, config = by_id.get(container.id), container.record.config
            rate = None if used is None else container.cpu.rate(used.cpu_ns, now)
            attributes = cri.ContainerAttributes(
                id=container.id, metadata=config.metadata, labels=config.labels, annotations=config.annotations
            )
            answers.append(container_stats(attributes, used, at=now, rate=rate, written=written, mountpoint=mountpoint))
        return answers

    async def total_written(self) -> tuple[str, int, int]:
        """The folder of all containers' writable layers, and their size in bytes and inodes."""
        found = await self._written(list(self._core.registry.containers.values()))
        known = [usage for usage in found if usage is not None]
        return str(self._rootfs.folder), sum(usage.bytes for usage in known), sum(usage.inodes for usage in known)

    def _read(self, groups: Iterable[str]) -> list[CgroupStats]:
        return [self._cgroups.stats(group) for group in groups]

    async def _written(self, containers: Sequence[ContainerEntry]) -> list[FsUsage | None]:
        return await self._layers.sample([(container.id, container.layer) for container in containers])

    # -- pods

    async def _pod_stats(self, request: cri.PodSandboxStatsRequest) -> cri.PodSandboxStatsResponse:
        sandbox = self._core.registry.sandbox(request.pod_sandbox_id)
        return cri.PodSandboxStatsResponse(stats=await self._pod_stats_of(sandbox))

    async def _list_pod_stats(self, request: cri.ListPodSandboxStatsRequest) -> cri.ListPodSandboxStatsResponse:
        return cri.ListPodSandboxStatsResponse(stats=await self._matching_pods(request.filter))

    async def _stream_pod_stats(self, request: cri.StreamPodSandboxStatsRequest) -> AsyncGenerator[Message, None]:
        items = await self._matching_pods(request.filter)
        async for answer in stream_in_batches(
            items, lambda part: cri.StreamPodSandboxStatsResponse(pod_sandbox_stats=part)
        ):
            yield answer

    async def _matching_pods(self, query: cri.PodSandboxStatsFilter) -> list[cri.PodSandboxStats]:
        found = list(cri_views.matching_sandboxes(self._core.registry, query.id, query.label_selector))
        return [await self._pod_stats_of(sandbox) for sandbox in found]

    async def _pod_stats_of(self, sandbox: SandboxEntry) -> cri.PodSandboxStats:
        config = sandbox.record.config
        attributes = cri.PodSandboxAttributes(
            id=sandbox.id, metadata=config.metadata, labels=config.labels, annotations=config.annotations
        )
        if not sandbox.record.ready:
            return cri.PodSandboxStats(attributes=attributes)
        running = [container for container in cri_views.visible_containers(sandbox) if container.record.running]
        containers = await self._stats_of(running)
        used, network = await asyncio.to_thread(self._read_pod, sandbox)
        now = self._core.clock()
        rate = sandbox.cpu.rate(used.cpu_ns, now) if used is not None else None
        return pod_stats(attributes, used, at=now, rate=rate, network=network, containers=containers)

    def _read_pod(self, sandbox: SandboxEntry) -> tuple[CgroupStats | None, dict[str, InterfaceCounters] | None]:
        parent = sandbox.record.config.linux.cgroup_parent
        used = self._cgroups.stats(parent) if parent else None
        network = None
        if sandbox.record.place is NetworkMode.POD and sandbox.pause_pid:
            try:
                network = parse_net_dev(Path(f"/proc/{sandbox.pause_pid}/net/dev").read_text())
            except OSError:
                network = None
        return used, network
