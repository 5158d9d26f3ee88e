"""Writing recordings: files, their beginnings and ends, rotation."""

import os
from pathlib import Path
from typing import Any

import pytest

from interpose.dump.model.call import SESSION, Assembler, Subject
from interpose.dump.model.frame_reader import FrameStream
from interpose.dump.model.frames import (
    VERSION,
    Begin,
    Context,
    Dropped,
    End,
    Flags,
    Frame,
    Header,
    Index,
    Message,
    MessageSide,
    Packing,
    Trailer,
)
from interpose.dump.recording.files import rotated_set
from interpose.dump.recording.writer import RecordingWriter
from interpose.errors import ConfigError
from tests.support.builds import patches_constants

FACTS = {SESSION: "one", "host": "node-1"}
WEB = Subject(namespace="shop", pod="web")


class Clock:
    """Seconds that pass when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """FILE."""
    return tmp_path / "calls.crirec"


def writer(path: Path, **options: Any) -> RecordingWriter:
    """One that tells a fixed time."""
    return RecordingWriter(path, **{"header_facts": FACTS, "now": lambda: 1_763_283_600_000_000_000, **options})


def read(path: Path) -> list[Frame]:
    """All frames of a file that is whole."""
    stream = FrameStream()
    frames = stream.feed(path.read_bytes()) + stream.finish()
    assert stream.damage == []
    return frames


def call(number: int, size: int = 10) -> tuple[Begin, Message, End]:
    """A whole call."""
    body = os.urandom(size)
    return (
        Begin(number=number, time=number, path="/runtime.v1.RuntimeService/Version"),
        Message(number=number, at=1, side=MessageSide.REQUEST, size=size, body=body),
        End(number=number, elapsed=2, code=0),
    )


def state(recording: RecordingWriter) -> tuple[int, int]:
    """The number of the error, and how many frames are lost."""
    return (0 if recording.error is None else recording.error.errno or -1), recording.lost


def kinds(frames: list[Frame]) -> str:
    """The first letters: Header, Context, Begin, Message, End, Dropped, Index, Trailer."""
    return "".join(type(one).__name__[0] for one in frames)


def test_a_file_tells_where_it_comes_from_at_once(path: Path) -> None:
    """Before there is any call."""
    writer(path, context=lambda: {"pods": ["web"]})
    header, context = read(path)
    assert header == Header(
        facts={**FACTS, "format": "crirec", "version": VERSION, "created": "2025-11-16T09:00:00.000Z", "part": 1}
    )
    assert context == Context(facts={"pods": ["web"]})
    assert path.stat().st_mode & 0o777 == 0o600


def test_frames_are_there_after_a_flush(path: Path) -> None:
    """Also if the process is killed then."""
    recording = writer(path)
    frames = call(1)
    for frame in frames:
        recording.write(frame)
    assert kinds(read(path)) == "HC"
    recording.flush()
    assert read(path)[2:] == [*frames]
    assert (recording.written, recording.lost, recording.size) == (3, 0, path.stat().st_size)


def test_a_closed_file_ends_with_its_index(path: Path) -> None:
    """The trailer tells where that is; what is written later is lost."""
    recording = writer(path)
    for frame in call(1):
        recording.write(frame, WEB)
    recording.close()
    frames = read(path)
    assert kinds(frames) == "HCBMEIT"
    index = frames[-2]
    assert isinstance(index, Index)
    assert index.facts["calls"] == 1
    assert WEB.pod in index.facts["subjects"][1]
    recording.write(call(2)[0])
    recording.flush()
    recording.close()
    assert (recording.lost, recording.size, kinds(read(path))) == (1, 0, "HCBMEIT")


def test_large_bodies_are_packed_if_that_helps(path: Path) -> None:
    """The message is the same."""
    recording = writer(path)
    text, noise = b"abc" * 400, os.urandom(1200)
    bodies = [text, noise, b"a" * 511]
    for body in bodies:
        recording.write(Message(number=1, at=1, side=MessageSide.REPLY, size=len(body), body=body))
    absent = Message(number=1, at=1, side=MessageSide.REPLY, packing=Packing.ABSENT, size=9999, body=b"x" * 600)
    recording.write(absent)
    recording.close()
    messages = [one for one in read(path) if isinstance(one, Message)]
    assert [one.data for one in messages[:3]] == bodies
    assert [one.packing for one in messages[:3]] == [Packing.ZLIB, Packing.PLAIN, Packing.PLAIN]
    assert messages[3] == absent


def test_a_full_file_is_followed_by_another(path: Path) -> None:
    """No file is larger than allowed, no frame is lost, old files go."""
    recording = writer(path, max_bytes=4096, files=3)
    for number in range(1, 40):
        for frame in call(number, size=400):
            recording.write(frame)
    recording.close()
    files = rotated_set(path)
    assert len(files) == 3
    assert all(one.stat().st_size <= 4096 for one in files)
    assert all(kinds(read(one)).startswith("HC") and kinds(read(one)).endswith("IT") for one in files)
    numbers = [one.number for file in files for one in read(file) if isinstance(one, End)]
    assert numbers == list(range(numbers[0], 40))
    headers = [read(one)[0] for one in files]
    parts = [one.facts["part"] for one in headers if isinstance(one, Header)]
    assert parts == [recording.rotations - 1, recording.rotations, recording.rotations + 1]


def test_calls_in_flight_go_on_in_the_next_file(path: Path) -> None:
    """It can be read alone; both files have them in their index."""
    recording = writer(path, max_bytes=3200)
    begin, request, end = call(1)
    recording.write(begin)
    recording.write(request, WEB)
    for number in (2, 3):
        recording.write(call(number, size=1500)[1])
    recording.write(end)
    recording.close()
    old, new = map(read, rotated_set(path))
    assert kinds(new)[:3] == "HCB"
    assert new[2] == begin._replace(flags=Flags.CONTINUED)
    for frames in (old, new):
        index = next(one for one in frames if isinstance(one, Index))
        assert index.facts["calls"] == 1
        assert WEB.pod in index.facts["subjects"][1]


def test_a_frame_larger_than_a_file_is_kept(path: Path) -> None:
    """In a file of its own, and rotation does not go round in circles."""
    recording = writer(path, max_bytes=100)
    for number in (1, 2):
        recording.write(call(number, size=5000)[1])
    recording.close()
    assert [kinds(read(one)) for one in rotated_set(path)] == ["HCMIT", "HCMIT"]


def names(count: int) -> dict[str, Any]:
    """A context, the newest last in each part."""
    return {"pods": {f"{number:064}": ["shop", f"web-{number}"] for number in range(count)}, "version": 1}


def test_a_long_context_leaves_room_for_frames(path: Path) -> None:
    """The oldest names are left out; files are not larger for it, and not more."""
    recording = writer(path, max_bytes=16_384, files=100, context=lambda: names(1000))
    for number in range(1, 101):
        for frame in call(number):
            recording.write(frame)
    recording.close()
    assert recording.rotations <= 4
    for file in rotated_set(path):
        assert file.stat().st_size <= 16_384
        context = read(file)[1]
        assert isinstance(context, Context)
        pods = context.facts["pods"]
        assert list(pods)[-1] == f"{999:064}"
        assert 10 < len(pods) < 100


@pytest.mark.parametrize("facts", [{"text": "x" * 5000}, {"text": "x" * 5000, "pods": {"a": 1, "b": 2}}])
def test_a_context_that_cannot_be_cut_is_left_out(path: Path, facts: dict[str, Any]) -> None:
    """It would fill the file."""
    writer(path, max_bytes=16_384, context=lambda: facts)
    assert read(path)[1] == Context(facts={})


@patches_constants
def test_a_context_larger_than_a_frame_is_cut(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if files may be of any size."""
    monkeypatch.setattr("interpose.dump.model.frames.MAX_PAYLOAD", 5000)
    monkeypatch.setattr("interpose.dump.recording.writer.MAX_PAYLOAD", 5000)
    writer(path, max_bytes=0, context=lambda: names(1000))
    context = read(path)[1]
    assert isinstance(context, Context)
    assert 0 < len(context.facts["pods"]) < 40


def test_many_calls_in_flight_leave_room_for_frames(path: Path) -> None:
    """The oldest are not continued then."""
    recording = writer(path, max_bytes=16_384, files=100)
    for number in range(1, 1001):
        recording.write(call(number)[0])
    recording.close()
    assert recording.rotations < 20
    numbers = [one.number for one in read(path) if isinstance(one, Begin)]
    assert numbers == list(range(numbers[0], 1001))
    assert path.stat().st_size <= 16_384


def test_a_beginning_that_fills_a_file_does_not_stop_it(path: Path) -> None:
    """A header cannot be cut; half of a file comes behind it all the same."""
    recording = writer(path, header_facts={SESSION: "x" * 5000}, max_bytes=4096, files=100)
    for number in range(1, 31):
        for frame in call(number):
            recording.write(frame)
    recording.close()
    assert recording.rotations <= 4


def test_calls_that_may_be_over_are_let_go_of_first(path: Path) -> None:
    """Those in flight when frames were dropped that were not heard of since. The stream is older than all others."""
    recording = writer(path, max_bytes=4096, files=100)
    for number in range(1, 7):
        recording.write(call(number)[0])
    recording.write(Dropped(frames=5, size=500, time=1))
    recording.write(call(1)[1])
    for number in range(7, 13):
        recording.write(call(number)[0])
    while not recording.rotations:
        recording.write(call(1, size=400)[1])
    recording.close()
    numbers = [one.number for one in read(path) if isinstance(one, Begin)]
    assert numbers == [1, *range(7, 13)]


def test_the_context_tells_whom_calls_in_flight_are_about(path: Path) -> None:
    """The messages that tell are in the file before."""
    recording = writer(path, max_bytes=4096)
    recording.write(call(1)[0])
    recording.write(call(1)[1], WEB)
    recording.write(call(2)[0])
    while not recording.rotations:
        recording.write(call(1, size=400)[1])
    recording.close()
    assembler = Assembler()
    assembler.feed_all(read(path))
    assert [flow.subject for flow in assembler.open.values()] == [WEB, Subject()]


def test_without_a_limit_there_is_one_file(path: Path) -> None:
    """As large as it gets."""
    recording = writer(path, max_bytes=0)
    for number in range(1, 20):
        recording.write(call(number, size=5000)[1])
    recording.close()
    assert rotated_set(path) == [path]


def test_a_recording_that_is_there_is_kept(path: Path) -> None:
    """Also if only one file is wanted; the one before that goes."""
    for session in ("a", "b", "c"):
        recording = writer(path, header_facts={SESSION: session}, files=1)
        recording.close()
    assert [one.facts[SESSION] for file in rotated_set(path) if isinstance(one := read(file)[0], Header)] == ["b", "c"]


def test_many_short_starts_do_not_push_out_what_was_recorded(path: Path) -> None:
    """A process that ends at once and is started again leaves small files; they replace each other."""
    recording = writer(path, max_bytes=200_000, files=3)
    for number in range(1, 5):
        recording.write(call(number, size=150_000)[1])
    recording.close()
    large = rotated_set(path)[1:]
    for _ in range(5):
        writer(path, files=4).close()
    sizes = [one.stat().st_size > 150_000 for one in rotated_set(path)]
    assert (len(large), sizes) == (2, [True, True, False, False])


def test_what_is_no_recording_is_not_overwritten(path: Path) -> None:
    """That is an error at the start."""
    path.write_text("my thesis")
    with pytest.raises(ConfigError, match="not a recording"):
        writer(path)
    assert path.read_text() == "my thesis"


def test_another_relay_process_begins_another_file(path: Path) -> None:
    """Its numbers mean other calls. The header of the same one changes nothing."""
    recording = writer(path)
    recording.write(call(1)[0])
    recording.write(Header(facts=FACTS))
    recording.write(Header(facts={SESSION: "two"}))
    recording.write(call(1)[0])
    recording.close()
    first, second = map(read, rotated_set(path))
    assert kinds(first) == kinds(second) == "HCBIT"
    assert isinstance(second[0], Header)
    assert second[0].facts[SESSION] == "two"
    assert second[2] == call(1)[0]
    recording.write(Header(facts={SESSION: "three"}))
    assert len(rotated_set(path)) == 2


def test_the_index_of_another_file_is_left_out(path: Path) -> None:
    """When frames are copied."""
    recording = writer(path)
    recording.write(Index(facts={}))
    recording.write(Trailer(index_at=1))
    recording.flush()
    assert kinds(read(path)) == "HC"


def test_a_value_that_no_frame_holds_is_lost(path: Path) -> None:
    """And nothing else."""
    recording = writer(path)
    recording.write(End(number=-1, elapsed=1, code=9))
    recording.write(Begin(number=-1, time=1, path="/a/B"))
    recording.write(End(number=1, elapsed=1, code=999))
    recording.close()
    assert (recording.lost, recording.error) == (2, None)
    assert kinds(read(path)) == "HCEIT"
