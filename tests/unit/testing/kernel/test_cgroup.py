"""The fake kernel: files, directories, processes, failures. Its rules are in test_fakecgrouprules."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from interpose.core.model.cgroup import KubeQos, Parameter
from interpose.host.cgroup.files import CgroupFiles, KernelFiles
from interpose.host.cgroup.paths import Driver
from interpose.host.cgroup.tree import CgroupTree
from interpose.testing.kernel.cgroup import FakeKernel, build_tree, plant

ROOT = "/sys/fs/cgroup"


def test_v1_has_a_directory_per_hierarchy() -> None:
    """A group made by others is in all of them; links lead to the joined one."""
    kernel = FakeKernel(1)
    files: CgroupFiles = kernel
    kernel.make("kubepods/pod1")
    assert files.directories(ROOT) == ["cpu,cpuacct", "cpuset", "memory"]
    for name in ("cpu", "cpu,cpuacct", "cpuset", "memory"):
        assert files.directories(f"{ROOT}/{name}/kubepods") == ["pod1"]
    assert files.read(f"{ROOT}/cpu/kubepods/cpu.shares") == "1024\n"
    assert files.exists(f"{ROOT}/cpuset/kubepods/pod1/cpuset.cpus")
    assert not files.exists(f"{ROOT}/cpuset/kubepods/pod1/cpu.shares")
    assert kernel.path("kubepods", "cpu.shares") == f"{ROOT}/cpu,cpuacct/kubepods/cpu.shares"


def test_v2_has_one_tree() -> None:
    """Its root lacks what only groups have."""
    kernel = FakeKernel(2)
    kernel.make("kubepods/pod1")
    assert kernel.directories(ROOT) == ["kubepods"]
    assert kernel.get("kubepods", "cpu.max") == "max 100000"
    assert kernel.exists(f"{ROOT}/cgroup.controllers")
    assert not kernel.exists(f"{ROOT}/cpu.max")
    assert kernel.path("", "cgroup.procs") == f"{ROOT}/cgroup.procs"


def test_what_a_kernel_lacks_can_be_chosen() -> None:
    """Group identity is rare, idle groups are new."""
    plain, rich = FakeKernel(2, idle=False), FakeKernel(2, bvt=True, sysctls={"sched_core": 0})
    for kernel in (plain, rich):
        kernel.make("a")
    assert not plain.exists(f"{ROOT}/a/cpu.idle")
    assert not plain.exists(f"{ROOT}/a/cpu.bvt_warp_ns")
    assert not plain.exists("/proc/sys/kernel/sched_group_identity_enabled")
    assert rich.get("a", "cpu.bvt_warp_ns") == "0"
    assert rich.read("/proc/sys/kernel/sched_group_identity_enabled") == "0\n"
    assert rich.read("/proc/sys/kernel/sched_core") == "0\n"
    assert rich.exists("/proc/sys/kernel")


def test_a_group_with_something_in_it_stays() -> None:
    """Children or processes."""
    kernel = FakeKernel(2)
    kernel.make("a/b")
    kernel.spawn("a/b", 7)
    for directory in ("a", "a/b"):
        with pytest.raises(OSError, match="busy"):
            kernel.remove(directory)
        with pytest.raises(OSError, match="busy"):
            kernel.remove_directory(f"{ROOT}/{directory}")
    kernel.kill(7)
    kernel.remove("a/b")
    kernel.remove_directory(f"{ROOT}/a")
    assert kernel.directories(ROOT) == []


def test_directories_are_made_one_hierarchy_at_a_time() -> None:
    """The kernel leaves a new cpuset of v1 empty; a group is gone when it is gone from all."""
    kernel = FakeKernel(1)
    kernel.make_directory(f"{ROOT}/cpuset/a")
    kernel.make_directory(f"{ROOT}/cpu/a")
    assert kernel.get("a", "cpuset.cpus") == ""
    assert not kernel.exists(f"{ROOT}/memory/a")
    with pytest.raises(FileExistsError):
        kernel.make_directory(f"{ROOT}/cpu/a")
    with pytest.raises(FileNotFoundError):
        kernel.make_directory(f"{ROOT}/memory/a/b")
    kernel.remove_directory(f"{ROOT}/cpu/a")
    assert kernel.exists(f"{ROOT}/cpuset/a")
    kernel.remove_directory(f"{ROOT}/cpuset/a")
    with pytest.raises(FileNotFoundError):
        kernel.remove_directory(f"{ROOT}/cpuset/a")
    with pytest.raises(FileNotFoundError):
        kernel.group("a")


@pytest.mark.parametrize("path", ["/etc/passwd", f"{ROOT}/gone/cpu.max", f"{ROOT}/cgroup.nonsense", f"{ROOT}/gone"])
def test_what_is_not_there(path: str) -> None:
    """Is not there for anybody."""
    kernel = FakeKernel(2)
    assert not kernel.exists(path)
    for act in (kernel.read, kernel.directories, lambda path: kernel.write(path, "1")):
        with pytest.raises(FileNotFoundError):
            act(path)


def test_processes_have_an_oom_score() -> None:
    """With the kernel's range, and privilege needed to lower it."""
    kernel = FakeKernel(2, privileged=False)
    kernel.make("a")
    kernel.spawn("a", 7, threads=(8,), oom_score_adj=100)
    path = "/proc/7/oom_score_adj"
    kernel.write(path, "200")
    assert kernel.read(path) == "200\n"
    for text, code in (("1001", errno.EINVAL), ("x", errno.EINVAL), ("199", errno.EACCES)):
        with pytest.raises(OSError, match=r"Invalid|denied") as refused:
            kernel.write(path, text)
        assert refused.value.errno == code
    kernel.kill(7)
    assert not kernel.exists(path)


def test_plain_files_have_no_rules() -> None:
    """For what somebody needs besides."""
    kernel = FakeKernel(2)
    kernel.put("/proc/cpuinfo", "processor: 0\n")
    kernel.write("/proc/cpuinfo", "x")
    assert kernel.read("/proc/cpuinfo") == "x"


def test_failures_are_injected_and_everything_is_recorded() -> None:
    """So many times, then all is well."""
    kernel = FakeKernel(2)
    kernel.make("a")
    path = kernel.path("a", "cpu.max")
    kernel.fail(path, errno.EIO, times=2)
    with pytest.raises(OSError, match="Input/output"):
        kernel.read(path)
    with pytest.raises(OSError, match="Input/output"):
        kernel.write(path, "5000")
    kernel.write(path, "6000")
    assert kernel.refused == [(path, "5000", errno.EIO)]
    assert kernel.writes == [(path, "6000")]


def test_a_read_only_file_is_not_written() -> None:
    """Even by root."""
    kernel = FakeKernel(2)
    with pytest.raises(PermissionError):
        kernel.write(f"{ROOT}/cpuset.cpus.effective", "0")


def test_threads_may_share_it() -> None:
    """Nothing is lost."""
    kernel = FakeKernel(2)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: kernel.make(f"kubepods/pod{number}"), range(200)))
    assert len(kernel.directories(f"{ROOT}/kubepods")) == 200


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("driver", Driver)
def test_a_plain_tree_looks_the_same(tmp_path: Path, version: int, driver: Driver) -> None:
    """For processes that cannot be given an object; what is there is kept when more is made."""
    layout = build_tree(tmp_path, version, driver)
    tree = CgroupTree(KernelFiles(), str(tmp_path), version=version)
    burstable = layout.qos_directory(KubeQos.BURSTABLE)
    tree.write(burstable, Parameter.CPU_SHARES, 512)
    pod = layout.pod("1", KubeQos.BURSTABLE)
    plant(tmp_path, pod, version)
    assert tree.same(Parameter.CPU_SHARES, tree.read(burstable, Parameter.CPU_SHARES), 512)
    assert tree.exists(pod)
    assert tree.allowed_cpus(pod) == "0-7"
    assert tree.processes(pod) == []
