"""The fake kernel against the real one, and our reading and writing of cgroups on real files.

Scratch cgroups of our own, removed at the end. Needs root and cgroup v1.
"""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from interpose.core.model.cgroup import CGROUP_ROOT, CLEAR, UNLIMITED, Parameter, Value
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.tree import CgroupTree, detect_version
from interpose.host.cgroup.watch import CgroupWatch
from interpose.testing.eventually import eventually
from interpose.testing.kernel.cgroup import FakeKernel

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interpose.host.cgroup.files import CgroupFiles

pytestmark = pytest.mark.e2e

HIERARCHIES = ("cpu", "cpuset", "memory")
FILES = KernelFiles()


def missing() -> str:
    """Why this cannot run here; empty if it can."""
    if os.geteuid() != 0:
        return "not root"
    if not all(Path(CGROUP_ROOT, name).is_dir() for name in HIERARCHIES):
        return "no cgroup v1 mounted"
    return "" if os.access(Path(CGROUP_ROOT, "cpu"), os.W_OK) else "cgroups cannot be written"


@pytest.fixture
def group() -> Iterator[str]:
    """A cgroup `group` with one `group/child`, in every hierarchy, with the CPUs of the node."""
    if reason := missing():
        pytest.skip(f"no scratch cgroups: {reason}")
    name = f"interpose-unit-{os.getpid()}"
    places = [Path(CGROUP_ROOT, hierarchy, name) for hierarchy in HIERARCHIES]
    try:
        for place in places:
            (place / "child").mkdir(parents=True)
        for directory in (name, f"{name}/child"):
            for file in ("cpuset.cpus", "cpuset.mems"):
                FILES.write(f"{CGROUP_ROOT}/cpuset/{directory}/{file}", Path(CGROUP_ROOT, "cpuset", file).read_text())
        yield name
    finally:
        for place in places:
            with contextlib.suppress(FileNotFoundError):
                for folder in sorted(place.iterdir(), reverse=True):
                    if folder.is_dir():
                        folder.rmdir()
                place.rmdir()


def tried(files: CgroupFiles, path: str, text: str) -> tuple[str, str]:
    """What comes of a write, and what is there afterwards."""
    outcome = "accepted"
    try:
        files.write(path, text)
    except OSError as error:
        outcome = errno.errorcode[error.errno or 0]
    return outcome, files.read(path)


@pytest.fixture
def sleeper() -> Iterator[int]:
    """A process that does nothing."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


# What is written in one story, one after the other: "" is the group, "child" the one in it.
QUOTA = [
    *(("", "cpu.cfs_quota_us", text) for text in ("999", "0", "1000", "x", "", "\n", " 5000", "-5", "50000")),
    *(("child", "cpu.cfs_quota_us", text) for text in ("60000", "50000", "40000")),
    *(("", "cpu.cfs_quota_us", text) for text in ("30000", "40000", "17592186044416", "-1", "17592186044415", "40000")),
    *(("child", "cpu.cfs_period_us", text) for text in ("50000", "999", "1000001", "200000")),
    *(("child", "cpu.cfs_burst_us", text) for text in ("10000", "90000", "-1", "40000")),
    *(("child", "cpu.cfs_quota_us", text) for text in ("5000", "-1", "60000")),
]
SHARES = [
    *(("", "cpu.shares", text) for text in ("0", "1", "3", "1000000", "-1", "x", "\n", "512")),
    *(("", "cpu.idle", text) for text in ("2", "-1", "1", "1")),
    *(("", "cpu.shares", text) for text in ("100", "1024")),
    ("", "cpu.idle", "0"),
    *(("", "cpu.shares", text) for text in ("", "1024", "2048")),
]
CPUSETS = [
    *(("", "cpuset.cpus", text) for text in ("0", "99999", "1-0", "x", "\n", "", "0,,", ",0", "0-0")),
    *(("child", "cpuset.cpus", text) for text in ("0", "\n", "0,0", "0-")),
    ("child", "cpuset.cpus", "0"),
    ("", "cpuset.cpus", "0"),
    ("child", "cpuset.cpus", "1"),
    *(("child", "cpuset.mems", text) for text in ("1023", "99999", "\n")),
]
MEMORY = [
    *(("child", "memory.limit_in_bytes", text) for text in ("10000000", "-1", "-2", "max", "x", "")),
    *(("child", "memory.limit_in_bytes", text) for text in ("9223372036854775807", "9223372036854771711", "41943040")),
]


@pytest.mark.parametrize("story", [QUOTA, SHARES, CPUSETS, MEMORY], ids=["quota", "shares", "cpusets", "memory"])
def test_the_fake_kernel_does_what_the_real_one_does(group: str, story: list[tuple[str, str, str]]) -> None:
    """The same writes have the same outcome and leave the same values."""
    root = Path(CGROUP_ROOT, "cpuset")
    fake = FakeKernel(1, (root / "cpuset.cpus").read_text(), (root / "cpuset.mems").read_text())
    fake.make(f"{group}/child")
    for where, file, text in story:
        directory = f"{group}/{where}".rstrip("/")
        real = f"{CGROUP_ROOT}/{file.partition('.')[0]}/{directory}/{file}"
        assert tried(fake, fake.path(directory, file), text) == tried(FILES, real, text), (where, file, text)


def test_a_cpuset_with_processes_is_never_empty(group: str, sleeper: int) -> None:
    """On both kernels."""
    root = Path(CGROUP_ROOT, "cpuset")
    fake = FakeKernel(1, (root / "cpuset.cpus").read_text(), (root / "cpuset.mems").read_text())
    child = f"{group}/child"
    fake.make(child)
    fake.spawn("", sleeper)
    path = f"{CGROUP_ROOT}/cpuset/{child}"
    for files in (fake, FILES):
        files.write(f"{path}/cgroup.procs", str(sleeper))
        assert tried(files, f"{path}/cpuset.cpus", "\n")[0] == "ENOSPC"
        with pytest.raises(OSError, match="busy") as refused:
            files.remove_directory(path)
        assert refused.value.errno == errno.EBUSY
        files.write(f"{CGROUP_ROOT}/cpuset/cgroup.procs", str(sleeper))


def test_values_go_to_the_kernel_and_come_back(group: str) -> None:
    """Every parameter this kernel has, read back as what was written."""
    tree = CgroupTree(FILES, version=detect_version(FILES))
    child = f"{group}/child"
    values: dict[Parameter, Value] = {
        Parameter.CPU_SHARES: 512,
        Parameter.CPU_QUOTA: 50_000,
        Parameter.CPU_PERIOD: 50_000,
        Parameter.CPU_BURST: 1_000,
        Parameter.CPUSET_CPUS: "0",
        Parameter.CPUSET_MEMS: "0",
        Parameter.MEMORY_LIMIT: 10_000_001,
    }
    for parameter, value in values.items():
        tree.write(child, parameter, value)
        assert tree.same(parameter, tree.read(child, parameter), value), parameter
    for parameter in (Parameter.CPU_QUOTA, Parameter.MEMORY_LIMIT):
        tree.write(child, parameter, UNLIMITED)
        assert tree.read(child, parameter) is UNLIMITED
    tree.write(child, Parameter.CPUSET_CPUS, CLEAR)
    assert tree.same(Parameter.CPUSET_CPUS, tree.read(child, Parameter.CPUSET_CPUS), CLEAR)
    assert tree.read(child, Parameter.CPUSET_CPUS) == tree.allowed_cpus(group)
    with pytest.raises(OSError, match="bvt_warp_ns") as refused:
        tree.read(child, Parameter.CPU_BVT)
    assert refused.value.errno == errno.ENOTSUP
    with pytest.raises(FileNotFoundError):
        tree.read(f"{group}/gone", Parameter.CPU_SHARES)


def test_a_long_list_of_threads_is_read_to_its_end(group: str) -> None:
    """The kernel gives it in pieces of a page."""
    code = (
        "import sys, threading\n"
        "done = threading.Event()\n"
        "threading.stack_size(65536)\n"
        "for _ in range(1500): threading.Thread(target=done.wait, daemon=True).start()\n"
        "print('ready', flush=True); sys.stdin.readline()\n"
    )
    tree = CgroupTree(FILES, version=1)
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        FILES.write(f"{CGROUP_ROOT}/cpu/{group}/cgroup.procs", str(process.pid))
        assert tree.processes(group) == [process.pid]
        threads = [int(folder.name) for folder in Path(f"/proc/{process.pid}/task").iterdir()]
        assert sorted(tree.threads(group)) == sorted(threads)
        process.kill()


async def test_real_cgroups_that_come_and_go_are_told(group: str) -> None:
    """The kernel speaks of directories in its own file system too."""
    calls: list[int] = []
    tree = CgroupTree(FILES, version=1)
    watch = CgroupWatch(tree.watch_root, lambda: calls.append(1))
    try:
        watch.follow([group])
        folder = f"{tree.watch_root}/{group}/another"
        FILES.make_directory(folder)
        await eventually(lambda: len(calls) == 1, "a new cgroup to be told")
        FILES.remove_directory(folder)
        await eventually(lambda: len(calls) == 2, "a removed cgroup to be told")
    finally:
        watch.close()
