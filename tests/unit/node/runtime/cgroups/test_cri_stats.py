"""Usage as CRI's statistics."""

from interpose.cri.messages import cri
from interpose.node.runtime.cgroups.cri_stats import CpuRate, FsUsage, container_stats, pod_stats
from interpose.node.runtime.cgroups.usage import CgroupStats, InterfaceCounters, Pressure, PressurePair

PAIR = PressurePair(some=Pressure(total=5, avg10=1.0), full=Pressure())
USED = CgroupStats(
    cpu_ns=10,
    memory_usage=100,
    working_set=80,
    memory_limit=200,
    rss=0,
    swap_usage=3,
    swap_limit=10,
    processes=2,
    cpu_pressure=PAIR,
    memory_pressure=PAIR,
    io_pressure=PAIR,
)
CONTAINER = cri.ContainerAttributes(id="c")
POD = cri.PodSandboxAttributes(id="p")


def test_a_container_that_runs() -> None:
    """What is known is there, a zero too; what is not known is absent."""
    written = FsUsage(bytes=7, inodes=2, at=4)
    found = container_stats(CONTAINER, USED, at=5, rate=9, written=written, mountpoint="/r")
    assert found.attributes.id == "c"
    assert (found.cpu.timestamp, found.cpu.usage_core_nano_seconds.value, found.cpu.usage_nano_cores.value) == (
        5,
        10,
        9,
    )
    assert found.memory.available_bytes.value == 120
    assert found.memory.HasField("rss_bytes")
    assert not found.memory.HasField("page_faults")
    assert (found.swap.swap_usage_bytes.value, found.swap.swap_available_bytes.value) == (3, 7)
    assert found.cpu.psi.Some.Total == found.memory.psi.Some.Total == found.io.psi.Some.Total == 5
    layer = found.writable_layer
    assert (layer.timestamp, layer.used_bytes.value, layer.inodes_used.value) == (4, 7, 2)
    assert layer.fs_id.mountpoint == "/r"


def test_a_container_that_does_not_run() -> None:
    """It has written something, and uses nothing."""
    found = container_stats(CONTAINER, None, at=5, written=FsUsage(bytes=7, inodes=2, at=4))
    assert not found.HasField("cpu")
    assert found.writable_layer.used_bytes.value == 7


def test_little_known() -> None:
    """Kernels without swap and pressure."""
    found = container_stats(CONTAINER, CgroupStats(cpu_ns=1), at=5)
    for field in ("swap", "io", "writable_layer"):
        assert not found.HasField(field)
    assert not found.cpu.HasField("usage_nano_cores")
    without_limit = container_stats(CONTAINER, CgroupStats(swap_usage=1), at=5)
    assert not without_limit.swap.HasField("swap_available_bytes")


def test_a_pod() -> None:
    """Its interfaces, processes and containers; eth0 is the first one."""
    counters = InterfaceCounters(
        rx_bytes=1, rx_packets=1, rx_errors=0, rx_dropped=0, tx_bytes=2, tx_packets=1, tx_errors=0, tx_dropped=0
    )
    inner = container_stats(CONTAINER, USED, at=5)
    found = pod_stats(POD, USED, at=5, network={"eth0": counters, "net1": counters}, containers=[inner]).linux
    assert found.network.default_interface.name == "eth0"
    assert found.network.default_interface.HasField("rx_errors")
    assert [one.name for one in found.network.interfaces] == ["net1"]
    assert found.process.process_count.value == 2
    assert [one.attributes.id for one in found.containers] == ["c"]
    assert found.io.psi.Some.Total == 5


def test_a_pod_nothing_is_known_of() -> None:
    """Neither cgroup nor network of its own."""
    found = pod_stats(POD, None, at=5).linux
    assert not found.HasField("cpu")
    assert not found.HasField("network")
    assert not pod_stats(POD, CgroupStats(), at=5).linux.HasField("process")


def test_how_fast_time_is_used() -> None:
    """Between two looks; if too close, it is the last answer; a fallen count or a clock put back starts over."""
    cpu = CpuRate()
    second = 10**9
    assert cpu.rate(None, 0) is None
    assert cpu.rate(0, 0) is None
    assert cpu.rate(second, 2 * second) == second // 2
    assert cpu.rate(2 * second, 2 * second + 1) == second // 2
    assert cpu.rate(5, 4 * second) is None
    assert cpu.rate(5, 1 * second) is None
    assert cpu.rate(5 + second, 2 * second) == second
