"""Metrics of pods and containers under cAdvisor's names, as kubelets without a cAdvisor of their own serve them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from conformance.bench import eventually
from conformance.points import Group, Point
from interpose._pb import cri_pb2 as cri

if TYPE_CHECKING:
    from conformance.bench import Bench, Container

# What critest 1.36 wants of every runtime, and what it leaves to some but every Linux node can tell.
_NAMES: Final = """
    blkio_device_usage_total file_descriptors last_seen oom_events_total processes sockets
    cpu_system_seconds_total cpu_usage_seconds_total cpu_user_seconds_total
    cpu_cfs_periods_total cpu_cfs_throttled_periods_total cpu_cfs_throttled_seconds_total
    fs_inodes_free fs_inodes_total fs_limit_bytes fs_usage_bytes
    fs_reads_bytes_total fs_reads_total fs_writes_bytes_total fs_writes_total
    memory_cache memory_failcnt memory_failures_total memory_kernel_usage memory_mapped_file
    memory_max_usage_bytes memory_rss memory_swap memory_usage_bytes memory_working_set_bytes
    network_receive_bytes_total network_receive_errors_total
    network_receive_packets_dropped_total network_receive_packets_total
    network_transmit_bytes_total network_transmit_errors_total
    network_transmit_packets_dropped_total network_transmit_packets_total
    spec_cpu_period spec_cpu_quota spec_cpu_shares
    spec_memory_limit_bytes spec_memory_reservation_limit_bytes spec_memory_swap_limit_bytes
    start_time_seconds threads threads_max ulimits_soft
"""
CRITEST_METRICS: Final = frozenset(f"container_{name}" for name in _NAMES.split())
_MEMORY: Final = 64 << 20
_LIMITED: Final = {
    "cpu_shares": 1024,
    "cpu_period": 100_000,
    "cpu_quota": 20_000,
    "memory_limit_in_bytes": _MEMORY,
    "memory_swap_limit_in_bytes": _MEMORY,
}


def descriptors(bench: Bench) -> None:
    found = bench.call("ListMetricDescriptors").descriptors
    assert all(descriptor.name and descriptor.help and descriptor.label_keys for descriptor in found)
    assert len({descriptor.name for descriptor in found}) == len(found)
    assert CRITEST_METRICS - {descriptor.name for descriptor in found} == set()


def _by_name(bench: Bench, container: Container) -> dict[str, list[cri.Metric]]:
    """All metrics of a container and its pod, by name."""
    pods = {pod.pod_sandbox_id: pod for pod in bench.call("ListPodSandboxMetrics").pod_metrics}
    pod = pods[container.pod.id]
    of_container = {entry.container_id: entry.metrics for entry in pod.container_metrics}[container.id]
    found: dict[str, list[cri.Metric]] = {}
    for metric in (*pod.metrics, *of_container):
        found.setdefault(metric.name, []).append(metric)
    return found


def values(bench: Bench) -> None:
    container = bench.pod(network=cri.POD).run_container(resources=_LIMITED)
    container.says("sh", "-c", "mkdir /files; for i in $(seq 1 10); do echo some >/files/$i; done; sync")
    labels = {
        descriptor.name: len(descriptor.label_keys) for descriptor in bench.call("ListMetricDescriptors").descriptors
    }
    # On a busy machine a first count of files may not be there at once.
    found = eventually(
        lambda: seen if set(labels) <= set(seen := _by_name(bench, container)) else None,
        "a value of every metric that is described",
    )
    assert set(found) == set(labels)
    assert {(metric.name, len(metric.label_values)) for many in found.values() for metric in many} == set(
        labels.items()
    )


def plausible(bench: Bench) -> None:
    container = bench.pod(network=cri.POD).run_container(resources=_LIMITED)
    container.says("true")
    found = _by_name(bench, container)

    def value(name: str) -> int:
        return found[name][0].value.value

    status = container.status()
    assert value("container_start_time_seconds") == status.started_at // 1_000_000_000
    assert value("container_start_time_seconds") <= value("container_last_seen") <= time.time()
    assert value("container_spec_memory_limit_bytes") == _LIMITED["memory_limit_in_bytes"]
    spec = [value(f"container_spec_cpu_{name}") for name in ("shares", "period", "quota")]
    assert spec == [_LIMITED["cpu_shares"], _LIMITED["cpu_period"], _LIMITED["cpu_quota"]]
    assert 0 < value("container_memory_working_set_bytes") <= _LIMITED["memory_limit_in_bytes"]
    assert 1 <= value("container_processes") <= value("container_threads")
    assert value("container_file_descriptors") >= 1
    assert value("container_fs_limit_bytes") > value("container_fs_usage_bytes")
    assert value("container_oom_events_total") == 0
    assert [metric.label_values[-1] for metric in found["container_network_receive_bytes_total"]] == ["eth0"]


GROUPS = (
    Group(
        name="Metrics",
        about="critest: 2 specs (of its group PodSandbox)",
        points=(
            Point(name="descriptors of all metrics that critest asks for", check=descriptors),
            Point(name="a value of every metric, with as many labels as its descriptor has", check=values),
            Point(name="limits, times and counts of a container are its own", check=plausible),
        ),
    ),
)
