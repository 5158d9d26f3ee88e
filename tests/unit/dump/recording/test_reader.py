"""Recordings of one file or several, as calls and lists."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from interpose.dump.model.call import SESSION, Flow, Subject
from interpose.dump.model.frames import Begin, Dropped, End, Flags, Frame, Header, Message, MessageSide, encode
from interpose.dump.recording import file_reader
from interpose.dump.recording.reader import Recording, open_recording, rotated_set
from interpose.dump.recording.writer import RecordingWriter
from interpose.errors import ConfigError
from tests.support.builds import patches_constants

WEB = Subject(namespace="shop", pod="web")
PATH = "/runtime.v1.RuntimeService/"


def begin(number: int, method: str = "Version", flags: Flags = Flags.NONE) -> Begin:
    """A call comes."""
    return Begin(number=number, time=number * 1000, path=PATH + method, flags=flags)


def message(number: int, body: bytes = b"body", side: MessageSide = MessageSide.REQUEST) -> Message:
    """With a body."""
    return Message(number=number, at=1, side=side, size=len(body), body=body)


def end(number: int, code: int = 0) -> End:
    """A call is over."""
    return End(number=number, elapsed=500, code=code)


def write(path: Path, frames: Sequence[Frame], session: str = "s", max_bytes: int = 0) -> Path:
    """A recording; frames are about a pod."""
    writer = RecordingWriter(path, header_facts={SESSION: session}, max_bytes=max_bytes, context=lambda: {"k": session})
    for frame in frames:
        writer.write(frame, WEB if isinstance(frame, Message) else Subject())
    writer.close()
    return path


def raw(path: Path, *frames: Frame) -> Path:
    """A file without an index."""
    path.write_bytes(b"".join(map(encode, frames)))
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """FILE."""
    return tmp_path / "calls.crirec"


MIXED: list[Frame] = [begin(1), message(1), begin(2, "Status"), message(2), end(2, 5), begin(3), message(3), end(1)]


def cut_in_three(path: Path) -> list[Path]:
    """A stream over three files, with a call in each."""
    frames: list[Frame] = [begin(1, "GetContainerEvents"), message(1)]
    for number in (2, 3, 4):
        frames += [
            begin(number),
            message(number, bytes(range(256)) * 4),
            message(1, b"event %d" % number, MessageSide.REPLY),
        ]
        frames += [message(number, bytes(range(255, -1, -1)) * 2, MessageSide.FORWARDED), end(number)]
    write(path, [*frames, end(1, 1)], max_bytes=2600)
    files = rotated_set(path)
    assert len(files) == 3
    return files


def test_calls_come_when_they_end(path: Path) -> None:
    """Those that never do come last."""
    flows = list(Recording(write(path, MIXED)).flows())
    assert [flow.number for flow in flows] == [2, 1, 3]
    assert [flow.end is None for flow in flows] == [False, False, True]


def test_whoever_knows_whom_calls_are_about_is_asked(path: Path) -> None:
    """After having learned from the context."""
    learned: list[object] = []
    flows = Recording(write(path, MIXED)).flows(lambda flow, message: Subject(pod=f"p{flow.number}"), learned.append)
    assert [flow.subject.pod for flow in flows] == ["p2", "p1", "p3"]
    assert learned == [{"k": "s"}]


def test_an_index_gives_the_list(path: Path) -> None:
    """In the order in which calls began."""
    recording = Recording(write(path, MIXED))
    entries = recording.entries()
    assert [(one.number, one.name, one.code, one.elapsed) for one in entries] == [
        (1, "Version", 0, 500),
        (2, "Status", 5, 500),
        (3, "Version", None, None),
    ]
    assert all(one.subject == WEB and one.session == "s" for one in entries)
    assert recording.entries() is entries


def test_without_an_index_the_list_is_the_same(path: Path, tmp_path: Path) -> None:
    """The file is read once; whom calls are about has to be found out."""
    whole = Recording(write(path, MIXED)).entries()
    cut = tmp_path / "cut"
    cut.write_bytes(path.read_bytes()[:-1])
    assert Recording(cut).entries(lambda flow, message: WEB) == whole


def test_a_set_is_read_as_one(path: Path) -> None:
    """A call that lies in all files is one call, with everything."""
    cut_in_three(path)
    recording = open_recording([path])
    flows = {flow.number: flow for flow in recording.flows()}
    assert sorted(flows) == [1, 2, 3, 4]
    assert [one.body for one in flows[1].messages] == [b"body", b"event 2", b"event 3", b"event 4"]
    assert recording.damage == []
    entries = recording.entries()
    assert [one.number for one in entries] == [1, 2, 3, 4]
    assert (entries[0].code, len(entries[0].ranges), entries[0].subject) == (1, 3, WEB)
    assert [one.changed for one in entries] == [False, True, True, True]


def test_one_call_is_read_where_it_is(path: Path) -> None:
    """By number or entry, over all files."""
    cut_in_three(path)
    recording = open_recording([path])
    flows = {flow.number: flow for flow in recording.flows()}
    for entry in recording.entries():
        assert recording.flow(entry.number) == recording.flow(entry)
        found = recording.flow(entry)
        assert found is not None
        assert found.messages == flows[entry.number].messages
        assert (found.end, found.subject) == (flows[entry.number].end, WEB)
    assert recording.flow(99) is None
    identified = recording.flow(3, lambda flow, message: Subject(pod="other"))
    assert identified is not None
    assert identified.subject.pod == "other"


def test_a_call_without_an_end_is_read_to_the_end(path: Path) -> None:
    """As far as it goes."""
    flow = Recording(write(path, MIXED)).flow(3)
    assert isinstance(flow, Flow)
    assert (flow.end, len(flow.messages)) == (None, 1)


def test_a_file_of_a_set_can_be_read_alone(path: Path) -> None:
    """What began before begins there."""
    files = cut_in_three(path)
    entries = open_recording([path], alone=True).entries()
    assert [(one.number, bool(one.flags & Flags.CONTINUED)) for one in entries] == [(1, True), (4, True)]
    assert open_recording(files[:1]).files[0].path == files[0]
    assert open_recording([path]).summary().beheaded == 0
    assert open_recording([path], alone=True).summary().beheaded == 2


def test_files_that_are_rotated_while_they_are_opened_are_all_there(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are looked for again."""
    write(path, [begin(1)], session="a")
    looks = []

    def rotating(path: Path) -> list[Path]:
        files = rotated_set(path)
        looks.append(files)
        if len(looks) == 1:
            write(path, [begin(1)], session="b")
            write(path, [begin(1)], session="c")
        return files

    monkeypatch.setattr("interpose.dump.recording.reader.rotated_set", rotating)
    assert [one.session for one in open_recording([path]).files] == ["a", "b", "c"]
    assert len(looks) == 3


def test_files_that_are_always_rotated_are_read_all_the_same(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as they are known then."""
    write(path, [begin(1)])

    def rotating(path: Path) -> list[Path]:
        files = rotated_set(path)
        write(path, [begin(1)])
        return files

    monkeypatch.setattr("interpose.dump.recording.reader.rotated_set", rotating)
    assert len(list(open_recording([path]).flows())) > 1


def test_names_given_twice_are_read_once(path: Path) -> None:
    """As a shell gives them."""
    files = cut_in_three(path)
    assert [one.path for one in open_recording(files).files] == files


def test_processes_with_the_same_numbers_are_told_apart(path: Path) -> None:
    """A number alone means the youngest."""
    write(path, [begin(1), message(1, b"old")], session="a")
    write(path, [begin(1), message(1, b"new"), end(1)], session="b")
    recording = open_recording([path])
    assert [(flow.messages[0].body, flow.end is None) for flow in recording.flows()] == [
        (b"old", True),
        (b"new", False),
    ]
    assert [(one.session, one.code) for one in recording.entries()] == [("a", None), ("b", 0)]
    flow, old = recording.flow(1), recording.flow(recording.entries()[0])
    assert flow is not None
    assert flow.messages[0].body == b"new"
    assert old is not None
    assert old.messages[0].body == b"old"


def test_an_index_that_leads_elsewhere_is_not_believed(path: Path) -> None:
    """The call is searched then; one that is damaged is not there."""
    write(path, [begin(1), message(1, b"filler" * 10), end(1), begin(2), message(2), end(2)])
    recording = Recording(path)
    first, second = recording.entries()
    data = bytearray(path.read_bytes())
    data[second.ranges[0].begin + 15] ^= 0xFF
    path.write_bytes(data)
    assert recording.flow(2) is None
    recording = Recording(path)
    wrong = recording.entries()
    wrong[0] = first.__class__(**{**{name: getattr(first, name) for name in first.__slots__}, "ranges": second.ranges})
    flow = recording.flow(1)
    assert flow is not None
    assert len(flow.messages) == 1


@patches_constants
def test_calls_that_are_let_go_of_are_not_lost(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many in flight, or two of one number."""
    monkeypatch.setattr("interpose.dump.model.call.KEPT_CALLS", 2)
    monkeypatch.setattr("interpose.dump.recording.reader.KEPT_CALLS", 2)
    frames = [begin(1), begin(2), begin(2, flags=Flags.CONTINUED), begin(3), begin(3), begin(3)]
    flows = Recording(raw(path, Header(facts={}), *frames)).flows()
    assert [flow.number for flow in flows] == [1, 3, 3, 2, 3]


def test_standard_input_is_read_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is nothing left the second time."""
    write(path, MIXED)
    with path.open("rb") as file:
        copies: list[int] = []
        copied = file_reader._copied

        def counted(source: int) -> int:
            copies.append(source)
            return copied(file.fileno())

        monkeypatch.setattr(file_reader, "_copied", counted)
        with open_recording(["-"]) as recording:
            assert len(recording.entries()) == 3
    assert copies == [0]


def test_calls_in_flight_have_a_subject_in_a_file_that_is_read_alone(path: Path) -> None:
    """Also if nothing but frames is read."""
    *_, last = cut_in_three(path)
    with open_recording([last], alone=True) as recording:
        assert {flow.number: flow.subject for flow in recording.flows()}[1] == WEB


def test_the_summary_counts(path: Path) -> None:
    """Everything is read for that."""
    write(path, [*MIXED, Dropped(frames=2, size=9, time=1)])
    with Recording(path) as recording:
        summary = recording.summary()
    assert (summary.calls, summary.unfinished, summary.changed, summary.dropped) == (3, 1, 0, 2)
    assert (summary.first, summary.last, summary.message_bytes, summary.dropped_bytes) == (1000, 3000, 12, 9)
    assert summary.methods == {"Version": Counter({0: 1, None: 1}), "Status": Counter({5: 1})}
    assert (summary.sessions, summary.indexed, summary.damaged) == (("s",), (True,), 0)


def test_a_summary_of_nothing_has_no_time(path: Path) -> None:
    """But says what is wrong."""
    path.touch()
    summary = Recording(path).summary()
    assert (summary.calls, summary.first, summary.last, summary.damaged) == (0, None, None, 1)


def test_damage_names_its_file(path: Path) -> None:
    """In a set."""
    files = cut_in_three(path)
    data = bytearray(files[1].read_bytes())
    data[len(data) // 2] ^= 0xFF
    files[1].write_bytes(data)
    recording = open_recording([path])
    assert len(list(recording.flows())) >= 3
    assert [one.file for one in recording.damage] == [str(files[1])]
    assert recording.damaged == 1


def test_all_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    """At once."""
    (tmp_path / "text").write_text("text")
    with pytest.raises(ConfigError) as caught:
        open_recording([tmp_path / "no", tmp_path / "text"])
    assert [problem.split(":")[0] for problem in caught.value.problems] == [
        str(tmp_path / "no"),
        str(tmp_path / "text"),
    ]
    with pytest.raises(ConfigError, match="no recording is named"):
        open_recording([])


def test_a_file_nobody_named_is_only_damage(path: Path) -> None:
    """The others can be read."""
    files = cut_in_three(path)
    files[0].write_text("overwritten")
    recording = open_recording([path])
    assert [one.path for one in recording.files] == files[1:]
    assert [one.why.startswith(f"{files[0]}: not a recording") for one in recording.damage] == [True]
    assert recording.header == recording.files[0].header
    for one in files[1:]:
        one.unlink()
    with pytest.raises(ConfigError, match="not a recording"):
        open_recording([path])
