"""Cgroups of both versions, in a kernel of files. With a real one: tests/integration/test_cgroup_dirs.py."""

import errno
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.node.runtime.cgroups.cgroups import CgroupDirs, DeepFiles, ScratchFiles, detect

V1 = ("cpu,cpuacct", "cpuset", "freezer", "memory", "pids")


class Kernel:
    """Files and directories in memory with the rules that matter here: new groups have files, used ones stay."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.files: dict[str, str] = {}
        self.folders: set[str] = {"/cg"}
        self.writes: list[tuple[str, str]] = []
        self.busy_for = 0
        for name in V1 if version == 1 else ():
            self.make_directory(f"/cg/{name}")
        if version == 1:
            self.files |= {"/cg/cpuset/cpuset.cpus": "0-3\n", "/cg/cpuset/cpuset.mems": "0\n"}
            self.folders |= {"/cg/unified", "/cg/odd"}
            self.files["/cg/unified/cgroup.controllers"] = ""
        else:
            self.files |= {"/cg/cgroup.controllers": "cpu memory\n", "/cg/cgroup.subtree_control": "cpu\n"}

    def read(self, path: str) -> str:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        return self.files[path]

    def write(self, path: str, text: str) -> None:
        if path not in self.files:
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        self.writes.append((path, text))
        self.files[path] = f"{self.files[path]}{text}\n" if path.endswith("cgroup.procs") else text

    def exists(self, path: str) -> bool:
        return path in self.files or path in self.folders

    def directories(self, path: str) -> list[str]:
        if path not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        return [one.rpartition("/")[2] for one in sorted(self.folders) if one.rpartition("/")[0] == path]

    def make_directory(self, path: str) -> None:
        if path in self.folders:
            raise FileExistsError(errno.EEXIST, "there", path)
        self.folders.add(path)
        names = ["cgroup.procs"]
        if self.version == 2:
            names += ["cgroup.controllers", "cgroup.subtree_control", "cgroup.kill", "cgroup.freeze"]
        names += ["cpuset.cpus", "cpuset.mems"] if "/cpuset" in path else []
        names += ["freezer.state"] if "/freezer" in path else []
        self.files |= {f"{path}/{name}": "" for name in names}

    def remove_directory(self, path: str) -> None:
        if path not in self.folders:
            raise FileNotFoundError(errno.ENOENT, "gone", path)
        if self.directories(path) or self.busy_for or self.files[f"{path}/cgroup.procs"]:
            self.busy_for = max(self.busy_for - 1, 0)
            raise OSError(errno.EBUSY, "busy", path)
        self.folders.remove(path)
        self.files = {name: text for name, text in self.files.items() if not name.startswith(f"{path}/")}

    def kill(self, pid: int, number: int) -> None:
        """Ends a process, wherever it is listed."""
        assert number == signal.SIGKILL
        found = False
        for name, text in self.files.items():
            if name.endswith("cgroup.procs") and str(pid) in text.split():
                self.files[name] = "".join(f"{one}\n" for one in text.split() if one != str(pid))
                found = True
        if not found:
            raise ProcessLookupError


def _dirs(kernel: Kernel) -> CgroupDirs:
    return CgroupDirs(kernel, "/cg", version=kernel.version, kill=kernel.kill, sleep=lambda _: None)


def test_making_on_v1_fills_the_cpusets() -> None:
    """In every hierarchy of v1; what is there already keeps its set."""
    kernel = Kernel(1)
    dirs = _dirs(kernel)
    dirs.make("/pods/a")
    kernel.files["/cg/cpuset/pods/cpuset.cpus"] = "1"
    dirs.make("/pods/b")
    assert {f"/cg/{name}/pods/a" for name in V1} <= kernel.folders
    assert "/cg/unified/pods" not in kernel.folders
    assert "/cg/odd/pods" not in kernel.folders
    assert kernel.files["/cg/cpuset/pods/a/cpuset.cpus"] == "0-3"
    assert kernel.files["/cg/cpuset/pods/b/cpuset.cpus"] == "1"
    assert kernel.files["/cg/cpuset/pods/b/cpuset.mems"] == "0"


def test_making_on_v2_hands_controllers_down() -> None:
    """Those that are not yet; one that is refused is done without."""
    kernel = Kernel(2)
    _dirs(kernel).make("pods/a")
    assert ("/cg/cgroup.subtree_control", "+memory") in kernel.writes
    assert ("/cg/cgroup.subtree_control", "+cpu") not in kernel.writes
    assert "/cg/pods/a" in kernel.folders
    del kernel.files["/cg/cgroup.subtree_control"]
    _dirs(kernel).make("pods/b")
    assert "/cg/pods/b" in kernel.folders


def test_nobody_joins_by_mistake() -> None:
    """To the kernel 0 is the writer: a pause process that has died must not become us."""
    kernel = Kernel(1)
    dirs = CgroupDirs(kernel, "/cg", version=1)
    dirs.make("a")
    with pytest.raises(ProcessLookupError):
        dirs.add_process("a", 0)
    assert not any(path.endswith("cgroup.procs") for path, _ in kernel.writes)


@pytest.mark.parametrize("version", [1, 2])
def test_we_do_not_kill_ourselves(version: int) -> None:
    """Nor stop our own time, which nobody could undo."""
    kernel = Kernel(version)
    killed: list[int] = []
    dirs = CgroupDirs(kernel, "/cg", version=version, kill=lambda pid, _: killed.append(pid), sleep=lambda _: None)
    dirs.make("a")
    dirs.add_process("a", os.getpid())
    before = list(kernel.writes)
    with pytest.raises(OSError, match="the runtime itself is in it"):
        dirs.kill_all("a")
    assert (killed, kernel.writes) == ([], before)


@pytest.mark.parametrize("version", [1, 2])
def test_joining_and_counting(version: int) -> None:
    """Processes below count too, each once; those of other namespaces (0) do not."""
    kernel = Kernel(version)
    dirs = _dirs(kernel)
    dirs.make("a/b")
    dirs.add_process("a/b", 7)
    dirs.add_process("a", 8)
    for path in [one for one in kernel.files if one.endswith("/a/cgroup.procs")]:
        kernel.write(path, "0")
    assert sorted(dirs.processes("/a")) == [7, 8]


@pytest.mark.parametrize("version", [1, 2])
def test_killing_until_it_is_empty(version: int) -> None:
    """On v1 with time stopped meanwhile, and going on afterwards."""
    kernel = Kernel(version)
    dirs = _dirs(kernel)
    dirs.make("a/b")
    dirs.add_process("a/b", 7)
    assert dirs.kill_all("a")
    assert dirs.processes("a") == []
    if version == 1:
        states = [text for path, text in kernel.writes if path == "/cg/freezer/a/freezer.state"]
        assert states == ["FROZEN", "THAWED"]
    else:
        assert ("/cg/a/cgroup.kill", "1") in kernel.writes


@pytest.mark.parametrize(
    ("version", "frozen", "word"),
    [(1, "/cg/freezer/a/b/c/freezer.state", "THAWED"), (2, "/cg/a/b/c/cgroup.freeze", "0")],
)
def test_what_a_container_froze_goes_on(version: int, frozen: str, word: str) -> None:
    """In cgroups of its own: what is frozen does not die."""
    kernel = Kernel(version)
    dirs = _dirs(kernel)
    dirs.make("a/b/c")
    dirs.add_process("a/b/c", 7)
    kernel.write(frozen, "FROZEN" if version == 1 else "1")
    assert not dirs.kill_once("a")
    assert kernel.files[frozen] == word


def test_without_a_freezer() -> None:
    """They are killed all the same."""
    kernel = Kernel(1)
    kernel.folders -= {"/cg/freezer"}
    dirs = _dirs(kernel)
    dirs.make("a")
    dirs.add_process("a", 7)
    assert dirs.kill_all("a")


def test_what_does_not_die_is_told() -> None:
    """After the time that was given."""
    kernel = Kernel(2)
    dirs = CgroupDirs(kernel, "/cg", version=2, kill=lambda *_: None, sleep=lambda _: None)
    dirs.make("a")
    dirs.add_process("a", 7)
    assert not dirs.kill_all("a", timeout=0.02)


def test_a_process_that_is_gone_meanwhile() -> None:
    """Is what was wanted."""
    kernel = Kernel(2)
    dirs = _dirs(kernel)
    dirs.make("a")
    dirs.add_process("a", 7)

    def gone(pid: int, number: int) -> None:
        kernel.kill(pid, number)
        raise ProcessLookupError

    assert CgroupDirs(kernel, "/cg", version=2, kill=gone, sleep=lambda _: None).kill_all("a")


@pytest.mark.parametrize("version", [1, 2])
def test_removing_from_the_bottom(version: int) -> None:
    """All of it, after the moment the kernel needs; gone is fine."""
    kernel = Kernel(version)
    dirs = _dirs(kernel)
    dirs.make("a/b/c")
    kernel.busy_for = 3
    assert dirs.remove("a")
    assert not dirs.exists("a")
    assert dirs.remove("a")


def test_what_others_made_beside_it_goes_too() -> None:
    """In the v2 hierarchy of a hybrid machine, where OCI runtimes put theirs."""
    kernel = Kernel(1)
    dirs = _dirs(kernel)
    dirs.make("a")
    kernel.make_directory("/cg/unified/a")
    assert dirs.remove("a")
    assert "/cg/unified/a" not in kernel.folders


@pytest.mark.parametrize("version", [1, 2])
def test_removing_only_what_is_empty(version: int) -> None:
    """One with another in it stays; one that is gone is gone."""
    kernel = Kernel(version)
    dirs = _dirs(kernel)
    dirs.make("a/b")
    assert not dirs.remove_empty("a")
    assert dirs.exists("a/b")
    assert dirs.remove_empty("a/b")
    assert dirs.remove_empty("a")
    assert dirs.remove_empty("a")
    assert not dirs.exists("a")


def test_what_is_in_use_stays() -> None:
    """And that is told."""
    kernel = Kernel(2)
    dirs = _dirs(kernel)
    dirs.make("a/b")
    dirs.add_process("a/b", 7)
    assert not dirs.remove("a")
    assert dirs.exists("a/b")


def test_other_errors_are_not_swallowed() -> None:
    """Neither when looking nor when removing."""

    class Broken(Kernel):
        def remove_directory(self, path: str) -> None:
            raise PermissionError(errno.EPERM, "no", path)

        def directories(self, path: str) -> list[str]:
            if path.endswith("closed"):
                raise PermissionError(errno.EPERM, "no", path)
            return super().directories(path)

    dirs = _dirs(Broken(2))
    dirs.make("a")
    with pytest.raises(PermissionError):
        dirs.remove("a")
    with pytest.raises(PermissionError):
        dirs.remove_empty("a")
    with pytest.raises(PermissionError):
        dirs.processes("closed")


@pytest.fixture
def deep(tmp_path: Path) -> Iterator[Path]:
    """A folder for trees that Python cannot remove."""
    yield tmp_path
    subprocess.run(["rm", "-rf", str(tmp_path / "cg")], check=True)


def _nest(folder: Path, name: str, levels: int) -> int:
    """Folders in each other; a descriptor of the last."""
    folder.mkdir(parents=True)
    at = os.open(folder, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=at)
        further = os.open(name, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = further
    return at


def test_trees_deeper_than_recursion_goes(deep: Path) -> None:
    """All of it is found and removed, with what is beside the way."""
    os.close(_nest(deep / "cg/a", "d", 1100))
    (deep / "cg/a/d/d/beside").mkdir()
    dirs = CgroupDirs(DeepFiles(), str(deep / "cg"), version=2)
    assert dirs.processes("a") == []
    assert dirs.remove("a")
    assert list((deep / "cg").iterdir()) == []


def test_trees_deeper_than_a_path_can_be(deep: Path) -> None:
    """A process in there is found, its time goes on, and the tree is removed."""
    last = _nest(deep / "cg/a", "d" * 200, 60)
    for name, text in (("cgroup.procs", "7\n"), ("cgroup.freeze", "1")):
        file = os.open(name, os.O_WRONLY | os.O_CREAT, dir_fd=last)
        os.write(file, text.encode())
        os.close(file)
    killed: list[int] = []
    dirs = CgroupDirs(DeepFiles(), str(deep / "cg"), version=2, kill=lambda pid, _: killed.append(pid))
    assert not dirs.kill_once("a")
    file = os.open("cgroup.freeze", os.O_RDONLY, dir_fd=last)
    assert (killed, os.read(file, 9)) == ([7], b"0")
    os.close(file)
    inside = "a" + f"/{'d' * 200}" * 60
    assert dirs.exists(inside)
    for name in ("cgroup.procs", "cgroup.freeze"):
        os.unlink(name, dir_fd=last)
    os.close(last)
    opened = len(list(Path("/proc/self/fd").iterdir()))
    assert dirs.remove("a")
    assert not dirs.exists(inside)
    assert len(list(Path("/proc/self/fd").iterdir())) == opened
    assert list((deep / "cg").iterdir()) == []


@pytest.mark.parametrize("path", ["/x/" + "/".join(["d" * 200] * 30), "/x/" + "d" * 300, "/x/" + "d" * 5000])
def test_what_could_never_be_made_is_gone(tmp_path: Path, path: str) -> None:
    """Old records have such paths, and have to be removed."""
    (tmp_path / "cg").mkdir()
    for dirs in (CgroupDirs(DeepFiles(), str(tmp_path / "cg"), version=2), detect(str(tmp_path / "scratch"))):
        with pytest.raises(OSError, match="too long"):
            dirs.make(path)
        assert not dirs.exists(path)
        assert dirs.kill_all(path)
        assert dirs.remove(path)
        assert dirs.remove_empty(path)


def test_a_file_is_no_cgroup(tmp_path: Path) -> None:
    """There is nothing to remove."""
    (tmp_path / "a").touch()
    assert CgroupDirs(DeepFiles(), str(tmp_path), version=2).remove("a/b")


def test_usage_of_both_versions() -> None:
    """From each controller's folder; what is missing is not known."""
    kernel = Kernel(1)
    kernel.files |= {"/cg/cpu,cpuacct/a/cpuacct.usage": "5\n", "/cg/pids/a/pids.current": "2\n"}
    assert (_dirs(kernel).stats("a").cpu_ns, _dirs(kernel).stats("a").processes) == (5, 2)
    second = Kernel(2)
    second.files["/cg/a/memory.current"] = "9\n"
    assert _dirs(second).stats("/a").memory_usage == 9


def test_where_kills_are_counted() -> None:
    """None without a memory controller."""
    assert _dirs(Kernel(2)).oom_file("/a") == "/cg/a/memory.events"
    kernel = Kernel(1)
    assert _dirs(kernel).oom_file("a") == "/cg/memory/a/memory.oom_control"
    kernel.folders -= {"/cg/memory"}
    assert _dirs(kernel).oom_file("a") is None


@pytest.mark.parametrize("path", ["", "/", "../x", "a/../../x"])
def test_paths_that_lead_out(path: str) -> None:
    """The root itself is not ours either."""
    with pytest.raises(ValueError, match="not a directory below"):
        _dirs(Kernel(2)).make(path)


def test_a_scratch_file_is_made_when_it_is_written(tmp_path: Path) -> None:
    """And replaced when it is there."""
    for text in ("first", "2"):
        ScratchFiles(str(tmp_path)).write(str(tmp_path / "cpu.max"), text)
    assert (tmp_path / "cpu.max").read_text() == "2"


def test_a_scratch_folder(tmp_path: Path) -> None:
    """Plain folders: no process is moved or killed, and they can be removed with what others wrote in them."""
    dirs = detect(str(tmp_path / "cg"))
    assert (dirs.scratch, dirs.version) == (True, 2)
    dirs.make("pods/a")
    dirs.add_process("pods/a", os.getpid())
    (tmp_path / "cg/pods/a/cpu.max").write_text("max")
    assert dirs.processes("pods") == []
    assert dirs.kill_all("pods")
    assert dirs.remove("pods")
    assert not (tmp_path / "cg/pods").exists()


def test_a_scratch_folder_of_v1(tmp_path: Path) -> None:
    """Folders of controllers say so."""
    for name in ("cpu", "memory"):
        (tmp_path / name).mkdir()
    dirs = detect(str(tmp_path))
    assert (dirs.scratch, dirs.version) == (True, 1)
    dirs.make("pods/a")
    assert (tmp_path / "memory/pods/a").is_dir()


@pytest.mark.parametrize(
    ("lines", "version"),
    [
        (["{root} rw - cgroup2 none rw"], 2),
        (["{root} rw - tmpfs none rw", "{root}/cpu rw - cgroup none rw", "{root}/unified rw - cgroup2 none rw"], 1),
    ],
)
def test_the_kernels_own(tmp_path: Path, lines: list[str], version: int) -> None:
    """By what is mounted: hybrid is v1."""
    table = tmp_path / "table"
    table.write_text("".join(f"1 1 0:1 / {line.format(root=tmp_path)}\n" for line in lines))
    dirs = detect(str(tmp_path), table=str(table))
    assert (dirs.scratch, dirs.version) == (False, version)


@pytest.mark.parametrize("version", [1, 2])
def test_new_cgroups_of_a_scratch_folder_come_with_files(tmp_path: Path, version: int) -> None:
    """Those that lie in `.new`, as the kernel's do; one that is there is left as it is."""
    top = tmp_path / "cpu" if version == 1 else tmp_path
    (top / ".new").mkdir(parents=True)
    (top / ".new" / "cpu.shares").write_text("1024\n")
    cgroups = detect(str(tmp_path))

    cgroups.make("pods/a")
    (top / "pods" / "cpu.shares").write_text("2\n")
    cgroups.make("pods/b")

    found = {str(file.parent.relative_to(top)): file.read_text() for file in top.glob("pods/**/cpu.shares")}
    assert found == {"pods": "2\n", "pods/a": "1024\n", "pods/b": "1024\n"}
    assert sorted(path.name for path in top.iterdir()) == [".new", "pods"]
    assert cgroups.remove("pods")


def test_a_scratch_cgroup_with_others_below_stays_whole(tmp_path: Path) -> None:
    """With its files."""
    (tmp_path / "cpu.shares").write_text("")
    cgroups = detect(str(tmp_path))
    cgroups.make("pods/a")
    (tmp_path / "pods" / "cpu.shares").write_text("2\n")

    assert not cgroups.remove_empty("pods")

    assert (tmp_path / "pods" / "cpu.shares").read_text() == "2\n"
