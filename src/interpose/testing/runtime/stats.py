"""Usage figures of a fake node: stats and metrics.

Pure, and derived from age alone: a running container uses a tenth of a core and 32 MiB, so figures grow with the clock
and two readings can be compared. Whatever does not run has no CPU and memory figures, as with a real runtime.
"""

from interpose._pb import cri_pb2 as cri
from interpose.testing.runtime.state import FakeContainer, FakeSandbox, NodeState, full_id
from interpose.testing.runtime.views import has_labels

_CORE_SHARE = 10
_MEMORY = 32 << 20
_LAYER = 1 << 20
_METRICS = (
    ("container_cpu_usage_seconds_total", "CPU time used", cri.COUNTER),
    ("container_memory_working_set_bytes", "Memory in use that cannot be given back", cri.GAUGE),
)


def container_stats(container: FakeContainer, now: int) -> cri.ContainerStats:
    """Usage of one container."""
    stats = cri.ContainerStats(
        attributes=cri.ContainerAttributes(
            id=container.id,
            metadata=container.config.metadata,
            labels=container.config.labels,
            annotations=container.config.annotations,
        )
    )
    stats.writable_layer.timestamp = now
    stats.writable_layer.fs_id.mountpoint = "/var/lib/containerd/io.containerd.snapshotter.v1.overlayfs"
    stats.writable_layer.used_bytes.value = _LAYER
    stats.writable_layer.inodes_used.value = 16
    if container.state == cri.CONTAINER_RUNNING:
        _fill_usage(stats.cpu, stats.memory, used=_cpu_time(container, now), memory=_MEMORY, now=now)
        stats.swap.timestamp = now
        stats.swap.swap_usage_bytes.value = 0
    return stats


def sandbox_stats(state: NodeState, sandbox: FakeSandbox, now: int) -> cri.PodSandboxStats:
    """Usage of a pod: the sum of its running containers, and each of them."""
    stats = cri.PodSandboxStats(
        attributes=cri.PodSandboxAttributes(
            id=sandbox.id,
            metadata=sandbox.config.metadata,
            labels=sandbox.config.labels,
            annotations=sandbox.config.annotations,
        )
    )
    if not sandbox.ready:
        return stats
    running = [container for container in state.containers_of(sandbox) if container.state == cri.CONTAINER_RUNNING]
    linux = stats.linux
    _fill_usage(
        linux.cpu,
        linux.memory,
        used=sum(_cpu_time(container, now) for container in running),
        memory=_MEMORY * len(running),
        now=now,
    )
    linux.network.timestamp = now
    linux.network.default_interface.name = "eth0"
    linux.network.default_interface.rx_bytes.value = 1000
    linux.network.default_interface.tx_bytes.value = 1000
    linux.process.timestamp = now
    linux.process.process_count.value = len(running) + 1
    linux.containers.extend(container_stats(container, now) for container in running)
    return stats


def list_container_stats(state: NodeState, wanted: cri.ContainerStatsFilter, now: int) -> list[cri.ContainerStats]:
    """Usage of the containers a filter asks for."""
    container_id = full_id(state.containers, wanted.id)
    sandbox_id = full_id(state.sandboxes, wanted.pod_sandbox_id)
    return [
        container_stats(container, now)
        for container in state.containers.values()
        if container_id in ("", container.id)
        and sandbox_id in ("", container.sandbox_id)
        and has_labels(container.config.labels, wanted.label_selector)
    ]


def list_sandbox_stats(state: NodeState, wanted: cri.PodSandboxStatsFilter, now: int) -> list[cri.PodSandboxStats]:
    """Usage of the pods a filter asks for."""
    sandbox_id = full_id(state.sandboxes, wanted.id)
    return [
        sandbox_stats(state, sandbox, now)
        for sandbox in state.sandboxes.values()
        if sandbox_id in ("", sandbox.id) and has_labels(sandbox.config.labels, wanted.label_selector)
    ]


def metric_descriptors() -> list[cri.MetricDescriptor]:
    """The metrics this node has."""
    return [
        cri.MetricDescriptor(name=name, help=text, label_keys=["id", "name", "image"]) for name, text, _ in _METRICS
    ]


def sandbox_metrics(state: NodeState, now: int) -> list[cri.PodSandboxMetrics]:
    """Metrics of all ready pods, container by container."""
    return [
        cri.PodSandboxMetrics(
            pod_sandbox_id=sandbox.id,
            container_metrics=[
                cri.ContainerMetrics(container_id=container.id, metrics=_container_metrics(container, now))
                for container in state.containers_of(sandbox)
                if container.state == cri.CONTAINER_RUNNING
            ],
        )
        for sandbox in state.sandboxes.values()
        if sandbox.ready
    ]


def _container_metrics(container: FakeContainer, now: int) -> list[cri.Metric]:
    values = (_cpu_time(container, now) // 1_000_000_000, _MEMORY)
    labels = [container.id, container.config.metadata.name, container.config.image.image]
    return [
        cri.Metric(name=name, timestamp=now, metric_type=kind, label_values=labels, value=cri.UInt64Value(value=value))
        for (name, _, kind), value in zip(_METRICS, values, strict=True)
    ]


def _cpu_time(container: FakeContainer, now: int) -> int:
    return max(now - container.started_at, 0) // _CORE_SHARE


def _fill_usage(cpu: cri.CpuUsage, ram: cri.MemoryUsage, *, used: int, memory: int, now: int) -> None:
    cpu.timestamp = now
    cpu.usage_core_nano_seconds.value = used
    cpu.usage_nano_cores.value = 1_000_000_000 // _CORE_SHARE * (memory // _MEMORY)
    ram.timestamp = now
    ram.working_set_bytes.value = memory
    ram.usage_bytes.value = memory
    ram.rss_bytes.value = memory
