"""CRI statistics from usage. Values in, messages out; the only state is the last CPU sample.

An unknown value is left out of a message: zero would be a measurement.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from interpose.cri.messages import cri
from interpose.node.runtime.cgroups.usage import CgroupStats, InterfaceCounters, Pressure, PressurePair

_DEFAULT_INTERFACE: Final = "eth0"
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FsUsage:
    """Disk usage of a container: bytes and inodes, counted at `at` (nanoseconds)."""

    bytes: int
    inodes: int
    at: int


class CpuRate:
    """The CPU usage rate of a container or pod between two samples. Belongs to its entry."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: tuple[int, int, int | None] | None = None

    def rate(self, used: int | None, at: int) -> int | None:
        """Nanoseconds of CPU time per second; None for the first sample. Samples too close give the last rate."""
        if used is None:
            return None
        last = self._last
        if last is None or used < last[1] or at < last[0]:  # another counter, or the clock was set back
            self._last = (at, used, None)
            return None
        if at - last[0] < _SECOND // 10:
            return last[2]
        rate = (used - last[1]) * _SECOND // (at - last[0])
        self._last = (at, used, rate)
        return rate


def container_stats(
    attributes: cri.ContainerAttributes,
    used: CgroupStats | None,
    *,
    at: int,
    rate: int | None = None,
    written: FsUsage | None = None,
    mountpoint: str = "",
) -> cri.ContainerStats:
    """Statistics of a container; `used` is None if it does not run, `mountpoint` is the folder of its files."""
    message = cri.ContainerStats(attributes=attributes)
    if used is not None:
        _cpu(message.cpu, used, rate, at)
        _memory(message.memory, used, at)
        _swap(message.swap, used, at)
        if used.io_pressure is not None:
            message.io.timestamp = at
            _pressures(message.io.psi, used.io_pressure)
    if written is not None:
        layer = message.writable_layer
        layer.timestamp = written.at
        layer.fs_id.mountpoint = mountpoint
        layer.used_bytes.value = written.bytes
        layer.inodes_used.value = written.inodes
    return message


def pod_stats(
    attributes: cri.PodSandboxAttributes,
    used: CgroupStats | None,
    *,
    at: int,
    rate: int | None = None,
    network: Mapping[str, InterfaceCounters] | None = None,
    containers: Iterable[cri.ContainerStats] = (),
) -> cri.PodSandboxStats:
    """Statistics of a pod: of its own cgroup, its interfaces and its containers. No network for the host's."""
    message = cri.PodSandboxStats(attributes=attributes)
    linux = message.linux
    if used is not None:
        _cpu(linux.cpu, used, rate, at)
        _memory(linux.memory, used, at)
        if used.processes is not None:
            linux.process.timestamp = at
            linux.process.process_count.value = used.processes
        if used.io_pressure is not None:
            linux.io.timestamp = at
            _pressures(linux.io.psi, used.io_pressure)
    if network:
        linux.network.timestamp = at
        for name, counters in network.items():
            _interface(_interface_message(linux.network, name), name, counters)
    linux.containers.extend(containers)
    return message


def _interface_message(usage: Any, name: str) -> Any:
    return usage.default_interface if name == _DEFAULT_INTERFACE else usage.interfaces.add()


def _cpu(message: Any, used: CgroupStats, rate: int | None, at: int) -> None:
    message.timestamp = at
    _set(message.usage_core_nano_seconds, used.cpu_ns)
    _set(message.usage_nano_cores, rate)
    if used.cpu_pressure is not None:
        _pressures(message.psi, used.cpu_pressure)


def _memory(message: Any, used: CgroupStats, at: int) -> None:
    message.timestamp = at
    for field, value in (
        (message.working_set_bytes, used.working_set),
        (message.available_bytes, used.memory_available),
        (message.usage_bytes, used.memory_usage),
        (message.rss_bytes, used.rss),
        (message.page_faults, used.page_faults),
        (message.major_page_faults, used.major_page_faults),
    ):
        _set(field, value)
    if used.memory_pressure is not None:
        _pressures(message.psi, used.memory_pressure)


def _swap(message: Any, used: CgroupStats, at: int) -> None:
    if used.swap_usage is None:
        return
    message.timestamp = at
    _set(message.swap_usage_bytes, used.swap_usage)
    if used.swap_limit is not None:
        _set(message.swap_available_bytes, max(used.swap_limit - used.swap_usage, 0))


def _set(field: Any, value: int | None) -> None:
    if value is not None:
        field.value = value
        field.SetInParent()


def _interface(message: Any, name: str, counters: InterfaceCounters) -> None:
    message.name = name
    for field, value in (
        (message.rx_bytes, counters.rx_bytes),
        (message.rx_errors, counters.rx_errors),
        (message.tx_bytes, counters.tx_bytes),
        (message.tx_errors, counters.tx_errors),
    ):
        _set(field, value)


def _pressures(message: Any, pair: PressurePair) -> None:
    _pressure(message.Some, pair.some)
    _pressure(message.Full, pair.full)


def _pressure(message: Any, line: Pressure) -> None:
    message.Total, message.Avg10, message.Avg60, message.Avg300 = line.total, line.avg10, line.avg60, line.avg300
    message.SetInParent()
