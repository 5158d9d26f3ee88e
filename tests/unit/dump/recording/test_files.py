"""The names of files, and who may rename them."""

import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.dump.model.frames import MAGIC
from interpose.dump.recording import files as module
from interpose.dump.recording.files import (
    create_file,
    is_open_file,
    open_new,
    remove_surplus,
    replace_open_file,
    rotated_path,
    rotated_set,
)
from interpose.errors import ConfigError


@pytest.fixture
def opened() -> Iterator[list[int]]:
    """Descriptors that are closed in the end."""
    fds: list[int] = []
    yield fds
    for fd in fds:
        os.close(fd)


def test_names_sort_by_age_in_a_shell(tmp_path: Path) -> None:
    """The newest is last."""
    path = tmp_path / "calls.crirec"
    names = [rotated_path(path, number) for number in (1, 2, 10)] + [path]
    for name in reversed(names):
        name.write_bytes(MAGIC)
    (tmp_path / "calls.1.crirec").write_bytes(MAGIC)
    (tmp_path / "callsx000001.crirec").write_bytes(MAGIC)
    assert rotated_set(path) == names == sorted(names)
    assert names[0].name == "calls.000001.crirec"


def test_a_set_may_lack_its_newest_or_everything(tmp_path: Path) -> None:
    """A crash may come between a rename and a new file."""
    path = tmp_path / "calls"
    assert rotated_set(path) == rotated_set(tmp_path / "no" / "x") == []
    rotated_path(path, 3).write_bytes(MAGIC)
    assert rotated_set(path) == [tmp_path / "calls.000003"]


def test_an_older_file_is_kept_under_a_number(tmp_path: Path, opened: list[int]) -> None:
    """A new one is for its owner alone."""
    path = tmp_path / "calls.crirec"
    for content in (b"1", b"2"):
        path.unlink(missing_ok=True)
        path.write_bytes(MAGIC + content)
        opened.append(open_new(path))
    assert [one.read_bytes() for one in rotated_set(path)] == [MAGIC + b"1", MAGIC + b"2", b""]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("content", [b"root:x:0:0", b"\xc1R\x02\x00", b"\xc1x"])
def test_what_is_no_recording_is_left_alone(tmp_path: Path, content: bytes) -> None:
    """A slip of the pen must not rename other files."""
    path = tmp_path / "passwd"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match="passwd: not a recording: it begins with b'"):
        open_new(path)
    assert path.read_bytes() == content


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A directory, a link, a pipe."""
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "dir").mkdir()
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "dir", "pipe"):
        with pytest.raises(ConfigError, match=f"{name}: not a regular file"):
            open_new(tmp_path / name)


def test_a_missing_directory_is_the_systems_error(tmp_path: Path) -> None:
    """With the name in it."""
    with pytest.raises(OSError, match="no/calls") as caught:
        open_new(tmp_path / "no" / "calls")
    assert caught.value.errno == errno.ENOENT


def test_a_name_that_others_keep_taking_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """We do not fight for ever."""
    path = tmp_path / "calls"

    def taken(path: Path) -> int:
        raise FileExistsError

    monkeypatch.setattr(module, "create_file", taken)
    with pytest.raises(FileExistsError, match="other processes"):
        open_new(path)


def test_a_file_that_lost_its_name_is_not_renamed(tmp_path: Path, opened: list[int]) -> None:
    """Neither is the one that has the name now."""
    path = tmp_path / "calls"
    opened += [ours := create_file(path)]
    path.rename(tmp_path / "moved")
    opened += [theirs := create_file(path)]
    with pytest.raises(FileExistsError):
        replace_open_file(path, ours)
    assert is_open_file(path, theirs)
    assert is_open_file(tmp_path / "moved", ours)
    path.unlink()
    opened += [again := replace_open_file(path, ours)]
    assert is_open_file(path, again)
    assert is_open_file(tmp_path / "moved", ours)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_file_is_replaced_in_one_step(tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a FILE at any moment: nobody else can take the name."""
    path = tmp_path / "calls"
    opened += [ours := create_file(path)]
    hardlink_to = Path.hardlink_to
    seen = []

    def looked_at(link: Path, target: Path) -> None:
        seen.append(path.exists())
        hardlink_to(link, target)
        seen.append(path.exists())
        assert rotated_set(path) == [rotated_path(path, 1)]  # one file, not two

    monkeypatch.setattr(Path, "hardlink_to", looked_at)
    opened += [new := replace_open_file(path, ours)]
    assert seen == [True, True]
    assert is_open_file(rotated_path(path, 1), ours)
    assert is_open_file(path, new)
    assert len(list(tmp_path.iterdir())) == 2


def test_what_somebody_left_who_was_killed_is_finished(tmp_path: Path, opened: list[int]) -> None:
    """FILE has a number already, and a new file is there that nobody uses."""
    path = tmp_path / "calls"
    path.write_bytes(MAGIC)
    rotated_path(path, 4).hardlink_to(path)
    (tmp_path / f".calls.{os.getpid()}.new").touch()
    opened.append(open_new(path))
    assert sorted(one.name for one in tmp_path.iterdir()) == ["calls", "calls.000004"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP])
def test_a_file_system_without_second_names_does(
    tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """FILE is renamed then."""
    path = tmp_path / "calls"

    def no_links(link: Path, target: Path) -> None:
        raise OSError(code, "no links")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    opened += [ours := create_file(path)]
    opened += [new := replace_open_file(path, ours)]
    assert is_open_file(rotated_path(path, 1), ours)
    assert is_open_file(path, new)


def test_a_file_that_cannot_be_replaced_stays(
    tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is left behind."""
    path = tmp_path / "calls"

    def full(link: Path, target: Path) -> None:
        raise OSError(errno.ENOSPC, "no space")

    monkeypatch.setattr(Path, "hardlink_to", full)
    opened += [ours := create_file(path)]
    with pytest.raises(OSError, match="no space"):
        replace_open_file(path, ours)
    assert is_open_file(path, ours)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_not_renamed_while_another_does_it(
    tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever holds the lock for longer is waited for in vain."""
    path = tmp_path / "calls"
    opened += [ours := create_file(path), theirs := os.open(path, os.O_RDONLY)]
    fcntl.flock(theirs, fcntl.LOCK_EX)
    waits: list[float] = []
    monkeypatch.setattr("time.sleep", waits.append)
    with pytest.raises(BlockingIOError):
        replace_open_file(path, ours)
    assert len(waits) == 49
    assert is_open_file(path, ours)


def test_a_lock_that_is_given_back_is_taken(tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """The wait is for that."""
    path = tmp_path / "calls"
    opened += [ours := create_file(path), theirs := os.open(path, os.O_RDONLY)]
    fcntl.flock(theirs, fcntl.LOCK_EX)
    monkeypatch.setattr("time.sleep", lambda seconds: fcntl.flock(theirs, fcntl.LOCK_UN))
    opened += [new := replace_open_file(path, ours)]
    assert is_open_file(path, new)


def test_a_file_system_without_locks_does(tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Then there is nobody to be protected from."""

    def no_locks(fd: int, operation: int) -> None:
        raise OSError(errno.EOPNOTSUPP, "no locks")

    monkeypatch.setattr("fcntl.flock", no_locks)
    opened += [fd := create_file(tmp_path / "calls")]
    opened += [new := replace_open_file(tmp_path / "calls", fd)]
    assert is_open_file(tmp_path / "calls", new)


def test_the_oldest_go(tmp_path: Path) -> None:
    """Empty ones before; what is not a recording stays."""
    path = tmp_path / "calls"
    for number, content in enumerate([MAGIC, MAGIC, b"mine!", b"", MAGIC], 1):
        rotated_path(path, number).write_bytes(content)
    rotated_path(path, 9).mkdir()
    remove_surplus(path, 2)
    assert [one.name[-1] for one in rotated_set(path)] == ["2", "3", "5", "9"]


def test_small_ones_go_before_large_ones(tmp_path: Path) -> None:
    """But the newest of all stays longest."""
    path = tmp_path / "calls"
    large = MAGIC + bytes(module.SMALL)
    for number, content in enumerate([large, large, MAGIC, large, MAGIC], 1):
        rotated_path(path, number).write_bytes(content)
    left = []
    for keep in (4, 3, 2, 1, 0):
        remove_surplus(path, keep)
        left.append("".join(one.name[-1] for one in rotated_set(path)))
    assert left == ["1245", "245", "45", "5", ""]


def test_what_is_no_file_stops_nobody(tmp_path: Path, opened: list[int]) -> None:
    """A pipe with the name of an older file, a link to one: they are not waited for, and stay."""
    path = tmp_path / "calls"
    os.mkfifo(rotated_path(path, 1))
    rotated_path(path, 2).symlink_to(rotated_path(path, 1))
    rotated_path(path, 3).symlink_to(tmp_path / "nowhere")
    opened += [create_file(path)]
    remove_surplus(path, 0)
    assert len(list(tmp_path.iterdir())) == 4
    assert rotated_set(path) == [rotated_path(path, 3), path]


def test_a_number_that_is_too_long_is_not_ours(tmp_path: Path, opened: list[int]) -> None:
    """Somebody's file with such a name does not lead ours there."""
    path = tmp_path / "calls"
    (tmp_path / "calls.9999999999").write_bytes(MAGIC)
    opened += [ours := create_file(path)]
    opened += [replace_open_file(path, ours)]
    assert rotated_set(path) == [rotated_path(path, 1), path]


def test_the_last_number_is_an_error(tmp_path: Path, opened: list[int]) -> None:
    """FILE stays what it is."""
    path = tmp_path / "calls"
    rotated_path(path, 999_999_999).write_bytes(MAGIC)
    opened += [ours := create_file(path)]
    with pytest.raises(OSError, match="no number is left") as caught:
        replace_open_file(path, ours)
    assert caught.value.errno == errno.EOVERFLOW
    assert is_open_file(path, ours)


def test_a_file_is_never_renamed_onto_another(
    tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody made one of that name just then."""
    path = tmp_path / "calls"

    def no_links(link: Path, target: Path) -> None:
        link.write_bytes(b"theirs")
        raise OSError(errno.EPERM, "no links")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    opened += [ours := create_file(path)]
    with pytest.raises(FileExistsError):
        replace_open_file(path, ours)
    assert is_open_file(path, ours)
    assert rotated_path(path, 1).read_bytes() == b"theirs"
