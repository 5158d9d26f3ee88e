"""Usage from the texts of cgroup files."""

from interpose.node.runtime.cgroups.usage import CgroupStats, Pressure, oom_kills, parse_v1, parse_v2

PRESSURE = "some avg10=1.50 avg60=2.00 avg300=3.00 total=42\nfull avg10=0.10 avg60=0.20 avg300=0.30 total=7\n"


def test_files_of_v1() -> None:
    """Working set without what can be dropped, swap as what is above memory."""
    found = parse_v1(
        {
            "cpuacct.usage": "123\n",
            "memory.usage_in_bytes": "1000\n",
            "memory.limit_in_bytes": "5000\n",
            "memory.stat": "rss 1\ntotal_rss 300\ntotal_inactive_file 100\ntotal_pgfault 5\ntotal_pgmajfault 2\n",
            "memory.memsw.usage_in_bytes": "1200\n",
            "memory.memsw.limit_in_bytes": "6000\n",
            "pids.current": "4\n",
        }
    )
    assert found == CgroupStats(
        cpu_ns=123,
        memory_usage=1000,
        working_set=900,
        rss=300,
        page_faults=5,
        major_page_faults=2,
        memory_limit=5000,
        swap_usage=200,
        swap_limit=1000,
        processes=4,
    )
    assert found.memory_available == 4100


def test_files_of_v2() -> None:
    """With pressure."""
    found = parse_v2(
        {
            "cpu.stat": "usage_usec 5\nuser_usec 3\nodd x\n",
            "memory.current": "1000\n",
            "memory.max": "max\n",
            "memory.stat": "anon 300\ninactive_file 2000\npgfault 5\npgmajfault 2\n",
            "memory.swap.current": "9\n",
            "memory.swap.max": "10\n",
            "pids.current": "4\n",
            "cpu.pressure": PRESSURE,
            "memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
            "io.pressure": "full nonsense\n",
        }
    )
    assert (found.cpu_ns, found.working_set, found.rss, found.memory_limit) == (5000, 0, 300, None)
    assert (found.swap_usage, found.swap_limit, found.memory_available) == (9, 10, None)
    assert found.cpu_pressure is not None
    assert found.cpu_pressure.some == Pressure(total=42, avg10=1.5, avg60=2.0, avg300=3.0)
    assert found.cpu_pressure.full.total == 7
    assert found.memory_pressure is not None
    assert found.memory_pressure.full == Pressure()
    assert found.io_pressure is None


def test_files_that_are_not_there() -> None:
    """Nothing is known, nothing is zero."""
    assert parse_v1({}) == CgroupStats()
    assert parse_v2({}) == CgroupStats()


def test_nonsense_is_not_known() -> None:
    """Also a pressure line without its numbers, and the v1 limit that means none."""
    assert parse_v1({"cpuacct.usage": "-1", "memory.limit_in_bytes": str(2**63 - 4096)}) == CgroupStats()
    assert parse_v2({"cpu.pressure": "some avg10=x\n"}).cpu_pressure is None


def test_kills_are_counted() -> None:
    """In the files of both versions."""
    assert oom_kills("oom 3\noom_kill 2\n") == 2
    assert oom_kills("oom_kill_disable 0\nunder_oom 0\noom_kill 1\n") == 1
    assert oom_kills("") == 0
