"""One file, read from its beginning or by its index."""

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from interpose.dump.model.call import Flow, Subject
from interpose.dump.model.frames import (
    Begin,
    Context,
    Dropped,
    End,
    Frame,
    Header,
    Index,
    Message,
    MessageSide,
    Trailer,
    encode,
)
from interpose.dump.recording import file_reader as module
from interpose.dump.recording.file_reader import EMPTY, RecordingFile
from interpose.dump.recording.writer import RecordingWriter
from interpose.errors import ConfigError

CALL: list[Frame] = [
    Begin(number=1, time=5, path="/runtime.v1.RuntimeService/Version"),
    Message(number=1, at=1, side=MessageSide.REQUEST, size=4, body=b"body"),
    Dropped(frames=2, size=30, time=7),
    End(number=1, elapsed=2, code=3),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A whole file with one call."""
    path = tmp_path / "calls.crirec"
    writer = RecordingWriter(path, header_facts={"session": "s"}, context=lambda: {"pods": ["web"]})
    for frame in CALL:
        writer.write(frame, Subject(pod="web") if isinstance(frame, Message) else Subject())
    writer.close()
    return path


def frames(path: Path) -> list[Frame]:
    """All of a file."""
    return [one.frame for one in RecordingFile(path).placed()]


def test_all_frames_are_read(path: Path) -> None:
    """The header is known before."""
    file = RecordingFile(path)
    assert (file.session, file.header.facts["version"], file.size) == ("s", 1, path.stat().st_size)
    assert frames(path)[2:-2] == CALL
    assert file.damage == []


def test_an_index_gives_the_same_as_reading(path: Path) -> None:
    """Only whom calls are about has to be found out by the reader."""
    file = RecordingFile(path)
    scan = file.scan(lambda flow, message: Subject(pod="web"))
    assert file.rows() == scan.rows
    assert (scan.frames, scan.message_bytes, scan.dropped, scan.dropped_bytes) == (8, 4, 2, 30)
    assert [row.subject for row in file.scan().rows] == [Subject()]


def test_a_scan_lets_others_learn(path: Path) -> None:
    """From the context, before any call."""
    learned: list[object] = []

    def identify(flow: Flow, message: Message) -> Subject:
        assert learned
        return Subject()

    RecordingFile(path).scan(identify, learned.append)
    assert learned == [{"pods": ["web"]}]


def test_places_lead_to_the_frames_of_a_call(path: Path) -> None:
    """Nothing else is read."""
    file = RecordingFile(path)
    rows = file.rows()
    assert rows is not None
    assert [one.frame for one in file.placed(rows[0].begin, rows[0].end)] == CALL
    assert file.damage == []


def test_every_cut_of_a_file_can_be_read(path: Path) -> None:
    """Up to the last whole frame; it has no index, unless nothing was cut."""
    data, whole = path.read_bytes(), list(RecordingFile(path).placed())
    for cut in range(len(data)):
        path.write_bytes(data[:cut])
        file = RecordingFile(path)
        complete = [one for one in whole if one.end <= cut]
        assert list(file.placed()) == complete
        between = cut in (one.begin for one in whole) and cut > 0
        assert bool(file.damage) is not between
        assert file.rows() is None
        file.close()


def test_every_flipped_byte_loses_what_it_touches(path: Path) -> None:
    """An index that is not intact is not used; nothing is ever raised."""
    data, whole = bytearray(path.read_bytes()), list(RecordingFile(path).placed())
    for at in range(len(data)):
        data[at] ^= 0xFF
        path.write_bytes(data)
        data[at] ^= 0xFF
        file = RecordingFile(path)
        untouched = [one for one in whole if not one.begin <= at < one.end or at == one.begin + 3]
        assert [one[:3] for one in file.placed()] == [one[:3] for one in untouched]
        assert file.damaged == len(whole) - len(untouched)
        assert all(one.file == str(path) for one in file.damage)
        assert (file.rows() is not None) is (whole[-2] in untouched and whole[-1] in untouched)
        file.close()


def test_a_file_whose_header_is_damaged_has_none(path: Path) -> None:
    """The rest can be read."""
    data = bytearray(path.read_bytes())
    data[20] ^= 1
    path.write_bytes(data)
    file = RecordingFile(path)
    assert (file.header.facts, file.session) == ({}, "")
    assert Context(facts={"pods": ["web"]}) in frames(path)


def test_an_empty_file_is_an_empty_recording(tmp_path: Path) -> None:
    """It says so."""
    path = tmp_path / "empty"
    path.touch()
    file = RecordingFile(path)
    assert list(file.placed()) == []
    assert [one.why for one in file.damage] == [EMPTY]


@pytest.mark.parametrize("content", [b"root:x:0:0:root", b"\x1f\x8b\x08\x00", b"x" * 100_000])
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes) -> None:
    """With its name and its beginning."""
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(ConfigError) as caught:
        RecordingFile(path)
    assert str(caught.value).startswith(f"{path}: not a recording: it begins with {content[:16]!r}")


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path) -> None:
    """With the reason."""
    for path, reason in [
        (tmp_path / "no", "there is no such file"),
        (tmp_path, "cannot be read: Is a directory"),
        (tmp_path / ("no" * 200), "cannot be read: File name too long"),
    ]:
        with pytest.raises(ConfigError, match=reason):
            RecordingFile(path)


@pytest.mark.parametrize("version", [2, "next", None])
def test_a_newer_version_is_refused(tmp_path: Path, version: object) -> None:
    """It may mean something else by the same bytes."""
    path = tmp_path / "new"
    path.write_bytes(encode(Header(facts={"version": version})))
    with pytest.raises(ConfigError, match="use a newer one"):
        RecordingFile(path)


@pytest.mark.parametrize(
    "end",
    [
        [Trailer(index_at=0)],
        [Trailer(index_at=1 << 63)],
        [Trailer(index_at=10**9)],
        [Index(facts={}), Trailer(index_at=-1)],
        [CALL[1], Trailer(index_at=-1)],
        [End(number=1, elapsed=1, code=0)],
        [Context(facts={"a": 10})],  # as long as a trailer
        [CALL[0], Message(number=1, at=1, side=MessageSide.REPLY, size=0, body=b"")],
    ],
)
def test_an_index_that_leads_nowhere_is_not_used(tmp_path: Path, end: list[Frame]) -> None:
    """The file is read instead. -1 stands for where the frame before is."""
    path = tmp_path / "calls"
    data = encode(Header(facts={}))
    for frame in end:
        at = len(data)
        if isinstance(frame, Trailer) and frame.index_at == -1:
            frame = Trailer(index_at=at - len(encode(end[0])))
        data += encode(frame)
    path.write_bytes(data)
    assert RecordingFile(path).rows() is None


def test_pieces_of_a_large_file_are_joined(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames may lie across them."""
    whole = frames(path)
    file = RecordingFile(path)
    monkeypatch.setattr(module, "PIECE", 7)
    assert [one.frame for one in file.placed()] == whole


def test_a_disk_that_fails_is_told_with_the_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no damage of the file."""

    def fails(fd: int, size: int, at: int) -> bytes:
        raise OSError(errno.EIO, "Input/output error")

    file = RecordingFile(path)
    monkeypatch.setattr("os.pread", fails)
    with pytest.raises(OSError, match=r"Input/output error.*calls.crirec"):
        list(file.placed())


def test_a_file_that_is_renamed_meanwhile_is_read_on(path: Path) -> None:
    """Rotation does not disturb readers."""
    file = RecordingFile(path)
    path.rename(path.with_name("other"))
    assert len(list(file.placed())) == 8


def test_what_comes_through_a_pipe_can_be_read(path: Path) -> None:
    """Also by index; - is standard input."""
    script = (
        "import sys; from interpose.dump.recording.file_reader import RecordingFile; file = RecordingFile(sys.argv[1]);"
        "print(len(list(file.placed())), len(file.rows()))"
    )
    for name in ("-", "/dev/stdin"):
        done = subprocess.run(
            [sys.executable, "-c", script, name], input=path.read_bytes(), stdout=subprocess.PIPE, check=True
        )
        assert done.stdout == b"8 1\n"


def test_descriptors_are_given_back(path: Path) -> None:
    """By close, by an error, or when nobody has the file any more."""

    def count() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = count()
    file = RecordingFile(path)
    file.close()
    file.close()
    RecordingFile(path)
    path.write_bytes(b"something else")
    with pytest.raises(ConfigError):
        RecordingFile(path)
    assert count() == before
