"""Writing recordings on disks that do not work, and beside others who use the same names."""

import errno
import os
from pathlib import Path

import pytest

from interpose.dump.model.call import SESSION
from interpose.dump.model.frames import Begin, Dropped, Flags
from interpose.dump.recording.files import rotated_set
from interpose.dump.recording.writer import RETRY
from tests.support.builds import patches_constants
from tests.unit.dump.recording.test_writer import Clock, call, kinds, path, read, state, writer

__all__ = ["path"]  # a fixture


class Disk:
    """Decides how much can be written; everything else is real."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 40
        self.error = errno.ENOSPC
        self._write = os.write
        monkeypatch.setattr("os.write", self.write)

    def write(self, fd: int, data: bytes) -> int:
        """As much as there is room for."""
        if self.room == 0:
            raise OSError(self.error, os.strerror(self.error))
        done = self._write(fd, data[: self.room])
        self.room -= done
        return done


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """With room."""
    return Disk(monkeypatch)


# -- disks that do not work


def test_a_full_disk_loses_frames_and_says_so(path: Path, disk: Disk) -> None:
    """When there is room again, the same file goes on with what is missing, and with the calls in flight."""
    clock = Clock()
    recording = writer(path, clock=clock)
    recording.write(call(1)[0])
    recording.flush()
    disk.room = 5
    recording.write(call(1)[1])
    recording.flush()
    assert state(recording) == (errno.ENOSPC, 1)
    error = recording.error
    assert kinds(read(path)) == "HCB"
    recording.write(call(2)[0])
    clock.now += RETRY
    recording.write(call(2)[1])
    recording.flush()
    assert state(recording) == (errno.ENOSPC, 3)
    assert recording.error is error
    disk.room = 1 << 40
    clock.now += RETRY - 1
    recording.write(call(2)[2])
    assert state(recording) == (errno.ENOSPC, 4)
    clock.now += 1
    for frame in call(3):
        recording.write(frame)
    recording.close()
    frames = read(path)
    assert kinds(frames) == "HCB" + "DB" + "BME"
    dropped = frames[3]
    assert isinstance(dropped, Dropped)
    assert dropped.frames == 4
    assert frames[4] == call(1)[0]._replace(flags=Flags.CONTINUED)
    assert state(recording) == (0, 4)
    assert rotated_set(path) == [path]


def test_a_call_that_ended_meanwhile_is_not_continued(path: Path, disk: Disk) -> None:
    """One that began meanwhile is."""
    clock = Clock()
    recording = writer(path, clock=clock)
    disk.room = 0
    begin, request, end = call(1)
    for frame in (begin, request, end, call(2)[0]):
        recording.write(frame)
    recording.flush()
    disk.room = 1 << 40
    clock.now += RETRY
    recording.write(call(2)[2])
    recording.close()
    assert [one.number for one in read(path) if isinstance(one, Begin)] == [2]


def test_a_file_that_cannot_be_written_is_followed_by_another(path: Path, disk: Disk) -> None:
    """A disk that is full is the only reason not to."""
    clock = Clock()
    recording = writer(path, clock=clock)
    disk.room, disk.error = 0, errno.EIO
    recording.write(call(1)[0])
    recording.flush()
    assert recording.error is not None
    clock.now += RETRY
    recording.write(call(1)[1])
    assert rotated_set(path)[-1] == path
    assert len(rotated_set(path)) == 2
    disk.room = 1 << 40
    clock.now += RETRY
    recording.write(call(1)[2])
    recording.close()
    assert recording.lost == 2
    assert kinds(read(path)) == "HCDBE"


def test_a_disk_that_is_full_from_the_start_is_waited_for(path: Path, disk: Disk) -> None:
    """The beginning is written when there is room; it is nobody's loss."""
    disk.room = 0
    clock = Clock()
    recording = writer(path, clock=clock)
    assert recording.error is not None
    assert recording.lost == 0
    disk.room = 1 << 40
    clock.now += RETRY
    recording.write(call(1)[0])
    recording.close()
    assert kinds(read(path)) == "HCB"


def test_what_is_missing_is_told_at_the_end(path: Path, disk: Disk) -> None:
    """Also if nothing more came."""
    recording = writer(path)
    disk.room = 0
    recording.write(call(1)[0])
    recording.flush()
    recording.flush()
    disk.room = 1 << 40
    recording.close()
    assert kinds(read(path)) == "HCDB"


def test_a_failure_of_the_index_is_no_loss(path: Path, disk: Disk) -> None:
    """The error is told."""
    recording = writer(path)
    recording.write(call(1)[0])
    recording.flush()
    disk.room = 0
    recording.close()
    assert (recording.lost, kinds(read(path))) == (0, "HCB")
    assert recording.error is not None


def test_a_disk_that_does_not_take_the_end_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has what the system took."""

    def fails(fd: int) -> None:
        raise OSError(errno.EIO, "no")

    recording = writer(path)
    monkeypatch.setattr("os.fsync", fails)
    recording.close()
    assert recording.error is not None
    assert kinds(read(path)) == "HCIT"


# -- others


def test_a_file_that_was_moved_away_is_made_anew(path: Path) -> None:
    """As those do who rotate logs; what was moved is whole."""
    recording = writer(path)
    recording.write(call(1)[0])
    path.rename(path.with_name("moved"))
    recording.flush()
    recording.write(call(1)[2])
    recording.close()
    assert kinds(read(path.with_name("moved"))) == "HCBIT"
    assert kinds(read(path)) == "HCBEIT"


def test_a_directory_that_went_is_an_error_until_it_is_back(tmp_path: Path) -> None:
    """Nothing is raised."""
    clock = Clock()
    path = tmp_path / "dir" / "calls.crirec"
    path.parent.mkdir()
    recording = writer(path, clock=clock)
    path.parent.rename(tmp_path / "gone")
    recording.flush()
    assert state(recording) == (errno.ENOENT, 0)
    recording.write(call(1)[0])
    path.parent.mkdir()
    clock.now += RETRY
    recording.write(call(2)[0])
    recording.close()
    assert state(recording) == (0, 1)
    assert kinds(read(path)) == "HCDBBIT"


def test_a_predecessor_ends_in_its_own_file(path: Path) -> None:
    """It goes on there until that is full, then it stops; the files of its successor are never touched."""
    clock = Clock()
    old = writer(path, max_bytes=4096, clock=clock)
    old.write(call(1)[0])
    new = writer(path, header_facts={SESSION: "new"}, max_bytes=4096)
    old.flush()
    for number in range(1, 20):
        old.write(call(number, size=1000)[1])
        clock.now += RETRY
    assert old.lost > 0
    assert isinstance(old.error, FileExistsError)
    assert "another process records to this file now" in str(old.error)
    new.write(call(7)[0])
    new.close()
    old.close()
    files = rotated_set(path)
    assert len(files) == 2
    assert kinds(read(files[0])) == "HCBMMIT"
    assert kinds(read(files[1])) == "HCBIT"


def test_a_predecessor_goes_on_if_the_name_is_free_again(path: Path) -> None:
    """A take-over that came to nothing."""
    clock = Clock()
    old = writer(path, max_bytes=2500, clock=clock)
    writer(path, header_facts={SESSION: "new"}).close()
    for number in (1, 2):
        old.write(call(number, size=1000)[1])
    assert state(old) == (errno.EEXIST, 1)
    path.unlink()
    clock.now += RETRY
    old.write(call(3)[1])
    old.close()
    assert kinds(read(path)) == "HCDMIT"
    assert state(old) == (0, 1)


@patches_constants
def test_calls_in_flight_are_bounded(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest is not continued then."""
    monkeypatch.setattr("interpose.dump.recording.writer.KEPT_CALLS", 1)
    recording = writer(path, max_bytes=1500)
    for number in (1, 2):
        recording.write(call(number)[0])
    recording.write(call(3, size=1000)[1])
    recording.write(call(3, size=1000)[1])
    recording.close()
    assert [one.number for one in read(path) if isinstance(one, Begin)] == [2]


def test_files_that_cannot_be_removed_stay(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no reason to stop."""

    def no(path: Path, keep: int) -> None:
        raise PermissionError

    monkeypatch.setattr("interpose.dump.recording.writer.remove_surplus", no)
    recording = writer(path, max_bytes=100, files=1)
    for number in (1, 2):
        recording.write(call(number)[0])
    assert recording.error is None
    assert len(rotated_set(path)) == 2


@patches_constants
def test_an_index_too_large_for_a_frame_is_left_out(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers do without."""
    monkeypatch.setattr("interpose.dump.model.frames.MAX_PAYLOAD", 200)
    recording = writer(path, header_facts={SESSION: "x"})
    for number in range(1, 60):
        recording.write(Begin(number=number, time=number, path=f"/{os.urandom(8).hex()}"))
    recording.close()
    assert (recording.error, recording.lost) == (None, 0)
    assert kinds(read(path)) == "HC" + "B" * 59
