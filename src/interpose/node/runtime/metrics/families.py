"""cAdvisor's metrics of containers and pods, family by family: name, meaning, type, labels, and how it is read. Pure.

critest wants a value of every family that has a descriptor, with as many labels: what the kernel does not count is
0 in a container that runs, and a family that this node cannot have at all (pressure without cgroup v2, huge pages
without their controller) has no descriptor either. Values are whole numbers in CRI, so times are whole seconds.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeAlias, TypeVar

from interpose.node.runtime.cgroups.usage import InterfaceCounters, PressurePair
from interpose.node.runtime.metrics.cgroup_counters import DeviceIo
from interpose.node.runtime.metrics.values import ContainerFigures, FilesystemSpace, PodFigures, ProcessCounts

BASE_LABELS: Final = ("id", "name", "image")
_SECOND: Final = 1_000_000_000
_MICROSECONDS: Final = 1_000_000
_SHARES: Final = 1024  # the kernel's default
_PERIOD: Final = 100_000

F = TypeVar("F")
# Values of the further labels of a family, and the value; None is not known.
Reading: TypeAlias = Iterable[tuple[tuple[str, ...], int | None]]


class MetricKind(Enum):
    """As CRI has them."""

    COUNTER = "counter"
    GAUGE = "gauge"


class NodeOffer(Enum):
    """What not every node can tell."""

    PRESSURE = "cgroup v2 with pressure stall information"
    HUGE_PAGES = "the hugetlb controller"
    MOST_HUGE_PAGES = "the hugetlb controller of cgroup v1"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricFamily(Generic[F]):
    """One name. `labels` come after those that all have."""

    name: str
    help: str
    kind: MetricKind
    read: Callable[[F], Reading]
    labels: tuple[str, ...] = ()
    needs: NodeOffer | None = None


def _labelled(
    *,
    name: str,
    help: str,  # noqa: A002 - the family's own word
    kind: MetricKind,
    read: Callable[[ContainerFigures], Reading],
    labels: tuple[str, ...],
    needs: NodeOffer | None = None,
) -> MetricFamily[ContainerFigures]:
    return MetricFamily(name=name, help=help, kind=kind, read=read, labels=labels, needs=needs)


def _counter(name: str, text: str, read: Callable[[ContainerFigures], int | None]) -> MetricFamily[ContainerFigures]:
    return MetricFamily(name=name, help=text, kind=MetricKind.COUNTER, read=lambda found: [((), read(found))])


def _gauge(name: str, text: str, read: Callable[[ContainerFigures], int | None]) -> MetricFamily[ContainerFigures]:
    return MetricFamily(name=name, help=text, kind=MetricKind.GAUGE, read=lambda found: [((), read(found))])


def _seconds(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // _SECOND


def _cpu(found: ContainerFigures, value: int | None) -> int | None:
    """0 where CPU time is counted, and this is not."""
    return None if found.used.cpu_ns is None else value or 0


def _memory(found: ContainerFigures, value: int | None) -> int | None:
    """0 where memory is counted, and this is not."""
    return None if found.used.memory_usage is None else value or 0


def _failures(found: ContainerFigures) -> Reading:
    used, counters = found.used, found.counters
    yield ("pgfault", "container"), _memory(found, counters.own_page_faults)
    yield ("pgfault", "hierarchy"), _memory(found, used.page_faults)
    yield ("pgmajfault", "container"), _memory(found, counters.own_major_page_faults)
    yield ("pgmajfault", "hierarchy"), _memory(found, used.major_page_faults)


def _io(found: ContainerFigures) -> tuple[DeviceIo, ...]:
    """I/O counters; a container without any has 0 on the device of its file system."""
    if found.counters.io or found.space is None:
        return found.counters.io
    return tuple(
        DeviceIo(device=found.space.number, operation=operation, bytes=0, requests=0) for operation in ("Read", "Write")
    )


def _device_usage(found: ContainerFigures) -> Reading:
    for io in _io(found):
        major, _, minor = io.device.partition(":")
        yield (found.devices.get(io.device, io.device), major, minor, io.operation), io.bytes


def _io_family(name: str, text: str, operation: str, field: str) -> MetricFamily[ContainerFigures]:
    def read(found: ContainerFigures) -> Reading:
        for io in _io(found):
            if io.operation == operation:
                yield (found.devices.get(io.device, io.device),), getattr(io, field)

    return MetricFamily(name=name, help=text, kind=MetricKind.COUNTER, read=read, labels=("device",))


def _space_family(
    name: str, text: str, value: Callable[[ContainerFigures, FilesystemSpace], int | None]
) -> MetricFamily[ContainerFigures]:
    def read(found: ContainerFigures) -> Reading:
        if found.space is not None:
            yield (found.space.device,), value(found, found.space)

    return MetricFamily(name=name, help=text, kind=MetricKind.GAUGE, read=read, labels=("device",))


def _process_family(name: str, text: str, value: Callable[[ProcessCounts], int]) -> MetricFamily[ContainerFigures]:
    return _gauge(name, text, lambda found: None if found.processes is None else value(found.processes))


def _states(found: ContainerFigures) -> Reading:
    if found.processes is not None:
        for state, count in found.processes.states.items():
            yield (state,), count


def _threads(found: ContainerFigures) -> int | None:
    # Of the same moment as the processes if there is one: a container has no fewer threads than processes. The pids
    # controller counts threads too, but now.
    return found.used.processes if found.processes is None else found.processes.threads


def _open_files(found: ContainerFigures) -> Reading:
    yield ("max_open_files",), None if found.processes is None else found.processes.open_files_limit


def _pressures(
    name: str, text: str, pair: Callable[[ContainerFigures], PressurePair | None]
) -> Iterable[MetricFamily[ContainerFigures]]:
    def stalled(found: ContainerFigures) -> Reading:
        both = pair(found)
        yield (), None if both is None else both.full.total // _MICROSECONDS

    def waiting(found: ContainerFigures) -> Reading:
        both = pair(found)
        yield (), None if both is None else both.some.total // _MICROSECONDS

    for word, share, read in (("stalled", "no task", stalled), ("waiting", "not every task", waiting)):
        yield MetricFamily(
            name=f"container_pressure_{name}_{word}_seconds_total",
            help=f"Time in which {share} of the container could go on for want of {text}, in seconds",
            kind=MetricKind.COUNTER,
            read=read,
            needs=NodeOffer.PRESSURE,
        )


def _network(
    direction: str, field: str, text: str, value: Callable[[InterfaceCounters], int]
) -> MetricFamily[PodFigures]:
    return MetricFamily(
        name=f"container_network_{direction}_{field}_total",
        help=text,
        kind=MetricKind.COUNTER,
        read=lambda found: [((name,), value(counters)) for name, counters in found.network.items()],
        labels=("interface",),
    )


_CPU: Final = (
    _labelled(
        name="container_cpu_usage_seconds_total",
        help="CPU time used, in seconds",
        kind=MetricKind.COUNTER,
        read=lambda found: [(("total",), _seconds(found.used.cpu_ns))],
        labels=("cpu",),
    ),
    _counter(
        "container_cpu_user_seconds_total",
        "CPU time used outside the kernel, in seconds",
        lambda found: _cpu(found, _seconds(found.counters.user_ns)),
    ),
    _counter(
        "container_cpu_system_seconds_total",
        "CPU time used by the kernel for the container, in seconds",
        lambda found: _cpu(found, _seconds(found.counters.system_ns)),
    ),
    _counter(
        "container_cpu_cfs_periods_total",
        "Periods of the CPU quota that have passed",
        lambda found: _cpu(found, found.counters.periods),
    ),
    _counter(
        "container_cpu_cfs_throttled_periods_total",
        "Periods in which the CPU quota was used up",
        lambda found: _cpu(found, found.counters.throttled_periods),
    ),
    _counter(
        "container_cpu_cfs_throttled_seconds_total",
        "Time in which the CPU quota kept the container waiting, in seconds",
        lambda found: _cpu(found, _seconds(found.counters.throttled_ns)),
    ),
)

_MEMORY: Final = (
    _gauge("container_memory_usage_bytes", "Memory in use, page cache included", lambda found: found.used.memory_usage),
    _gauge(
        "container_memory_working_set_bytes",
        "Memory in use without the page cache that was not used of late",
        lambda found: found.used.working_set,
    ),
    _gauge(
        "container_memory_max_usage_bytes",
        "The most memory that was ever in use",
        lambda found: _memory(found, found.counters.most_memory),
    ),
    _gauge("container_memory_rss", "Memory that no file is behind", lambda found: _memory(found, found.used.rss)),
    _gauge("container_memory_cache", "Bytes in the page cache", lambda found: _memory(found, found.counters.cache)),
    _gauge(
        "container_memory_mapped_file",
        "Bytes of files that are mapped into memory",
        lambda found: _memory(found, found.counters.mapped),
    ),
    _gauge(
        "container_memory_kernel_usage",
        "Memory of the kernel for the container",
        lambda found: _memory(found, found.counters.kernel),
    ),
    _gauge("container_memory_swap", "Bytes in swap", lambda found: _memory(found, found.used.swap_usage)),
    _counter(
        "container_memory_failcnt",
        "How often the memory limit was met",
        lambda found: _memory(found, found.counters.limit_hits),
    ),
    _labelled(
        name="container_memory_failures_total",
        help="Page faults, and those that had to read from a disk",
        kind=MetricKind.COUNTER,
        read=_failures,
        labels=("failure_type", "scope"),
    ),
    _counter(
        "container_oom_events_total",
        "How often the kernel killed a process for want of memory",
        lambda found: _memory(found, found.counters.oom_kills),
    ),
    _labelled(
        name="container_hugetlb_usage_bytes",
        help="Huge pages in use, in bytes",
        kind=MetricKind.GAUGE,
        read=lambda found: [((pages.size,), pages.usage) for pages in found.huge_pages],
        labels=("pagesize",),
        needs=NodeOffer.HUGE_PAGES,
    ),
    _labelled(
        name="container_hugetlb_max_usage_bytes",
        help="The most huge pages that were ever in use, in bytes",
        kind=MetricKind.GAUGE,
        read=lambda found: [((pages.size,), pages.most) for pages in found.huge_pages],
        labels=("pagesize",),
        needs=NodeOffer.MOST_HUGE_PAGES,
    ),
)

_DISK: Final = (
    _space_family(
        "container_fs_usage_bytes", "Bytes that the container has written to its layer", lambda found, _: found.written
    ),
    _space_family(
        "container_fs_limit_bytes", "Size of the file system the container writes to", lambda _, space: space.bytes
    ),
    _space_family(
        "container_fs_inodes_total", "Inodes of the file system the container writes to", lambda _, space: space.inodes
    ),
    _space_family(
        "container_fs_inodes_free", "Inodes that are free on that file system", lambda _, space: space.inodes_free
    ),
    _io_family("container_fs_reads_total", "Reads from block devices", "Read", "requests"),
    _io_family("container_fs_reads_bytes_total", "Bytes read from block devices", "Read", "bytes"),
    _io_family("container_fs_writes_total", "Writes to block devices", "Write", "requests"),
    _io_family("container_fs_writes_bytes_total", "Bytes written to block devices", "Write", "bytes"),
    _labelled(
        name="container_blkio_device_usage_total",
        help="Bytes moved from and to block devices, by operation",
        kind=MetricKind.COUNTER,
        read=_device_usage,
        labels=("device", "major", "minor", "operation"),
    ),
)

_PROCESSES: Final = (
    _process_family("container_processes", "Processes in the container", lambda counts: counts.processes),
    _gauge("container_threads", "Threads in the container", _threads),
    _gauge(
        "container_threads_max",
        "Threads there may be in the container; 0 is no limit",
        lambda found: found.counters.most_threads or 0,
    ),
    _process_family("container_file_descriptors", "Open file descriptors", lambda counts: counts.descriptors),
    _process_family("container_sockets", "Open sockets", lambda counts: counts.sockets),
    _labelled(
        name="container_tasks_state",
        help="Threads in the container, by state",
        kind=MetricKind.GAUGE,
        read=_states,
        labels=("state",),
    ),
    _labelled(
        name="container_ulimits_soft",
        help="Soft limits of the first process of the container",
        kind=MetricKind.GAUGE,
        read=_open_files,
        labels=("ulimit",),
    ),
)

_SPEC: Final = (
    _gauge("container_last_seen", "When these metrics were read, in seconds", lambda found: _seconds(found.now)),
    _gauge(
        "container_start_time_seconds",
        "When the container was started, in seconds since 1970",
        lambda found: _seconds(found.started_at),
    ),
    _gauge("container_spec_cpu_shares", "CPU shares in force", lambda found: found.limits.cpu_shares or _SHARES),
    _gauge(
        "container_spec_cpu_period",
        "Period of the CPU quota, in microseconds",
        lambda found: found.limits.cpu_period or _PERIOD,
    ),
    _gauge(
        "container_spec_cpu_quota",
        "CPU time in every period, in microseconds; there is none without a limit",
        lambda found: found.limits.cpu_quota if found.limits.cpu_quota > 0 else None,
    ),
    _gauge("container_spec_memory_limit_bytes", "Memory limit; 0 is none", lambda found: max(found.limits.memory, 0)),
    _gauge(
        "container_spec_memory_swap_limit_bytes",
        "Limit of memory and swap together; 0 is none",
        lambda found: max(found.limits.memory_and_swap, 0),
    ),
    _gauge(
        "container_spec_memory_reservation_limit_bytes",
        "Memory the kernel takes last, when it runs short; 0 is none",
        lambda found: found.counters.reservation or 0,
    ),
)

_PRESSURE: Final = (
    *_pressures("cpu", "CPU time", lambda found: found.used.cpu_pressure),
    *_pressures("memory", "memory", lambda found: found.used.memory_pressure),
    *_pressures("io", "I/O", lambda found: found.used.io_pressure),
)

CONTAINER_FAMILIES: Final[tuple[MetricFamily[ContainerFigures], ...]] = (
    *(*_CPU, *_MEMORY, *_DISK, *_PROCESSES, *_SPEC, *_PRESSURE),
)
POD_FAMILIES: Final[tuple[MetricFamily[PodFigures], ...]] = (
    _network("receive", "bytes", "Bytes received", lambda counters: counters.rx_bytes),
    _network("receive", "packets", "Packets received", lambda counters: counters.rx_packets),
    _network("receive", "packets_dropped", "Received packets dropped", lambda counters: counters.rx_dropped),
    _network("receive", "errors", "Packets received with errors", lambda counters: counters.rx_errors),
    _network("transmit", "bytes", "Bytes sent", lambda counters: counters.tx_bytes),
    _network("transmit", "packets", "Packets sent", lambda counters: counters.tx_packets),
    _network("transmit", "packets_dropped", "Packets dropped instead of sent", lambda counters: counters.tx_dropped),
    _network("transmit", "errors", "Packets that could not be sent", lambda counters: counters.tx_errors),
)
