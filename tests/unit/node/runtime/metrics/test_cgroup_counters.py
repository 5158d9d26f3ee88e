"""What the kernel counts, from the texts of cgroup files."""

from interpose.node.runtime.metrics.cgroup_counters import (
    CgroupCounters,
    DeviceIo,
    HugePages,
    huge_page_files,
    huge_pages,
    parse_v1,
    parse_v2,
)

SERVICED = "254:0 Read 3\n254:0 Write 4\n254:0 Total 7\nTotal 7\n"
SERVICE_BYTES = "254:0 Read 300\n254:0 Write nonsense\n254:0 Sync 5\nTotal 305\n"


def test_files_of_v1() -> None:
    """Times in nanoseconds; a limit beyond all memory is none."""
    found = parse_v1(
        {
            "cpuacct.usage_user": "11\n",
            "cpuacct.usage_sys": "12\n",
            "cpuacct.stat": "user 500\nsystem 600\n",
            "cpu.stat": "nr_periods 5\nnr_throttled 2\nthrottled_time 77\n",
            "memory.stat": "total_cache 40\ntotal_mapped_file 41\npgfault 42\npgmajfault 43\ntotal_pgfault 99\n",
            "memory.max_usage_in_bytes": "50\n",
            "memory.failcnt": "6\n",
            "memory.kmem.usage_in_bytes": "7\n",
            "memory.soft_limit_in_bytes": "9223372036854771712\n",
            "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n",
            "pids.max": "max\n",
            "blkio.throttle.io_serviced_recursive": SERVICED,
            "blkio.throttle.io_service_bytes_recursive": SERVICE_BYTES,
        }
    )
    assert found == CgroupCounters(
        user_ns=11,
        system_ns=12,
        periods=5,
        throttled_periods=2,
        throttled_ns=77,
        cache=40,
        mapped=41,
        kernel=7,
        most_memory=50,
        limit_hits=6,
        own_page_faults=42,
        own_major_page_faults=43,
        oom_kills=3,
        io=(
            DeviceIo(device="254:0", operation="Read", bytes=300, requests=3),
            DeviceIo(device="254:0", operation="Sync", bytes=5),
            DeviceIo(device="254:0", operation="Write", requests=4),
        ),
    )


def test_an_older_v1_has_clock_ticks_only() -> None:
    """A hundred of them are a second."""
    found = parse_v1({"cpuacct.stat": "user 500\nsystem 600\n"})
    assert (found.user_ns, found.system_ns) == (5_000_000_000, 6_000_000_000)


def test_files_of_v2() -> None:
    """The kernel counts microseconds here."""
    found = parse_v2(
        {
            "cpu.stat": "usage_usec 9\nuser_usec 3\nsystem_usec 4\nnr_periods 5\nnr_throttled 2\nthrottled_usec 6\n",
            "memory.stat": "file 40\nfile_mapped 41\npgfault 42\npgmajfault 43\nkernel 44\nslab 1\n",
            "memory.peak": "50\n",
            "memory.events": "low 0\nmax 6\noom 8\noom_kill 3\n",
            "memory.low": "1000\n",
            "pids.max": "100\n",
            "io.stat": "254:0 rbytes=300 wbytes=400 rios=3 wios=4 dbytes=0 dios=0\n8:0 \n7:0 rbytes=1\n",
        }
    )
    assert found == CgroupCounters(
        user_ns=3000,
        system_ns=4000,
        periods=5,
        throttled_periods=2,
        throttled_ns=6000,
        cache=40,
        mapped=41,
        kernel=44,
        most_memory=50,
        limit_hits=6,
        own_page_faults=42,
        own_major_page_faults=43,
        reservation=1000,
        oom_kills=3,
        most_threads=100,
        io=(
            DeviceIo(device="254:0", operation="Read", bytes=300, requests=3),
            DeviceIo(device="254:0", operation="Write", bytes=400, requests=4),
            DeviceIo(device="7:0", operation="Read", bytes=1),
        ),
    )


def test_kernel_memory_where_there_is_no_sum() -> None:
    """Before Linux 5.18 its parts are added up."""
    assert parse_v2({"memory.stat": "kernel_stack 1\nslab 10\npagetables 100\n"}).kernel == 111


def test_nothing_is_known_of_a_cgroup_that_is_gone() -> None:
    """Not even that something is 0."""
    assert parse_v1(dict.fromkeys(("memory.oom_control", "cpu.stat"), "")) == CgroupCounters()
    assert parse_v2(dict.fromkeys(("memory.events", "cpu.stat", "io.stat"), "")) == CgroupCounters()


def test_huge_pages() -> None:
    """v1 knows the most there were; a size whose file is not there is left out."""
    assert huge_page_files(1, ["2MB"]) == {
        "hugetlb.2MB.usage_in_bytes": "hugetlb",
        "hugetlb.2MB.max_usage_in_bytes": "hugetlb",
    }
    assert huge_page_files(2, ["2MB", "1GB"]) == {"hugetlb.2MB.current": "hugetlb", "hugetlb.1GB.current": "hugetlb"}
    v1 = {"hugetlb.2MB.usage_in_bytes": "4\n", "hugetlb.2MB.max_usage_in_bytes": "8\n"}
    assert huge_pages(v1, ["2MB", "1GB"]) == (HugePages(size="2MB", usage=4, most=8),)
    assert huge_pages({"hugetlb.1GB.current": "0\n"}, ["1GB"]) == (HugePages(size="1GB", usage=0),)
