"""Calls of the live view as files."""

import json
from pathlib import Path

import pytest

from interpose.dump.decode.api import DecodedMessage
from interpose.dump.decode.decode import Decoder
from interpose.dump.live.save import FORMS, SaveRequest, file_path, frames_of, name_problem, save, snapshot
from interpose.dump.model.call import Assembler, Flow
from interpose.dump.model.frames import Begin, End, Message, MessageSide
from interpose.dump.recording.reader import Recording
from interpose.testing.recordings import story_frames


def flows() -> list[Flow]:
    """The calls of the story, in the order they came."""
    events = Assembler().feed_all(story_frames())
    return list({event.flow.number: event.flow for event in events if event.flow is not None}.values())


def saved(*, twice: bool = False) -> SaveRequest:
    calls = flows() * (2 if twice else 1)
    return SaveRequest(flows=calls, facts={"version": 1, "host": "node-1"}, title="t", decoder=Decoder())


def test_a_recording_has_the_same_calls(tmp_path: Path) -> None:
    """With their messages and numbers."""
    path = tmp_path / "a.crirec"
    save(path, saved())
    recording = Recording(path)
    found = sorted(recording.flows(), key=lambda flow: flow.number)
    assert [(flow.number, flow.name, flow.end) for flow in found] == [
        (flow.number, flow.name, flow.end) for flow in flows()
    ]
    assert [[one.data for one in flow.messages] for flow in found] == [
        [one.data for one in flow.messages] for flow in flows()
    ]
    assert recording.header.facts["host"] == "node-1"
    assert path.stat().st_mode & 0o777 == 0o600


def test_calls_of_two_relays_get_numbers_of_their_own(tmp_path: Path) -> None:
    """Otherwise the second would be taken for the first."""
    path = tmp_path / "a.crirec"
    save(path, saved(twice=True))
    assert len({flow.number for flow in Recording(path).flows()}) == 2 * len(flows())


def test_jsonl_has_one_document_per_line(tmp_path: Path) -> None:
    """For everybody who has jq; readable for its owner only."""
    path = tmp_path / "a.jsonl"
    save(path, saved())
    assert [json.loads(line)["number"] for line in path.read_text().splitlines()] == [flow.number for flow in flows()]
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("form", list(FORMS))
def test_every_form_can_be_written(tmp_path: Path, form: str) -> None:
    """And an existing file is not touched."""
    path = tmp_path / f"a{form}"
    save(path, saved())
    before = path.read_bytes()
    assert before
    with pytest.raises(FileExistsError):
        save(path, saved())
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == [path.name]


def test_a_file_that_cannot_be_finished_is_taken_away(tmp_path: Path) -> None:
    """Half a file looks like a whole one."""

    class Broken(Decoder):
        def message(self, flow: Flow, message: Message) -> DecodedMessage:
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        save(tmp_path / "a.jsonl", SaveRequest(flows=flows(), facts={}, title="", decoder=Broken()))
    assert list(tmp_path.iterdir()) == []


def test_a_recording_where_nobody_may_write_is_an_error(tmp_path: Path) -> None:
    """And leaves nothing behind."""
    with pytest.raises(OSError, match="directory"):
        save(tmp_path / "missing" / "a.crirec", saved())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("", "type the name of a file"),
        ("  ", "type the name of a file"),
        ("a.txt", "the name must end in .crirec or .html or .jsonl or .yaml or .har"),
        ("nothing", "'nothing' does not say in which form"),
        ("missing/a.jsonl", "there is no directory missing"),
        ("there.jsonl", "there.jsonl exists"),
        ("new.jsonl", ""),
    ],
)
def test_a_name_is_checked_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str) -> None:
    """While it is typed."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.jsonl").touch()
    found = name_problem(name)
    assert said in found
    assert bool(found) == bool(said)


def test_only_some_forms_may_be_allowed() -> None:
    """A session is saved as a recording."""
    assert name_problem("a.html", (".crirec",)).startswith("the name must end in .crirec:")


def test_a_tilde_is_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As in a shell."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert file_path(" ~/a.crirec ") == tmp_path / "a.crirec"


def test_a_call_in_flight_is_saved_as_it_is() -> None:
    """What comes later does not change it; it has no end."""
    (event,) = Assembler().feed_all([Begin(number=3, time=5, path="/a/b")])
    assert event.flow is not None
    copy = snapshot(event.flow)
    event.flow.messages.append(Message(number=3, at=0, side=MessageSide.REQUEST, size=0, body=b""))
    event.flow.end = End(number=3, elapsed=1, code=0)
    assert list(frames_of(copy, 8)) == [Begin(number=8, time=5, path="/a/b")]
    assert [getattr(one, "number", None) for one in frames_of(event.flow, 8)] == [8, 8, 8]


def test_frames_are_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    """What overlapped overlaps in the file; a replay goes by that. A clock that was set back does not matter."""
    ends = (End(number=1, elapsed=50, code=0), End(number=2, elapsed=5, code=0), End(number=3, elapsed=5, code=0))
    events = [
        Assembler().feed_all([Begin(number=end.number, time=time, path="/a/b"), end])[0]
        for end, time in zip(ends, (1000, 1010, 7), strict=True)
    ]
    calls = [event.flow for event in events if event.flow is not None]
    path = tmp_path / "a.crirec"
    save(path, SaveRequest(flows=calls, facts={}, title="", decoder=Decoder()))
    frames = [(type(one), one.number) for one in Recording(path).frames() if isinstance(one, Begin | End)]
    assert frames == [(Begin, 1), (Begin, 2), (Begin, 3), (End, 2), (End, 3), (End, 1)]
