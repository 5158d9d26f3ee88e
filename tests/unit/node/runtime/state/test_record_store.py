"""Records on disk."""

import errno
import resource
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from interpose.node.runtime.state.record_store import FileRecordStore
from interpose.node.runtime.state.records import ContainerRecord, SandboxPhase, SandboxRecord
from interpose.testing.pods import pod_config

RECORD = SandboxRecord(id="a" * 64, config=pod_config("web"), created_at=5)


@pytest.fixture
def folder(tmp_path: Path) -> FileRecordStore:
    """An empty one."""
    found = FileRecordStore(tmp_path)
    found.prepare()
    return found


def test_put_replace_drop(folder: FileRecordStore) -> None:
    """The last one counts; one that is gone may be dropped again."""
    folder.put(RECORD)
    folder.put(replace(RECORD, phase=SandboxPhase.READY))
    assert folder.load(SandboxRecord)[RECORD.id].phase is SandboxPhase.READY
    assert folder.load(ContainerRecord) == {}
    folder.drop(RECORD)
    folder.drop(RECORD)
    assert folder.load(SandboxRecord) == {}


def test_what_is_broken_is_put_aside(folder: FileRecordStore, tmp_path: Path) -> None:
    """Broken files, and records under another's name; the good ones are there."""
    folder.put(RECORD)
    sandboxes = tmp_path / "sandboxes"
    (sandboxes / f"{'b' * 64}.json").write_bytes(b"")
    (sandboxes / f"{'c' * 64}.json").write_bytes((sandboxes / f"{RECORD.id}.json").read_bytes())
    (sandboxes / f"{'d' * 64}.json").mkdir()
    assert set(folder.load(SandboxRecord)) == {RECORD.id}
    assert sorted(one.suffix for one in sandboxes.iterdir()) == [".broken", ".broken", ".broken", ".json"]
    assert set(folder.load(SandboxRecord)) == {RECORD.id}


def test_a_record_that_cannot_be_read_for_a_moment(folder: FileRecordStore, tmp_path: Path) -> None:
    """Is read again; nothing is put aside."""
    folder.put(RECORD)
    errors = [OSError(errno.EMFILE, "Too many open files"), OSError(errno.EIO, "Input/output error")]
    waits: list[float] = []

    def read(path: Path) -> bytes:
        if errors:
            raise errors.pop()
        return path.read_bytes()

    assert FileRecordStore(tmp_path, read=read, sleep=waits.append).load(SandboxRecord) == {RECORD.id: RECORD}
    assert len(waits) == 2


def test_a_record_that_cannot_be_read_is_kept(folder: FileRecordStore, tmp_path: Path) -> None:
    """The error names the file, and nothing is loaded: its pod must not be removed as an orphan."""

    def read(_path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    folder.put(RECORD)
    broken = FileRecordStore(tmp_path, read=read, sleep=lambda _seconds: None)
    with pytest.raises(OSError, match=rf"record cannot be read: Input/output error: '.*{RECORD.id}.json'"):
        broken.load(SandboxRecord)
    assert folder.load(SandboxRecord) == {RECORD.id: RECORD}


def test_a_kill_while_writing_leaves_nothing(folder: FileRecordStore, tmp_path: Path) -> None:
    """The temporary file of a process that was killed goes at the next start; the old record counts."""
    folder.put(RECORD)
    (tmp_path / "sandboxes" / f".{RECORD.id}.tmp").write_bytes(b"half")
    assert folder.load(SandboxRecord) == {RECORD.id: RECORD}
    folder.prepare()
    assert [one.name for one in (tmp_path / "sandboxes").iterdir()] == [f"{RECORD.id}.json"]


def test_records_are_for_their_owner(folder: FileRecordStore, tmp_path: Path) -> None:
    """There are environment values in them."""
    folder.put(RECORD)
    assert (tmp_path / "sandboxes" / f"{RECORD.id}.json").stat().st_mode & 0o777 == 0o600


def test_a_record_that_cannot_be_written_leaves_the_old_one(folder: FileRecordStore, tmp_path: Path) -> None:
    """And nothing beside it, which would take the last room there is."""
    folder.put(RECORD)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            folder.put(replace(RECORD, phase=SandboxPhase.READY))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, ignored)
    assert folder.load(SandboxRecord) == {RECORD.id: RECORD}
    assert [one.name for one in (tmp_path / "sandboxes").iterdir()] == [f"{RECORD.id}.json"]
