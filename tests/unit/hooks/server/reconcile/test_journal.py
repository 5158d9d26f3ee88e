"""What was found and written, and that it survives."""

import errno
import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter
from interpose.errors import ConfigError
from interpose.hooks.server.reconcile.journal import Journal, JournalEntry
from interpose.hooks.server.targets import ActuatorTarget

POD = ActuatorTarget(level=Level.POD, key="p", directory="kubepods/p", name="ns/p", pod_uid="u")
SHARES, QUOTA = Parameter.CPU_SHARES, Parameter.CPU_QUOTA


class FullDisk(Journal):
    """A disk that takes only so many bytes of each line."""

    room = 10**6

    def _write(self, line: bytes) -> int:
        if self.room < 0:
            raise OSError(errno.EIO, "Input/output error")
        return os.write(self._fd, line[: self.room])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the journal is; its directory is not there yet."""
    return tmp_path / "state" / "deep" / "journal"


@pytest.fixture
def journal(path: Path) -> Iterator[FullDisk]:
    """A journal with a file."""
    made = FullDisk(str(path), "boot")
    made.load()
    yield made
    made.close()


def again(path: Path, boot: str = "boot") -> Journal:
    """What a new process reads; the old one was killed, so its lock is gone with it."""
    made = Journal(str(path), boot)
    made.load()
    made.close()
    return made


def lines(path: Path) -> int:
    """Lines after the header."""
    return path.read_bytes().count(b"\n") - 1


def test_what_was_found_first_stays(path: Path, journal: Journal) -> None:
    """What is found later is our own."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.note(POD, SHARES, found=100, written=200, plugin="y", before=100)
    entry = JournalEntry(found=2, written=200, plugin="y", before=100)
    assert journal.get(Level.POD, "p", SHARES) == entry
    journal.close()
    assert again(path).get(Level.POD, "p", SHARES) == entry


def test_a_note_is_in_the_file_when_it_returns(path: Path, journal: Journal) -> None:
    """Nothing is kept back for later: the process may be killed the next moment."""
    journal.note(POD, QUOTA, found=UNLIMITED, written=CLEAR, plugin="x")
    line = json.loads(path.read_bytes().splitlines()[1])
    assert (line["found"], line["written"]) == ({"special": "unlimited"}, {"special": "clear"})


def test_the_same_note_twice_is_one_line(path: Path, journal: Journal) -> None:
    """A value that is tried again and again does not fill the disk."""
    for _ in range(3):
        journal.note(POD, SHARES, found=2, written=100, plugin="x")
    assert lines(path) == 1


def test_targets_can_be_made_again(path: Path, journal: Journal) -> None:
    """With directory and name, after a restart."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.close()
    read = again(path)
    assert read.targets() == [(Level.POD, "p")]
    assert read.target_of(Level.POD, "p") == POD
    assert read.target_of(Level.POD, "q") is None
    assert len(read) == 1


def test_forgetting_lasts(path: Path, journal: Journal) -> None:
    """A value, then all of a target; what is not there can be forgotten too."""
    other = ActuatorTarget(level=Level.CONTAINER, key="c")
    for parameter in (SHARES, QUOTA):
        journal.note(POD, parameter, found=2, written=100, plugin="x")
        journal.note(other, parameter, found=2, written=100, plugin="x")
    journal.forget(Level.POD, "p", SHARES)
    journal.forget(Level.POD, "p", SHARES)
    journal.forget_target(Level.CONTAINER, "c")
    journal.forget_target(Level.CONTAINER, "c")
    assert list(journal.entries_of(Level.POD, "p")) == [QUOTA]
    journal.close()
    read = again(path)
    assert list(read.entries_of(Level.POD, "p")) == [QUOTA]
    assert read.entries_of(Level.CONTAINER, "c") == {}
    assert len(read) == 1


def test_forgetting_the_last_value_forgets_the_target(journal: Journal) -> None:
    """A list of targets has only those with entries."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.forget(Level.POD, "p", SHARES)
    assert journal.targets() == []


def test_an_original_can_be_replaced(path: Path, journal: Journal) -> None:
    """Somebody resized the pod; without an entry it is nothing to us."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.rebase(Level.POD, "p", SHARES, 5)
    journal.rebase(Level.POD, "p", SHARES, 5)
    journal.rebase(Level.POD, "p", QUOTA, 5)
    assert lines(path) == 2
    journal.close()
    read = again(path)
    assert read.get(Level.POD, "p", SHARES) == JournalEntry(found=5, written=100, plugin="x")
    assert read.get(Level.POD, "p", QUOTA) is None


def test_half_a_line_is_cut_off(path: Path, journal: Journal) -> None:
    """The line after it must not become part of it."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.close()
    with path.open("ab") as file:
        file.write(b'{"level":"pod","key":"p","param')
    second = Journal(str(path), "boot")
    second.load()
    second.note(POD, QUOTA, found=2, written=100, plugin="x")
    second.close()
    assert set(again(path).entries_of(Level.POD, "p")) == {SHARES, QUOTA}


def test_another_boot_starts_empty(path: Path, journal: Journal) -> None:
    """Groups of the boot before are gone; values found in them must not be put into others."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.close()
    assert len(again(path, "next")) == 0
    assert len(again(path, "boot")) == 0


@pytest.mark.parametrize("damage", [b"garbage\n", b"\0\n", b"[1]\n"])
def test_a_damaged_line_costs_its_own_entry(
    path: Path, journal: Journal, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The others count; the file as it was is kept for whoever looks, and a second one does not replace the first."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.close()
    for number in (1, 2):
        content = path.read_bytes() + damage
        path.write_bytes(content)
        with caplog.at_level(logging.ERROR):
            read = again(path)
        assert read.get(POD.level, POD.key, SHARES) == JournalEntry(found=2, written=100, plugin="x")
        assert path.with_name(f"journal.damaged-{number}").read_bytes() == content
        assert damage not in path.read_bytes()
    assert len(caplog.records) == 2


def test_a_file_without_a_header_is_set_aside(path: Path, journal: Journal) -> None:
    """Nobody knows what it is about."""
    journal.close()
    path.write_bytes(b"garbage\n")
    assert len(again(path)) == 0
    assert path.with_name("journal.damaged-1").read_bytes() == b"garbage\n"


def test_a_journal_of_another_boot_is_kept(path: Path, journal: Journal) -> None:
    """For somebody who started with the wrong /proc."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.close()
    before = path.read_bytes()
    assert len(again(path, "another")) == 0
    assert path.with_name("journal.previous").read_bytes() == before


def test_what_an_update_replaces_is_known_until_it_is_done(path: Path, journal: Journal) -> None:
    """Somebody asks for another original: with the value before, the original before counts."""
    journal.supersede(POD, SHARES, found=2, written=100, plugin="x")
    journal.supersede(POD, SHARES, found=3, written=200, plugin="x", before=100)
    journal.close()
    entry = again(path).get(POD.level, POD.key, SHARES)
    assert entry == JournalEntry(found=3, written=200, plugin="x", before=100, moved=True, found_before=2)
    assert (entry.original(has_written=True), entry.original(has_written=False)) == (3, 2)


def test_an_update_with_the_same_original_moves_nothing(journal: Journal) -> None:
    """And the same twice is one line."""
    journal.supersede(POD, SHARES, found=2, written=100, plugin="x")
    for _ in range(2):
        journal.supersede(POD, SHARES, found=2, written=200, plugin="x", before=100)
    entry = journal.get(POD.level, POD.key, SHARES)
    assert entry == JournalEntry(found=2, written=200, plugin="x", before=100)
    assert entry.original(has_written=False) == 2


def test_what_is_no_file_is_set_aside_too(path: Path) -> None:
    """A directory with that name does not keep the server from starting."""
    path.mkdir(parents=True)
    assert len(again(path)) == 0
    assert path.with_name("journal.damaged-1").is_dir()


def test_nobody_else_can_read_it(path: Path, journal: Journal) -> None:
    """Neither the file nor the directory that was made for it."""
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_journal_in_use_is_refused(path: Path, journal: Journal) -> None:
    """Two processes that write values would each take the other's for what was there before."""
    second = Journal(str(path), "boot")
    with pytest.raises(BlockingIOError, match=r"journal .*journal is in use by another process.*journal\.lock"):
        second.load()
    journal.close()
    second.load()
    second.close()


def test_a_place_that_cannot_be_used_is_refused(tmp_path: Path) -> None:
    """With its name."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match=r"journal .*file/journal cannot be used"):
        Journal(str(tmp_path / "file" / "journal"), "boot").load()


def test_a_link_in_its_place_is_refused(path: Path, tmp_path: Path) -> None:
    """What it leads to is not ours to write."""
    path.parent.mkdir(parents=True)
    (tmp_path / "other").write_bytes(b'{"version":1,"boot":"boot"}\n')
    path.symlink_to(tmp_path / "other")
    with pytest.raises(ConfigError, match="cannot be used"):
        Journal(str(path), "boot").load()


def test_a_full_disk_fails_the_note_and_leaves_the_file_whole(path: Path, journal: FullDisk) -> None:
    """Then nothing is written to the kernel either; what is noted later is found again."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.room = 20
    with pytest.raises(OSError, match=r"No space left on device: .*journal") as caught:
        journal.note(POD, QUOTA, found=2, written=100, plugin="x")
    assert caught.value.errno == errno.ENOSPC
    assert journal.get(Level.POD, "p", QUOTA) is None
    journal.room = 10**6
    journal.note(POD, QUOTA, found=3, written=100, plugin="x")
    journal.close()
    assert again(path).get(Level.POD, "p", QUOTA) == JournalEntry(found=3, written=100, plugin="x")


def test_a_broken_disk_is_named(journal: FullDisk) -> None:
    """The error says which file."""
    journal.room = -1
    with pytest.raises(OSError, match=r"Input/output error: .*journal"):
        journal.note(POD, SHARES, found=2, written=100, plugin="x")


def test_forgetting_never_fails(path: Path, journal: FullDisk) -> None:
    """What is read again after a restart is forgotten again."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.room = -1
    journal.forget(Level.POD, "p", SHARES)
    assert journal.get(Level.POD, "p", SHARES) is None
    journal.close()
    assert len(again(path)) == 1


def test_a_long_file_is_written_anew(path: Path, journal: Journal) -> None:
    """History does not fill the disk, and nothing that is alive is lost on the way."""
    other = ActuatorTarget(level=Level.QOS, key="q")
    journal.note(other, SHARES, found=7, written=8, plugin="x")
    for number in range(3000):
        journal.note(POD, SHARES, found=2, written=number, plugin="x")
    assert lines(path) < 1100
    assert path.stat().st_mode & 0o777 == 0o600
    journal.close()
    read = again(path)
    assert read.get(Level.POD, "p", SHARES) == JournalEntry(found=2, written=2999, plugin="x")
    assert read.get(Level.QOS, "q", SHARES) == JournalEntry(found=7, written=8, plugin="x")


def test_a_long_file_is_written_anew_at_the_start(path: Path, journal: Journal) -> None:
    """If the process before did not come to it."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    journal.close()
    header, line = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(header + line * 1100)
    assert len(again(path)) == 1
    assert lines(path) == 1


def test_a_file_that_cannot_be_written_anew_grows_on(
    path: Path, journal: Journal, caplog: pytest.LogCaptureFixture
) -> None:
    """Told now and then, not at every line."""
    path.with_name("journal.tmp").mkdir()
    for number in range(2500):
        journal.note(POD, SHARES, found=2, written=number, plugin="x")
    assert lines(path) == 2500
    assert [record.getMessage() for record in caplog.records] == ["Failed to compact journal"] * 2


def test_a_failed_rewrite_leaves_nothing_behind(path: Path, journal: Journal, caplog: pytest.LogCaptureFixture) -> None:
    """Neither a file nor a descriptor; the old file goes on."""
    path.unlink()
    path.mkdir()
    before = len(list(Path("/proc/self/fd").iterdir()))
    for number in range(1100):
        journal.note(POD, SHARES, found=2, written=number, plugin="x")
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    assert not path.with_name("journal.tmp").exists()
    assert len(caplog.records) == 1


def test_without_a_path_it_is_memory() -> None:
    """For a dry run; it works the same."""
    journal = Journal(None, "boot")
    journal.load()
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    assert journal.get(Level.POD, "p", SHARES) == JournalEntry(found=2, written=100, plugin="x")
    journal.forget(Level.POD, "p", SHARES)
    journal.close()
    assert len(journal) == 0


def test_a_closed_journal_takes_nothing(path: Path, journal: Journal) -> None:
    """Who wanted to write a value is told not to."""
    journal.close()
    with pytest.raises(OSError, match="journal is closed"):
        journal.note(POD, SHARES, found=2, written=100, plugin="x")


def test_threads_share_it(path: Path, journal: Journal) -> None:
    """Every note of every thread is there, each in a line of its own."""

    def work(name: str) -> None:
        target = ActuatorTarget(level=Level.CONTAINER, key=name)
        for number in range(200):
            journal.note(target, SHARES, found=1, written=number, plugin=name)
            journal.note(target, QUOTA, found=1, written=number, plugin=name)
            journal.forget(Level.CONTAINER, name, SHARES)

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    read = again(path)
    assert len(read) == 4
    assert all(read.get(Level.CONTAINER, f"t{number}", QUOTA) for number in range(4))


def test_a_look_at_a_journal_in_use(path: Path, journal: Journal) -> None:
    """It tells what is in it, and what is noted afterwards is nobody's."""
    journal.note(POD, SHARES, found=2, written=100, plugin="x")
    before = path.read_bytes()
    looked = Journal(str(path), "boot")
    looked.peek()
    assert looked.get(POD.level, POD.key, SHARES) == journal.get(POD.level, POD.key, SHARES)
    assert len(looked) == 1
    looked.note(POD, QUOTA, found=1, written=5, plugin="x")
    assert path.read_bytes() == before


def test_a_look_at_what_is_not_there_or_damaged(path: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Leaves it as it is; only the damage is worth a word."""
    for file in (None, str(tmp_path / "missing")):
        looked = Journal(file, "boot")
        looked.peek()
        assert len(looked) == 0
    assert not caplog.records
    damaged = tmp_path / "damaged"
    damaged.write_bytes(b"x\ny\n")
    looked = Journal(str(damaged), "boot")
    looked.peek()
    assert len(looked) == 0
    assert damaged.read_bytes() == b"x\ny\n"
    assert [record.message for record in caplog.records] == ["Failed to read journal, original values are unknown"]
