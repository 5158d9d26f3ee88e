"""Where lines go: a file that comes back whatever happens to it, and the log."""

import io
import json
import os
from pathlib import Path

import pytest

from interpose.dump.capture.sinks import DumpFile, DumpLog
from interpose.dump.output.text import DumpLine

LINE = DumpLine(stamp="2026-Nov-16 09:00:00.000", text="(passthrough) REQUEST Version => {}")
WRITTEN = "[2026-Nov-16 09:00:00.000] (passthrough) REQUEST Version => {}\n"


class Clock:
    """Seconds."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_file_is_emptied_at_start_if_asked(tmp_path: Path) -> None:
    """A successor of another relay goes on instead. Nobody else may read it."""
    path = tmp_path / "dump"
    path.write_text("old\n")
    file = DumpFile(str(path), empty=False)
    file.write([LINE])
    file.write([])
    file.close()
    assert path.read_text() == "old\n" + WRITTEN
    DumpFile(str(path), empty=True).close()
    assert path.read_text() == ""
    path.unlink()
    DumpFile(str(path), empty=True).close()
    assert path.stat().st_mode & 0o777 == 0o600


def test_file_that_was_moved_away_is_made_anew(tmp_path: Path) -> None:
    """As whoever rotates logs expects: what comes later is in a file of the old name."""
    path = tmp_path / "dump"
    file = DumpFile(str(path), empty=True)
    file.write([LINE])
    path.rename(tmp_path / "dump.1")
    file.flush()
    file.write([LINE, LINE])
    file.close()
    assert (tmp_path / "dump.1").read_text() == WRITTEN
    assert path.read_text() == WRITTEN * 2


def test_file_that_was_replaced_is_left_to_its_owner(tmp_path: Path) -> None:
    """Another file of that name is appended to, never emptied."""
    path = tmp_path / "dump"
    file = DumpFile(str(path), empty=True)
    path.unlink()
    path.write_text("other\n")
    file.flush()
    file.write([LINE])
    file.close()
    assert path.read_text() == "other\n" + WRITTEN


def test_file_that_cannot_be_made_is_tried_again(tmp_path: Path) -> None:
    """Lines are counted as lost until then."""
    clock = Clock()
    path = tmp_path / "away" / "dump"
    file = DumpFile(str(path), empty=True, now=clock)
    file.write([LINE])
    file.flush()
    assert (file.lost, file.error is not None) == (1, True)
    path.parent.mkdir()
    file.write([LINE])
    assert file.lost == 2
    clock.now += 5
    file.write([LINE])
    file.close()
    assert (file.lost, file.error, path.read_text()) == (2, None, WRITTEN)


@pytest.mark.parametrize("shared", [True, False])
def test_link_is_followed_only_where_nobody_else_could_have_put_it(tmp_path: Path, shared: bool) -> None:
    """In a directory like /tmp it is refused, and what it points to stays as it is."""
    folder = tmp_path / "folder"
    folder.mkdir()
    folder.chmod(0o1777 if shared else 0o755)
    target = tmp_path / "target"
    target.write_text("precious\n")
    (folder / "dump").symlink_to(target)
    file = DumpFile(str(folder / "dump"), empty=True)
    assert (file.error is not None) is shared
    assert target.read_text() == ("precious\n" if shared else "")
    file.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give a file away")
def test_file_of_somebody_else_in_a_shared_directory_is_refused(tmp_path: Path) -> None:
    """It could be read along."""
    tmp_path.chmod(0o1777)
    path = tmp_path / "dump"
    path.write_text("bait\n")
    os.chown(path, 65534, 65534)
    file = DumpFile(str(path), empty=True)
    assert file.error is not None
    assert path.read_text() == "bait\n"


def test_file_with_a_second_name_in_a_shared_directory_is_refused(tmp_path: Path) -> None:
    """It may be a file of ours that somebody wants to have written to."""
    tmp_path.chmod(0o1777)
    precious = tmp_path / "precious"
    precious.write_text("precious\n")
    (tmp_path / "dump").hardlink_to(precious)
    file = DumpFile(str(tmp_path / "dump"), empty=True)
    assert "another name" in str(file.error)
    assert precious.read_text() == "precious\n"


def test_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    """With a reader or without."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert DumpFile(str(path), empty=True).error is not None
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    assert "neither a file nor a terminal" in str(DumpFile(str(path), empty=True).error)
    os.close(reader)


def test_device_is_written_to() -> None:
    """There is nothing to empty."""
    file = DumpFile("/dev/null", empty=True)
    file.write([LINE])
    file.close()
    assert (file.error, file.lost) == (None, 0)


@pytest.mark.parametrize("allowed", [True, False])
def test_file_that_others_may_read_is_for_its_owner_from_now_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, allowed: bool
) -> None:
    """If the file system knows such a thing."""

    def no(descriptor: int, mode: int) -> None:
        raise PermissionError

    path = tmp_path / "dump"
    path.touch(0o644)
    path.chmod(0o644)
    if not allowed:
        monkeypatch.setattr("os.fchmod", no)
    file = DumpFile(str(path), empty=False)
    file.write([LINE])
    file.close()
    assert (file.error, path.read_text()) == (None, WRITTEN)
    assert path.stat().st_mode & 0o777 == (0o600 if allowed else 0o644)


def test_full_disk_costs_lines_and_nothing_else() -> None:
    """The error is there to be told, and every line that is missing is counted."""
    clock = Clock()
    file = DumpFile("/dev/full", empty=True, now=clock)
    for _ in range(600):
        file.write([LINE] * 10)
        clock.now += 0.1
    file.flush()
    assert (file.error is not None, file.lost) == (True, 6000)
    file.close()


def test_lines_are_handed_over_whole_and_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may append to the same file: its lines come between ours, never within one."""
    write = os.write
    writes: list[bytes] = []

    def seen(descriptor: int, data: bytes) -> int:
        writes.append(data)
        return write(descriptor, data)

    monkeypatch.setattr("os.write", seen)
    path = tmp_path / "dump"
    file = DumpFile(str(path), empty=True)
    for _ in range(2000):
        file.write([LINE])
    file.close()
    assert path.read_text() == WRITTEN * 2000
    assert all(one.endswith(b"\n") for one in writes)
    assert len(writes) == 1 + len(WRITTEN) * 2000 // (64 << 10)


def test_half_a_line_is_ended_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whole lines that the disk took before it was full are not lost."""
    clock = Clock()
    write = os.write
    room = 0

    def limited(descriptor: int, data: bytes) -> int:
        nonlocal room
        if not room:
            raise OSError(28, "full")
        done = write(descriptor, data[:room])
        room -= done
        return done

    monkeypatch.setattr("os.write", limited)
    path = tmp_path / "dump"
    file = DumpFile(str(path), empty=True, now=clock)
    for room, lost in ((len(WRITTEN) + 5, 2), (0, 5), (1 << 20, 5)):  # noqa: B007 - the disk reads it
        file.write([LINE] * 3)
        file.flush()
        assert file.lost == lost
        clock.now += 5
    file.close()
    assert path.read_text() == WRITTEN + WRITTEN[:5] + "\n" + WRITTEN * 3


@pytest.mark.parametrize("level", ["info", "warning"])
def test_lines_of_the_log_are_not_quoted(level: str) -> None:
    """Severity, time, pid and source in front; the line as it is."""
    out = io.StringIO()
    line = DumpLine(stamp="", text='    Version <= a: "b"', level="warning" if level == "warning" else "info")
    DumpLog("text", out).write([line])
    head, _, text = out.getvalue().partition(" message] ")
    assert head[0] == {"info": "I", "warning": "W"}[level]
    assert text == '    Version <= a: "b"\n'


def test_lines_of_a_json_log() -> None:
    """An object a line."""
    out = io.StringIO()
    DumpLog("json", out).write([LINE])
    line = json.loads(out.getvalue())
    assert (line["logger"], line["msg"]) == ("message", LINE.text)
