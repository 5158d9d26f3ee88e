"""cAdvisor's families: what they say of figures."""

from typing import Any

import pytest

from conformance.checks.metrics import CRITEST_METRICS
from interpose.node.runtime.cgroups.usage import CgroupStats, InterfaceCounters, Pressure, PressurePair
from interpose.node.runtime.metrics.cgroup_counters import CgroupCounters, DeviceIo, HugePages
from interpose.node.runtime.metrics.families import CONTAINER_FAMILIES, POD_FAMILIES, MetricKind, NodeOffer
from interpose.node.runtime.metrics.values import (
    ContainerFigures,
    FilesystemSpace,
    PodFigures,
    ProcessCounts,
    SpecLimits,
)

SECOND = 1_000_000_000
SPACE = FilesystemSpace(device="/dev/vda1", number="254:1", bytes=5000, inodes=50, inodes_free=40)
COUNTS = ProcessCounts(processes=2, threads=5, descriptors=9, sockets=3, states={"running": 1}, open_files_limit=1024)
PAIR = PressurePair(some=Pressure(total=3_500_000), full=Pressure(total=2_500_000))


def read(figures: Any, *, families: Any = CONTAINER_FAMILIES) -> dict[str, dict[tuple[str, ...], int]]:
    """What is known, by name and further labels."""
    found = {one.name: {key: value for key, value in one.read(figures) if value is not None} for one in families}
    return {name: values for name, values in found.items() if values}


def test_names_are_unique_and_all_that_critest_asks_for() -> None:
    """What not every node can tell comes on top of that."""
    families: list[Any] = [*CONTAINER_FAMILIES, *POD_FAMILIES]
    always = [one.name for one in families if one.needs is None]
    assert len({one.name for one in families}) == len(families)
    assert set(always) == CRITEST_METRICS | {"container_tasks_state"}
    assert {one.needs for one in families} == {None, *NodeOffer}


@pytest.mark.parametrize("family", [*CONTAINER_FAMILIES, *POD_FAMILIES], ids=lambda one: one.name)
def test_totals_are_counters(family: Any) -> None:
    """And nothing else is, but the count of limits met, as in cAdvisor."""
    counts = family.name.endswith("_total") and "inodes" not in family.name
    counts = counts or family.name == "container_memory_failcnt"
    assert (family.kind is MetricKind.COUNTER) == counts
    assert family.help


def test_everything_known() -> None:
    """Times are whole seconds, pressure too; devices have their names."""
    figures = ContainerFigures(
        now=100 * SECOND + 1,
        started_at=90 * SECOND,
        used=CgroupStats(
            cpu_ns=5 * SECOND,
            memory_usage=1000,
            working_set=900,
            rss=300,
            page_faults=7,
            major_page_faults=6,
            swap_usage=8,
            processes=4,
            cpu_pressure=PAIR,
            memory_pressure=PAIR,
            io_pressure=PAIR,
        ),
        counters=CgroupCounters(
            user_ns=3 * SECOND,
            system_ns=2 * SECOND,
            periods=10,
            throttled_periods=5,
            throttled_ns=SECOND,
            cache=40,
            mapped=41,
            kernel=42,
            most_memory=2000,
            limit_hits=1,
            own_page_faults=5,
            own_major_page_faults=4,
            reservation=77,
            oom_kills=2,
            most_threads=64,
            io=(
                DeviceIo(device="8:0", operation="Read", bytes=30, requests=3),
                DeviceIo(device="9:9", operation="Write", bytes=40),
            ),
        ),
        huge_pages=(HugePages(size="2MB", usage=2, most=4),),
        processes=COUNTS,
        space=SPACE,
        written=123,
        limits=SpecLimits(cpu_shares=2, cpu_period=50_000, cpu_quota=20_000, memory=64, memory_and_swap=65),
        devices={"8:0": "/dev/sda"},
    )
    assert read(figures) == {
        "container_cpu_usage_seconds_total": {("total",): 5},
        "container_cpu_user_seconds_total": {(): 3},
        "container_cpu_system_seconds_total": {(): 2},
        "container_cpu_cfs_periods_total": {(): 10},
        "container_cpu_cfs_throttled_periods_total": {(): 5},
        "container_cpu_cfs_throttled_seconds_total": {(): 1},
        "container_memory_usage_bytes": {(): 1000},
        "container_memory_working_set_bytes": {(): 900},
        "container_memory_max_usage_bytes": {(): 2000},
        "container_memory_rss": {(): 300},
        "container_memory_cache": {(): 40},
        "container_memory_mapped_file": {(): 41},
        "container_memory_kernel_usage": {(): 42},
        "container_memory_swap": {(): 8},
        "container_memory_failcnt": {(): 1},
        "container_memory_failures_total": {
            ("pgfault", "container"): 5,
            ("pgfault", "hierarchy"): 7,
            ("pgmajfault", "container"): 4,
            ("pgmajfault", "hierarchy"): 6,
        },
        "container_oom_events_total": {(): 2},
        "container_hugetlb_usage_bytes": {("2MB",): 2},
        "container_hugetlb_max_usage_bytes": {("2MB",): 4},
        "container_fs_usage_bytes": {("/dev/vda1",): 123},
        "container_fs_limit_bytes": {("/dev/vda1",): 5000},
        "container_fs_inodes_total": {("/dev/vda1",): 50},
        "container_fs_inodes_free": {("/dev/vda1",): 40},
        "container_fs_reads_total": {("/dev/sda",): 3},
        "container_fs_reads_bytes_total": {("/dev/sda",): 30},
        "container_fs_writes_bytes_total": {("9:9",): 40},
        "container_blkio_device_usage_total": {
            ("/dev/sda", "8", "0", "Read"): 30,
            ("9:9", "9", "9", "Write"): 40,
        },
        "container_processes": {(): 2},
        "container_threads": {(): 5},
        "container_threads_max": {(): 64},
        "container_file_descriptors": {(): 9},
        "container_sockets": {(): 3},
        "container_tasks_state": {("running",): 1},
        "container_ulimits_soft": {("max_open_files",): 1024},
        "container_last_seen": {(): 100},
        "container_start_time_seconds": {(): 90},
        "container_spec_cpu_shares": {(): 2},
        "container_spec_cpu_period": {(): 50_000},
        "container_spec_cpu_quota": {(): 20_000},
        "container_spec_memory_limit_bytes": {(): 64},
        "container_spec_memory_swap_limit_bytes": {(): 65},
        "container_spec_memory_reservation_limit_bytes": {(): 77},
        "container_pressure_cpu_stalled_seconds_total": {(): 2},
        "container_pressure_cpu_waiting_seconds_total": {(): 3},
        "container_pressure_memory_stalled_seconds_total": {(): 2},
        "container_pressure_memory_waiting_seconds_total": {(): 3},
        "container_pressure_io_stalled_seconds_total": {(): 2},
        "container_pressure_io_waiting_seconds_total": {(): 3},
    }


def test_what_an_older_kernel_does_not_count_is_zero() -> None:
    """Where it counts CPU time and memory at all; a device that was not used yet is the one of the file system."""
    figures = ContainerFigures(
        now=SECOND,
        started_at=SECOND,
        used=CgroupStats(cpu_ns=1, memory_usage=1, working_set=1),
        space=SPACE,
        processes=COUNTS,
        written=0,
        limits=SpecLimits(cpu_quota=1),
    )
    found = read(figures)
    needed = {one.name for one in CONTAINER_FAMILIES if one.needs is None}
    assert set(found) == needed
    assert found["container_memory_max_usage_bytes"] == {(): 0}
    assert found["container_threads"] == {(): 5}
    assert found["container_blkio_device_usage_total"] == {
        ("254:1", "254", "1", "Read"): 0,
        ("254:1", "254", "1", "Write"): 0,
    }


def test_threads_are_counted_by_the_kernel_while_there_is_no_sample_of_processes() -> None:
    """The pids controller answers at once, a sample of /proc may take its time."""
    used = CgroupStats(cpu_ns=1, memory_usage=1, working_set=1, processes=4)
    found = read(ContainerFigures(now=SECOND, started_at=0, used=used))
    assert found["container_threads"] == {(): 4}
    assert "container_processes" not in found


def test_a_cgroup_that_is_gone_says_nothing() -> None:
    """No 0 for what was not measured; what is in the specification is known nevertheless."""
    found = read(ContainerFigures(now=SECOND, started_at=0))
    assert found == {
        "container_threads_max": {(): 0},
        "container_last_seen": {(): 1},
        "container_start_time_seconds": {(): 0},
        "container_spec_cpu_shares": {(): 1024},
        "container_spec_cpu_period": {(): 100_000},
        "container_spec_memory_limit_bytes": {(): 0},
        "container_spec_memory_swap_limit_bytes": {(): 0},
        "container_spec_memory_reservation_limit_bytes": {(): 0},
    }


def test_network_of_a_pod() -> None:
    """Interface by interface."""
    counters = InterfaceCounters(
        rx_bytes=1, rx_packets=2, rx_errors=3, rx_dropped=4, tx_bytes=5, tx_packets=6, tx_errors=7, tx_dropped=8
    )
    found = read(PodFigures(network={"eth0": counters}), families=POD_FAMILIES)
    expected = {
        "receive_bytes": 1,
        "receive_packets": 2,
        "receive_errors": 3,
        "receive_packets_dropped": 4,
        "transmit_bytes": 5,
        "transmit_packets": 6,
        "transmit_errors": 7,
        "transmit_packets_dropped": 8,
    }
    assert found == {f"container_network_{name}_total": {("eth0",): value} for name, value in expected.items()}
