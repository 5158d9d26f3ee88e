"""The CRI calls for metrics: files are read in threads, answers are made from the table of families."""

import asyncio
import os
from collections.abc import AsyncGenerator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from google.protobuf.message import Message

from interpose.cri.messages import cri
from interpose.node.runtime.cgroups.cgroups import CgroupDirs
from interpose.node.runtime.cgroups.cri_stats import FsUsage
from interpose.node.runtime.cgroups.usage import InterfaceCounters, parse_net_dev
from interpose.node.runtime.fs import mount_table
from interpose.node.runtime.fs.rootfs import Rootfs
from interpose.node.runtime.metrics.families import (
    BASE_LABELS,
    CONTAINER_FAMILIES,
    POD_FAMILIES,
    F,
    MetricFamily,
    MetricKind,
    NodeOffer,
)
from interpose.node.runtime.metrics.processes import ContainerProcesses, process_sampler
from interpose.node.runtime.metrics.sampler import Sampler
from interpose.node.runtime.metrics.values import (
    ContainerFigures,
    FilesystemSpace,
    PodFigures,
    ProcessCounts,
    SpecLimits,
)
from interpose.node.runtime.service import cri_views
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.methods import (
    MemoryMethod,
    Methods,
    QueryMethod,
    ServerStreamMethod,
    stream_in_batches,
)
from interpose.node.runtime.service.registry import ContainerEntry, SandboxEntry
from interpose.node.runtime.state.records import NetworkMode

# A container with its sampled values.
_Sampled: TypeAlias = tuple[ContainerEntry, FsUsage | None, ProcessCounts | None]
_POD: Final = "POD"  # the container label of a pod's network metrics, as cAdvisor has it
_KINDS: Final = {MetricKind.COUNTER: cri.COUNTER, MetricKind.GAUGE: cri.GAUGE}
_MOUNTS: Final = Path("/proc/self/mountinfo")
_DEVICES: Final = Path("/sys/dev/block")
_PRESSURE: Final = Path("/proc/pressure")


class MetricsService:
    """The CRI methods for metrics. `layers` is shared with the statistics."""

    def __init__(self, core: RuntimeCore, cgroups: CgroupDirs, rootfs: Rootfs, layers: Sampler[str, FsUsage]) -> None:
        self._core = core
        self._cgroups = cgroups
        self._folder = rootfs.folder
        self._layers = layers
        self._processes = process_sampler(cgroups.processes)
        self._offers = node_offers(cgroups)

    async def close(self) -> None:
        """Stop the sampler of process counts."""
        self._processes.close()

    def methods(self) -> Methods:
        """The part of the method table that lives here."""
        return {
            "ListMetricDescriptors": MemoryMethod(self._descriptors),
            "ListPodSandboxMetrics": QueryMethod(self._list),
            "StreamPodSandboxMetrics": ServerStreamMethod(self._stream),
        }

    def _descriptors(self, _request: cri.ListMetricDescriptorsRequest) -> cri.ListMetricDescriptorsResponse:
        families: tuple[MetricFamily[Any], ...] = (*CONTAINER_FAMILIES, *POD_FAMILIES)
        return cri.ListMetricDescriptorsResponse(
            descriptors=[
                cri.MetricDescriptor(name=family.name, help=family.help, label_keys=[*BASE_LABELS, *family.labels])
                for family in families
                if family.needs is None or family.needs in self._offers
            ]
        )

    async def _list(self, _request: cri.ListPodSandboxMetricsRequest) -> cri.ListPodSandboxMetricsResponse:
        return cri.ListPodSandboxMetricsResponse(pod_metrics=await self._all())

    async def _stream(self, _request: cri.StreamPodSandboxMetricsRequest) -> AsyncGenerator[Message, None]:
        items = await self._all()
        async for answer in stream_in_batches(
            items, lambda part: cri.StreamPodSandboxMetricsResponse(pod_sandbox_metrics=part)
        ):
            yield answer

    async def _all(self) -> list[cri.PodSandboxMetrics]:
        pods = [sandbox for sandbox in self._core.registry.visible_sandboxes() if sandbox.record.ready]
        running = [entry for pod in pods for entry in cri_views.visible_containers(pod) if entry.record.running]
        written, counted = await asyncio.gather(
            self._layers.sample([(container.id, container.layer) for container in running]),
            self._processes.sample([(_process_key(container), container.processes) for container in running]),
        )
        # Messages are made in the thread, too: on a full node there are tens of thousands.
        return await asyncio.to_thread(self._answers, pods, list(zip(running, written, counted, strict=True)))

    # -- in threads

    def _answers(self, pods: Sequence[SandboxEntry], running: Sequence[_Sampled]) -> list[cri.PodSandboxMetrics]:
        now, space = self._core.clock(), filesystem_space(self._folder)
        found = {pod.id: cri.PodSandboxMetrics(pod_sandbox_id=pod.id) for pod in pods}
        for pod in pods:
            figures = PodFigures(network=_network(pod))
            found[pod.id].metrics.extend(_metrics(POD_FAMILIES, figures, (pod.id, _POD, ""), now))
        for container, layer, counts in running:
            values = replace(
                self._figures(container, space, now), written=None if layer is None else layer.bytes, processes=counts
            )
            config = container.record.config
            labels = (container.id, config.metadata.name, config.image.image)
            found[container.record.sandbox_id].container_metrics.add(
                container_id=container.id, metrics=_metrics(CONTAINER_FAMILIES, values, labels, now)
            )
        return list(found.values())

    def _figures(self, container: ContainerEntry, space: FilesystemSpace | None, now: int) -> ContainerFigures:
        record = container.record
        counters = self._cgroups.counters(record.cgroup)
        numbers = {io.device for io in counters.io} | ({space.number} if space is not None else set())
        return ContainerFigures(
            now=now,
            started_at=record.started_at,
            used=self._cgroups.stats(record.cgroup),
            counters=counters,
            huge_pages=self._cgroups.huge_pages(record.cgroup),
            space=space,
            limits=SpecLimits(
                cpu_shares=record.resources.cpu_shares,
                cpu_period=record.resources.cpu_period,
                cpu_quota=record.resources.cpu_quota,
                memory=record.resources.memory_limit_in_bytes,
                memory_and_swap=record.resources.memory_swap_limit_in_bytes,
            ),
            devices={number: device_name(number) for number in numbers},
        )


def node_offers(cgroups: CgroupDirs, pressure: Path = _PRESSURE) -> frozenset[NodeOffer]:
    """The optional metrics that this node has."""
    found = set()
    if cgroups.version == 2 and pressure.exists():
        found.add(NodeOffer.PRESSURE)
    if cgroups.huge_page_sizes:
        found.add(NodeOffer.HUGE_PAGES)
        if cgroups.version == 1:
            found.add(NodeOffer.MOST_HUGE_PAGES)
    return frozenset(found)


def filesystem_space(folder: Path, mounts: Path = _MOUNTS) -> FilesystemSpace | None:
    """Size and free inodes of the file system of a folder; None if it cannot be read."""
    with suppress(OSError):
        facts, device = os.statvfs(folder), folder.stat().st_dev
        mount = mount_table.of_path(
            mount_table.parse(mounts.read_text(errors="surrogateescape")), str(folder.resolve())
        )
        number = f"{os.major(device)}:{os.minor(device)}"
        return FilesystemSpace(
            device=number if mount is None else mount.source,
            number=number,
            bytes=facts.f_blocks * facts.f_frsize,
            inodes=facts.f_files,
            inodes_free=facts.f_ffree,
        )
    return None


def device_name(number: str, devices: Path = _DEVICES) -> str:
    """The name of a block device by major:minor; that itself if it has none."""
    with suppress(OSError):
        return f"/dev/{(devices / number).readlink().name}"
    return number


def _process_key(container: ContainerEntry) -> ContainerProcesses:
    return ContainerProcesses(cgroup=container.record.cgroup, pid=container.record.pid)


def _network(sandbox: SandboxEntry) -> dict[str, InterfaceCounters]:
    """Interface counters of a pod, which may share the node's network; none for a pod that asked for the node's."""
    if sandbox.record.place is not NetworkMode.HOST and sandbox.pause_pid:
        with suppress(OSError):
            return parse_net_dev(Path(f"/proc/{sandbox.pause_pid}/net/dev").read_text())
    return {}


def _metrics(families: Iterable[MetricFamily[F]], figures: F, labels: tuple[str, ...], now: int) -> list[cri.Metric]:
    return [
        cri.Metric(
            name=family.name,
            timestamp=now,
            metric_type=_KINDS[family.kind],
            label_values=[*labels, *further],
            value=cri.UInt64Value(value=value),
        )
        for family in families
        for further, value in family.read(figures)
        if value is not None
    ]
