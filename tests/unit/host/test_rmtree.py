"""Trees of somebody else are removed, whatever they look like, and nothing but them."""

import errno
import os
import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interpose.host import rmtree
from interpose.host.rmtree import remove_at, remove_tree
from interpose.node.pods.volumes.mounts import SystemMounter

_DEPTH = 2500  # deeper than recursion goes, and longer than a path may be


def make_deep(folder: Path, depth: int = _DEPTH, *, files: bool = False) -> None:
    """Folders in each other, with a file in each if wanted."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir("dd", dir_fd=here)
        inner = os.open("dd", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
        if files:
            os.close(os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=here))
    os.close(here)


@pytest.fixture
def few_descriptors() -> Iterator[None]:
    """A dozen more than there are."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))  # noqa: PTH208
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 12, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@pytest.mark.usefixtures("few_descriptors")
def test_a_tree_may_be_deeper_than_a_path_is_long(tmp_path: Path) -> None:
    """Neither recursion nor descriptors end it."""
    (tmp_path / "tree").mkdir()
    make_deep(tmp_path / "tree", files=True)
    (tmp_path / "tree/other").mkdir()
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_a_tree_may_be_wide(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many of its folders are remembered at a time."""
    monkeypatch.setattr(rmtree, "_BATCH", 3)
    for number in range(20):
        (tmp_path / f"tree/{number}/inner").mkdir(parents=True)
        (tmp_path / f"tree/file {number}").touch()
    remove_tree(f"{tmp_path}/tree/")
    assert not (tmp_path / "tree").exists()


def test_a_tree_goes_and_what_its_links_show_stays(tmp_path: Path) -> None:
    """Links to files and folders are removed themselves."""
    kept = tmp_path / "kept"
    (kept / "deep").mkdir(parents=True)
    (kept / "deep/file").touch()
    tree = tmp_path / "tree"
    (tree / "a/b").mkdir(parents=True)
    (tree / "a/b/file").touch()
    (tree / "a/link").symlink_to(kept)
    (tree / "file link").symlink_to(kept / "deep/file")
    os.mkfifo(tree / "pipe")
    remove_tree(str(tree))
    assert not tree.exists()
    assert (kept / "deep/file").exists()


def test_a_link_in_the_place_of_the_tree(tmp_path: Path) -> None:
    """The link goes, nothing else."""
    (tmp_path / "kept").mkdir()
    (tmp_path / "tree").symlink_to(tmp_path / "kept")
    remove_tree(str(tmp_path / "tree"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["kept"]


def test_what_is_not_there_is_fine(tmp_path: Path) -> None:
    """Neither the tree nor the folder it was in."""
    (tmp_path / "other").touch()
    remove_tree(str(tmp_path / "none"))
    remove_tree(str(tmp_path / "none/deeper"))
    assert [path.name for path in tmp_path.iterdir()] == ["other"]


def test_a_file_is_removed_as_well(tmp_path: Path) -> None:
    """By its name in an open folder."""
    (tmp_path / "file").touch()
    (tmp_path / "kept").touch()
    above = os.open(tmp_path, os.O_RDONLY)
    remove_at(above, "file")
    os.close(above)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_what_is_mounted_is_not_entered(tmp_path: Path) -> None:
    """Though the caller forgot to unmount it: neither another file system nor a folder of the same one."""
    place, bound, precious = tmp_path / "tree/mounted", tmp_path / "tree/bound", tmp_path / "precious"
    for path in (place, bound, precious):
        path.mkdir(parents=True)
    (precious / "file").touch()
    mounting = SystemMounter()
    fd = os.open(precious, os.O_PATH)
    try:
        mounting.bind(fd, str(bound))
        mounting.tmpfs(str(place), "")
    except OSError as error:
        pytest.skip(f"mounting needs root: {error}")
    finally:
        os.close(fd)
    try:
        (place / "file").touch()
        with pytest.raises(OSError, match="busy"):
            remove_tree(str(tmp_path / "tree"))
        mounting.unmount(str(place))
        with pytest.raises(OSError, match="busy"):
            remove_tree(str(tmp_path / "tree"))
        assert (precious / "file").exists()
    finally:
        for mounted in mounting.below(str(tmp_path)):
            mounting.unmount(mounted)
    remove_tree(str(tmp_path / "tree"))
    assert not (tmp_path / "tree").exists()
    assert (precious / "file").exists()


class Meddler:
    """Does something when a folder is opened from below for the first time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
        self._open = os.open
        self._acts = [act]
        monkeypatch.setattr(os, "open", self)

    def __call__(self, path: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        if path == ".." and self._acts:
            self._acts.pop()()
        return self._open(path, flags, mode, dir_fd=dir_fd)


def test_a_folder_that_is_moved_away_meanwhile_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is where it was moved to is not ours."""
    (tmp_path / "tree/a/b/c/d").mkdir(parents=True)
    (tmp_path / "elsewhere/c").mkdir(parents=True)
    (tmp_path / "elsewhere/precious").touch()
    Meddler(monkeypatch, lambda: (tmp_path / "tree/a/b/c").rename(tmp_path / "elsewhere/c"))
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()
    assert sorted(path.name for path in (tmp_path / "elsewhere").iterdir()) == ["c", "precious"]


def test_what_comes_meanwhile_is_removed_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is looked at once more."""
    (tmp_path / "tree/a/b/c").mkdir(parents=True)
    Meddler(monkeypatch, lambda: (tmp_path / "tree/a/late").touch())
    remove_tree(tmp_path / "tree")
    assert not (tmp_path / "tree").exists()


def test_folders_that_are_closed_for_their_owner_are_opened(tmp_path: Path) -> None:
    """Not being root, which may do everything anyway."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            if os.geteuid() == 0:
                os.chown(tmp_path, 65534, 65534)
                os.chdir(tmp_path)  # the folders above are for root alone
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            os.makedirs("tree/closed/deep")  # noqa: PTH103
            os.makedirs("tree/unwritable/deep")  # noqa: PTH103
            os.chmod("tree/closed", 0)  # noqa: PTH101
            os.chmod("tree/unwritable", 0o500)  # noqa: PTH101
            remove_tree("tree")
            code = int(os.path.exists("tree"))  # noqa: PTH110
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_a_file_that_cannot_be_removed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that somebody can look."""
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/a/file").touch()

    def unlink(name: str, *, dir_fd: int) -> None:
        raise PermissionError(errno.EPERM, f"{name} {dir_fd}")

    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(PermissionError) as caught:
        remove_tree(tmp_path / "tree")
    assert caught.value.filename == f"{tmp_path}/tree/a/file"


def test_somebody_who_moves_everything_away_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing could be removed, so nothing is tried again."""
    (tmp_path / "tree").mkdir()
    monkeypatch.setattr(rmtree._TreeRemoval, "remove", _moved)
    with pytest.raises(OSError, match="is being changed"):
        remove_tree(tmp_path / "tree")


def _moved(_walk: object, _name: str) -> None:
    raise rmtree._MovedError


def test_whoever_writes_for_ever_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends, and names the place."""
    (tmp_path / "tree/a").mkdir(parents=True)
    (tmp_path / "tree/a/file").touch()
    remove = os.unlink

    def unlink(name: str, *, dir_fd: int) -> None:
        remove(name, dir_fd=dir_fd)
        (tmp_path / "tree/a" / ("other" if name == "file" else "file")).touch()

    monkeypatch.setattr(os, "unlink", unlink)
    with pytest.raises(OSError, match="not empty") as caught:
        remove_tree(tmp_path / "tree")
    assert caught.value.errno == errno.ENOTEMPTY
    assert caught.value.filename == f"{tmp_path}/tree/a"
