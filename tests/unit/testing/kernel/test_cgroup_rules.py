"""What the fake kernel accepts and refuses. Version 1 is compared with a real kernel in tests/e2e."""

import errno

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.testing.kernel.cgroup import FakeKernel


def kernel_of(version: int) -> FakeKernel:
    """A kernel with a group and one in it."""
    kernel = FakeKernel(version, bvt=True)
    kernel.make("a/b")
    return kernel


def outcome(kernel: FakeKernel, directory: str, file: str, text: str) -> str:
    """What is there after a write, or the name of the error."""
    try:
        kernel.write(kernel.path(directory, file), text)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    return kernel.get(directory, file)


@pytest.mark.parametrize(
    ("version", "file", "text", "result"),
    [
        (1, "cpu.shares", "0", "2"),
        (1, "cpu.shares", "1000000", "262144"),
        (1, "cpu.shares", "-1", "EINVAL"),
        (1, "cpu.shares", " 5", "EINVAL"),
        (2, "cpu.weight", "0", "ERANGE"),
        (2, "cpu.weight", "10001", "ERANGE"),
        (2, "cpu.weight", "-1", "EINVAL"),
        (2, "cpu.weight", "39", "39"),
        (1, "cpu.cfs_quota_us", "999", "EINVAL"),
        (1, "cpu.cfs_quota_us", "-5", "-1"),
        (1, "cpu.cfs_period_us", "999", "EINVAL"),
        (1, "cpu.cfs_burst_us", "-1", "EINVAL"),
        (2, "cpu.max", "999", "EINVAL"),
        (2, "cpu.max", "-1", "EINVAL"),
        (2, "cpu.max", "\n", "EINVAL"),
        (2, "cpu.max", "5000", "5000 100000"),
        (2, "cpu.max", "max 50000", "max 50000"),
        (2, "cpu.max", "", "max 100000"),
        (2, "cpu.max.burst", "100", "100"),
        (2, "cpu.idle", "2", "EINVAL"),
        (2, "cpu.bvt_warp_ns", "-1", "-1"),
        (2, "cpu.bvt_warp_ns", "3", "EINVAL"),
        (1, "cpuset.cpus", "8", "ERANGE"),
        (1, "cpuset.cpus", "99999", "ERANGE"),
        (1, "cpuset.mems", "2", "EINVAL"),
        (2, "cpuset.cpus", "x", "EINVAL"),
        (2, "cpuset.cpus", ",3,1", "1,3"),
        (2, "cpuset.cpus", "\n", ""),
        (1, "memory.limit_in_bytes", "5000", "4096"),
        (1, "memory.limit_in_bytes", "-1", "9223372036854771712"),
        (1, "memory.limit_in_bytes", "max", "EINVAL"),
        (2, "memory.max", "5000", "4096"),
        (2, "memory.max", "max", "max"),
        (2, "memory.max", "-1", "EINVAL"),
    ],
)
def test_one_write(version: int, file: str, text: str, result: str) -> None:
    """On a group that has all defaults."""
    assert outcome(kernel_of(version), "a/b", file, text) == result


def test_quotas_fit_into_each_other_on_v1() -> None:
    """Measured in CPUs: the period counts, and so does a limit two levels above."""
    kernel = kernel_of(1)
    kernel.make("a/b/c")
    assert outcome(kernel, "a", "cpu.cfs_quota_us", "50000") == "50000"
    assert outcome(kernel, "a/b/c", "cpu.cfs_quota_us", "60000") == "EINVAL"
    assert outcome(kernel, "a/b/c", "cpu.cfs_quota_us", "40000") == "40000"
    assert outcome(kernel, "a/b/c", "cpu.cfs_period_us", "50000") == "EINVAL"
    assert outcome(kernel, "a", "cpu.cfs_quota_us", "30000") == "EINVAL"
    assert outcome(kernel, "a", "cpu.cfs_quota_us", "-1") == "-1"


def test_quotas_are_free_on_v2() -> None:
    """The smaller one counts."""
    kernel = kernel_of(2)
    assert outcome(kernel, "a", "cpu.max", "50000") == "50000 100000"
    assert outcome(kernel, "a/b", "cpu.max", "60000") == "60000 100000"
    assert outcome(kernel, "a", "cpu.max", "30000") == "30000 100000"


@pytest.mark.parametrize(("version", "quota"), [(1, "cpu.cfs_quota_us"), (2, "cpu.max")])
def test_a_burst_is_not_above_the_quota(version: int, quota: str) -> None:
    """Whichever is changed."""
    kernel = kernel_of(version)
    burst = "cpu.cfs_burst_us" if version == 1 else "cpu.max.burst"
    outcome(kernel, "a", quota, "50000")
    assert outcome(kernel, "a", burst, "50001") == "EINVAL"
    assert outcome(kernel, "a", burst, "50000") == "50000"
    assert outcome(kernel, "a", quota, "40000") == "EINVAL"


@pytest.mark.parametrize(
    ("version", "file", "idle", "default"), [(1, "cpu.shares", "3", "1024"), (2, "cpu.weight", "0", "100")]
)
def test_an_idle_group_has_no_shares(version: int, file: str, idle: str, default: str) -> None:
    """Those it had are forgotten."""
    kernel = kernel_of(version)
    outcome(kernel, "a", file, "512")
    outcome(kernel, "a", "cpu.idle", "1")
    assert kernel.get("a", file) == idle
    assert outcome(kernel, "a", file, "512") == "EINVAL"
    outcome(kernel, "a", "cpu.idle", "1")
    outcome(kernel, "a", "cpu.idle", "0")
    assert kernel.get("a", file) == default


def test_cpusets_fit_into_each_other_on_v1() -> None:
    """A parent cannot drop what a child has, a child cannot take what its parent lacks."""
    kernel = kernel_of(1)
    assert kernel.get("a/b", "cpuset.cpus") == "0-7"
    assert outcome(kernel, "a", "cpuset.cpus", "0-3") == "EBUSY"
    assert outcome(kernel, "a/b", "cpuset.cpus", "0-1") == "0-1"
    assert outcome(kernel, "a", "cpuset.cpus", "0-3") == "0-3"
    assert outcome(kernel, "a/b", "cpuset.cpus", "4") == "EACCES"
    assert kernel.get("a/b", "cpuset.effective_cpus") == "0-1"
    kernel.spawn("a/b", 7)
    assert outcome(kernel, "a/b", "cpuset.cpus", "\n") == "ENOSPC"
    kernel.kill(7)
    assert outcome(kernel, "a/b", "cpuset.cpus", "\n") == ""


def test_cpusets_are_clipped_on_v2() -> None:
    """One's own stays as it was written; what is in force is not more than the parent's."""
    kernel = kernel_of(2)
    kernel.spawn("a/b", 7)
    outcome(kernel, "a/b", "cpuset.cpus", "2-5")
    outcome(kernel, "a", "cpuset.cpus", "0-3")
    assert kernel.get("a/b", "cpuset.cpus") == "2-5"
    assert kernel.get("a/b", "cpuset.cpus.effective") == "2-3"
    outcome(kernel, "a", "cpuset.cpus", "0-1")
    assert kernel.get("a/b", "cpuset.cpus.effective") == "0-1"
    assert outcome(kernel, "a/b", "cpuset.cpus", "\n") == ""


@pytest.mark.parametrize(("version", "migrates", "pages"), [(1, "0", "0"), (1, "1", "1"), (1, "7", "1"), (2, "", "1")])
def test_pages_follow_to_other_memory_nodes(version: int, migrates: str, pages: str) -> None:
    """On v2 always, on v1 if the group says so; nodes that are only added take none."""
    kernel = kernel_of(version)
    kernel.group("a").pages = CpuSet.of([0])
    if version == 1:
        outcome(kernel, "a/b", "cpuset.mems", "1")
        assert outcome(kernel, "a", "cpuset.memory_migrate", migrates) == str(int(migrates != "0"))
    outcome(kernel, "a", "cpuset.mems", "0-1")
    assert str(kernel.group("a").pages) == "0"
    outcome(kernel, "a", "cpuset.mems", "1")
    assert str(kernel.group("a").pages) == pages


def test_memory_in_use_is_not_taken_away_on_v1() -> None:
    """The kernel tries, and gives up."""
    kernel = kernel_of(1)
    kernel.usage["a"] = 10_000_000
    assert kernel.get("a", "memory.usage_in_bytes") == "10000000"
    assert outcome(kernel, "a", "memory.limit_in_bytes", "5000000") == "EBUSY"
    assert outcome(kernel, "a", "memory.limit_in_bytes", "20000000") == "19996672"


def test_memory_in_use_is_taken_away_on_v2() -> None:
    """By ending who uses it."""
    kernel = kernel_of(2)
    kernel.spawn("a/b", 7)
    kernel.usage["a"] = 10_000_000
    assert kernel.get("a", "memory.current") == "10000000"
    assert outcome(kernel, "a", "memory.max", "5000000") == "4997120"
    assert kernel.out_of_memory == [7]
    assert kernel.get("a/b", "cgroup.procs") == ""


@pytest.mark.parametrize(
    ("file", "text", "error"),
    [
        ("cpu.shares", "2", "EINVAL"),
        ("cpu.cfs_quota_us", "-1", "EINVAL"),
        ("cpu.idle", "1", "EINVAL"),
        ("cpuset.cpus", "0", "EACCES"),
        ("memory.limit_in_bytes", "-1", "EINVAL"),
    ],
)
def test_the_root_cannot_be_changed(file: str, text: str, error: str) -> None:
    """Whatever is tried."""
    assert outcome(kernel_of(1), "", file, text) == error


def test_processes_move() -> None:
    """By writing their number; one that does not exist cannot."""
    kernel = kernel_of(2)
    kernel.spawn("a", 7, threads=(8,))
    assert outcome(kernel, "a/b", "cgroup.procs", "7") == "7"
    assert kernel.get("a/b", "cgroup.threads") == "7\n8"
    assert outcome(kernel, "a/b", "cgroup.procs", "9") == "ESRCH"
