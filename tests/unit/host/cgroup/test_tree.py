"""Values by directory and parameter, on kernels of both versions."""

import errno
from pathlib import Path

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, KubeQos, Parameter, Value
from interpose.errors import ConfigError
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.paths import CgroupLayout, Driver
from interpose.host.cgroup.tree import CgroupTree, detect_layout, detect_version
from interpose.testing.kernel.cgroup import FakeKernel, build_tree, plant

POD = "kubepods/burstable/pod1"


@pytest.fixture(params=[1, 2])
def kernel(request: pytest.FixtureRequest) -> FakeKernel:
    """A kernel of each version with one pod."""
    kernel = FakeKernel(request.param, bvt=True)
    kernel.make(POD)
    return kernel


@pytest.fixture
def tree(kernel: FakeKernel) -> CgroupTree:
    """The tree on it."""
    return CgroupTree(kernel, kernel.root, version=kernel.version)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        (Parameter.CPU_SHARES, 512),
        (Parameter.CPU_QUOTA, 50_000),
        (Parameter.CPU_QUOTA, UNLIMITED),
        (Parameter.CPU_QUOTA, CLEAR),
        (Parameter.CPU_PERIOD, 50_000),
        (Parameter.CPU_BURST, 1000),
        (Parameter.CPU_IDLE, 1),
        (Parameter.CPU_BVT, -1),
        (Parameter.CPUSET_CPUS, "2,3"),
        (Parameter.CPUSET_CPUS, CLEAR),
        (Parameter.CPUSET_MEMS, "1"),
        (Parameter.CPUSET_MEMS, CLEAR),
        (Parameter.MEMORY_LIMIT, 5_000_001),
        (Parameter.MEMORY_LIMIT, UNLIMITED),
    ],
)
def test_what_is_written_is_found(tree: CgroupTree, parameter: Parameter, value: Value) -> None:
    """On both versions, in the words of neither."""
    tree.write(POD, parameter, value)
    assert tree.same(parameter, tree.read(POD, parameter), value)


def test_quota_and_period_do_not_touch_each_other(tree: CgroupTree) -> None:
    """Although they are one file on v2."""
    tree.write(POD, Parameter.CPU_PERIOD, 50_000)
    tree.write(POD, Parameter.CPU_QUOTA, 20_000)
    tree.write(POD, Parameter.CPU_PERIOD, 40_000)
    assert tree.read(POD, Parameter.CPU_QUOTA) == 20_000
    assert tree.read(POD, Parameter.CPU_PERIOD) == 40_000


def test_a_cleared_cpuset_has_what_its_parent_has(kernel: FakeKernel, tree: CgroupTree) -> None:
    """v1 has to write it down; v2 has nothing of its own."""
    tree.write("kubepods", Parameter.CPUSET_CPUS, CLEAR)
    tree.write(POD, Parameter.CPUSET_CPUS, "1")
    tree.write("kubepods/burstable", Parameter.CPUSET_CPUS, "0-3")
    assert not tree.same(Parameter.CPUSET_CPUS, tree.read(POD, Parameter.CPUSET_CPUS), CLEAR)
    tree.write(POD, Parameter.CPUSET_CPUS, CLEAR)
    assert tree.same(Parameter.CPUSET_CPUS, tree.read(POD, Parameter.CPUSET_CPUS), CLEAR)
    assert tree.allowed_cpus(POD) == "0-3"
    assert kernel.get(POD, "cpuset.cpus") == ("0-3" if kernel.version == 1 else "")


def test_a_cpuset_is_not_cleared_any_more_when_its_parent_has_grown() -> None:
    """On v1, where nothing follows by itself."""
    kernel = FakeKernel(1)
    tree = CgroupTree(kernel, version=1)
    kernel.make(POD)
    for directory in (POD, "kubepods/burstable"):
        tree.write(directory, Parameter.CPUSET_CPUS, "0-3")
    assert tree.same(Parameter.CPUSET_CPUS, tree.read(POD, Parameter.CPUSET_CPUS), CLEAR)
    tree.write("kubepods/burstable", Parameter.CPUSET_CPUS, CLEAR)
    found = tree.read(POD, Parameter.CPUSET_CPUS)
    assert found == "0-3"
    assert not tree.same(Parameter.CPUSET_CPUS, found, CLEAR)


def test_a_parent_that_cannot_be_read_costs_no_value() -> None:
    """The set itself is known."""
    kernel = FakeKernel(1)
    kernel.make(POD)
    kernel.fail(kernel.path("kubepods/burstable", "cpuset.cpus"), errno.EIO)
    assert CgroupTree(kernel, version=1).read(POD, Parameter.CPUSET_CPUS) == "0-7"


def test_an_empty_cpuset_of_v1_is_one_without_a_value() -> None:
    """As the kernel makes it before anybody has written one."""
    kernel = FakeKernel(1)
    kernel.make_directory("/sys/fs/cgroup/cpuset/scratch")
    assert CgroupTree(kernel, version=1).read("scratch", Parameter.CPUSET_CPUS) is CLEAR


def test_a_directory_that_is_gone_is_told_from_a_file_that_is_missing(tree: CgroupTree) -> None:
    """The first is normal; the second is what the kernel cannot do."""
    old = FakeKernel(tree.version, idle=False)
    old.make(POD)
    tree = CgroupTree(old, version=tree.version)
    for act in (
        lambda directory: tree.read(directory, Parameter.CPU_IDLE),
        lambda directory: tree.write(directory, Parameter.CPU_IDLE, 1),
    ):
        with pytest.raises(FileNotFoundError):
            act("kubepods/gone")
        with pytest.raises(OSError, match=r"no cpu\.idle here") as refused:
            act(POD)
        assert refused.value.errno == errno.ENOTSUP
    assert not tree.supports(POD, Parameter.CPU_IDLE)
    assert tree.supports(POD, Parameter.CPU_SHARES)


def test_a_directory_that_goes_during_a_read_is_gone(kernel: FakeKernel, tree: CgroupTree) -> None:
    """The kernel says "no such device" then."""
    kernel.fail(kernel.path(POD, "cpu.shares" if kernel.version == 1 else "cpu.weight"), errno.ENODEV)
    with pytest.raises(FileNotFoundError):
        tree.read(POD, Parameter.CPU_SHARES)


def test_the_kernels_opinion_arrives_as_it_is(kernel: FakeKernel, tree: CgroupTree) -> None:
    """Nobody makes another error of it."""
    tree.write(POD, Parameter.CPU_QUOTA, 20_000)
    tree.write(POD, Parameter.CPU_BURST, 20_000)
    with pytest.raises(OSError, match="Invalid") as refused:
        tree.write(POD, Parameter.CPU_QUOTA, 10_000)
    assert refused.value.errno == errno.EINVAL


def test_a_value_no_kernel_takes_is_not_written(kernel: FakeKernel, tree: CgroupTree) -> None:
    """It is refused with its name."""
    with pytest.raises(ValueError, match=r"cpu\.cfs_quota_us: 834"):
        tree.write(POD, Parameter.CPU_QUOTA, 834)
    assert kernel.writes == []


def test_a_text_no_kernel_writes_is_named(tmp_path: Path) -> None:
    """With parameter and text."""
    build_tree(tmp_path, 2)
    (tmp_path / "kubepods.slice/cpu.max").write_text("nonsense")
    with pytest.raises(ValueError, match=r"cpu\.cfs_quota_us: cannot read 'nonsense'"):
        CgroupTree(KernelFiles(), str(tmp_path), version=2).read("kubepods.slice", Parameter.CPU_QUOTA)


@pytest.mark.parametrize("directory", ["", "/", "..", "a/../..", "/kubepods", "a//b", "a\0"])
def test_nothing_but_directories_below_the_root_is_touched(
    kernel: FakeKernel, tree: CgroupTree, directory: str
) -> None:
    """Nor the root itself."""
    for act in (
        lambda: tree.read(directory, Parameter.CPU_SHARES),
        lambda: tree.write(directory, Parameter.CPU_SHARES, 2),
        lambda: tree.write(directory, Parameter.CPUSET_CPUS, CLEAR),
        lambda: tree.exists(directory),
        lambda: tree.processes(directory),
        lambda: tree.threads(directory),
    ):
        with pytest.raises(ValueError, match="is not a directory below the root"):
            act()
    assert kernel.writes == []


def test_a_link_in_the_tree_is_not_followed(tmp_path: Path) -> None:
    """But one that leads to the tree is."""
    build_tree(tmp_path / "real", 2)
    plant(tmp_path / "elsewhere", "x", 2)
    (tmp_path / "root").symlink_to(tmp_path / "real")
    (tmp_path / "real/link").symlink_to(tmp_path / "elsewhere/x")
    tree = CgroupTree(KernelFiles(), str(tmp_path / "root"), version=2)
    tree.write("kubepods.slice", Parameter.CPU_BURST, 5)
    assert tree.read("kubepods.slice", Parameter.CPU_BURST) == 5
    with pytest.raises(OSError, match="symbolic links"):
        tree.write("link", Parameter.CPU_BURST, 5)
    assert "link" not in tree.children("")


def test_children_and_existence(kernel: FakeKernel, tree: CgroupTree) -> None:
    """An empty directory is the root, where one may look."""
    kernel.make("kubepods/burstable/pod2")
    assert tree.children("") == ["kubepods"]
    assert sorted(tree.children("kubepods/burstable")) == ["pod1", "pod2"]
    assert tree.exists(POD)
    assert not tree.exists("kubepods/gone")
    with pytest.raises(FileNotFoundError):
        tree.children("kubepods/gone")


def test_a_hierarchy_that_is_not_mounted_is_missing_there() -> None:
    """Directories are looked for in the others."""
    kernel = FakeKernel(1)
    kernel.make_directory("/sys/fs/cgroup/memory/only")
    kernel.make("both")
    tree = CgroupTree(kernel, version=1)
    assert tree.exists("only")
    assert tree.children("only") == []
    assert tree.processes("only") == []
    with pytest.raises(FileNotFoundError):
        tree.read("only", Parameter.CPU_SHARES)


def test_errors_of_listing_are_not_hidden(kernel: FakeKernel, tree: CgroupTree) -> None:
    """Only what is missing is looked for elsewhere."""
    base = "/sys/fs/cgroup/cpu,cpuacct" if kernel.version == 1 else "/sys/fs/cgroup"
    kernel.fail(f"{base}/{POD}/cgroup.procs", errno.EIO)
    with pytest.raises(OSError, match="Input/output") as refused:
        tree.processes(POD)
    assert refused.value.errno == errno.EIO


def test_processes_and_threads(kernel: FakeKernel, tree: CgroupTree) -> None:
    """Number 0 is a process outside our PID namespace."""
    kernel.spawn(POD, 10, threads=(11, 12))
    kernel.spawn(POD, 0)
    assert tree.processes(POD) == [10]
    assert sorted(tree.threads(POD)) == [10, 11, 12]


def test_allowed_sets_are_those_in_force(kernel: FakeKernel, tree: CgroupTree) -> None:
    """Of the nearest directory that has some."""
    tree.write(POD, Parameter.CPUSET_CPUS, "1")
    assert tree.allowed_cpus(POD) == "1"
    assert tree.allowed_cpus(f"{POD}/later/still") == "1"
    assert tree.allowed_cpus("other") == tree.allowed_cpus("") == "0-7"
    assert tree.allowed_mems(POD) == "0-1"
    with pytest.raises(ValueError, match="is not a directory"):
        tree.allowed_cpus("../etc")


def test_controllers_may_be_mounted_alone(tmp_path: Path) -> None:
    """Or joined; the name says which. One that is not mounted has no parameters."""
    for name, file, text in (("cpuacct,cpu", "cpu.shares", "7\n"), ("cpuset", "cpuset.cpus", "0\n"), ("name", "x", "")):
        (tmp_path / name / "pod").mkdir(parents=True)
        (tmp_path / name / "pod" / file).write_text(text)
    files = KernelFiles()
    assert detect_version(files, str(tmp_path)) == 1
    tree = CgroupTree(files, str(tmp_path), version=1)
    assert tree.read("pod", Parameter.CPU_SHARES) == 7
    assert tree.watch_root == str(tmp_path / "cpuacct,cpu")
    assert not tree.supports("pod", Parameter.MEMORY_LIMIT)
    for act in (
        lambda: tree.read("pod", Parameter.MEMORY_LIMIT),
        lambda: tree.write("pod", Parameter.MEMORY_LIMIT, UNLIMITED),
    ):
        with pytest.raises(OSError, match="limit_in_bytes") as refused:
            act()
        assert refused.value.errno == errno.ENOTSUP
    with pytest.raises(FileNotFoundError):
        tree.read("gone", Parameter.MEMORY_LIMIT)


def test_without_a_cpuset_hierarchy_nothing_is_allowed_or_cleared(tmp_path: Path) -> None:
    """And no file outside is looked at."""
    (tmp_path / "cpu/pod").mkdir(parents=True)
    tree = CgroupTree(KernelFiles(), str(tmp_path), version=1)
    assert tree.allowed_cpus("pod") == ""
    with pytest.raises(OSError, match="cpuset") as refused:
        tree.write("pod", Parameter.CPUSET_CPUS, CLEAR)
    assert refused.value.errno == errno.ENOTSUP


def test_a_tree_without_sets_allows_nothing(tmp_path: Path) -> None:
    """The caller knows what is online."""
    (tmp_path / "pod").mkdir()
    assert CgroupTree(KernelFiles(), str(tmp_path), version=2).allowed_cpus("pod") == ""


@pytest.mark.parametrize("version", [1, 2])
def test_the_version_is_seen(version: int, tmp_path: Path) -> None:
    """By what is in the root."""
    assert detect_version(FakeKernel(version)) == version
    build_tree(tmp_path, version)
    assert detect_version(KernelFiles(), str(tmp_path)) == version


def test_v1_with_v2_beside_it_is_v1(tmp_path: Path) -> None:
    """The controllers are in v1 then."""
    build_tree(tmp_path, 1)
    (tmp_path / "unified").mkdir()
    (tmp_path / "unified/cgroup.controllers").touch()
    assert detect_version(KernelFiles(), str(tmp_path)) == 1


@pytest.mark.parametrize("name", ["", "gone"])
def test_a_root_without_cgroups_is_refused(tmp_path: Path, name: str) -> None:
    """The error names the path of the root."""
    with pytest.raises(ConfigError, match=f"cgroup root {tmp_path}.*: holds neither cgroup v2"):
        detect_version(KernelFiles(), str(tmp_path / name))


def test_a_tree_without_hierarchies_is_watched_at_its_root(tmp_path: Path) -> None:
    """There is nothing else."""
    assert CgroupTree(KernelFiles(), str(tmp_path), version=1).watch_root == str(tmp_path)


@pytest.mark.parametrize("driver", Driver)
@pytest.mark.parametrize("root", ["kubepods", "kubelet/kubepods"])
def test_the_layout_is_seen(kernel: FakeKernel, tree: CgroupTree, driver: Driver, root: str) -> None:
    """By which root is there; of two the one with pods in it."""
    empty = FakeKernel(kernel.version)
    tree = CgroupTree(empty, version=kernel.version)
    assert detect_layout(tree, root) is None
    plain = CgroupLayout(driver=driver, root=root)
    for directory in ("kubepods", "kubepods.slice", "kubelet/kubepods", "kubelet.slice/kubelet-kubepods.slice"):
        empty.make(directory)
    empty.make(plain.pod("1", KubeQos.BURSTABLE))
    assert detect_layout(tree, root) == plain
