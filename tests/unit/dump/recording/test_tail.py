"""Following a recording from file to file. Nobody sleeps: a pause is the moment in which the writer does something."""

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interpose.dump.filter.language import MATCH_ALL
from interpose.dump.filter.select import CallSelector
from interpose.dump.model.call import SESSION
from interpose.dump.model.frame_reader import Damage
from interpose.dump.model.frames import Begin, End, Flags, Frame, Header, Message, MessageSide, encode
from interpose.dump.recording import tail as module
from interpose.dump.recording.files import rotated_set
from interpose.dump.recording.tail import follow
from interpose.dump.recording.writer import RecordingWriter
from interpose.errors import ConfigError
from interpose.testing.recordings import story_frames


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """FILE."""
    return tmp_path / "calls.crirec"


class Story:
    """What happens at each pause; the follower is stopped when it is over and everything was seen."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        # After the last act there are some pauses in which nothing happens.
        self._acts: Iterator[Callable[[], object]] = iter([*acts, *[lambda: None] * 6])
        self.over = False

    def wait(self, seconds: float) -> None:
        """A pause."""
        act = next(self._acts, None)
        if act is None:
            self.over = True
        else:
            act()

    def stop(self) -> bool:
        """Whether it is over."""
        return self.over

    def follow(self, path: Path, *, beginning: bool = True, damaged: Callable[[Damage], object] = bool) -> list[Frame]:
        """Everything that was seen."""
        return list(follow(path, self.stop, beginning=beginning, wait=self.wait, on_damage=damaged))


def begin(number: int) -> Begin:
    """A call comes."""
    return Begin(number=number, time=number, path="/a/B")


def end(number: int) -> End:
    """A call is over."""
    return End(number=number, elapsed=1, code=0)


def message(number: int, size: int = 2000) -> Message:
    """One that cannot be packed."""
    body = random.Random(number).randbytes(size)
    return Message(number=number, at=1, side=MessageSide.REPLY, size=size, body=body)


def writer(path: Path, session: str = "s", max_bytes: int = 0) -> RecordingWriter:
    """One that is just starting."""
    return RecordingWriter(path, header_facts={SESSION: session}, max_bytes=max_bytes, files=20)


def write(recording: RecordingWriter, *frames: Frame) -> Callable[[], None]:
    """An act in which frames are written."""

    def act() -> None:
        for frame in frames:
            recording.write(frame)
        recording.flush()

    return act


def numbers(frames: list[Frame], kind: type[Begin] | type[End] | type[Message] = End) -> list[int]:
    """Of which calls there are frames."""
    return [one.number for one in frames if isinstance(one, kind)]


def kinds(frames: list[Frame]) -> str:
    """The first letters."""
    return "".join(type(one).__name__[0] for one in frames)


def test_frames_come_as_they_are_written(path: Path) -> None:
    """From the beginning of the file."""
    recording = writer(path)
    write(recording, begin(1))()
    frames = Story(write(recording, end(1)), write(recording, begin(2), end(2))).follow(path)
    assert kinds(frames) == "HCBEBE"


def test_at_the_end_only_what_one_has_to_know_comes_first(path: Path) -> None:
    """Header, context and the calls in flight."""
    recording = writer(path)
    write(recording, begin(1), message(1), end(1), begin(2))()
    frames = Story(write(recording, end(2))).follow(path, beginning=False)
    assert kinds(frames) == "HCBE"
    assert isinstance(frames[2], Begin)
    assert (frames[2].number, frames[2].flags) == (2, Flags.CONTINUED)


def test_what_began_earlier_has_a_name(path: Path) -> None:
    """Of what was passed over it is known whom it is about, and of calls in flight, too."""
    story = story_frames()
    place = next(index for index, one in enumerate(story) if isinstance(one, Message) and one.number == 11) + 1
    path.write_bytes(b"".join(map(encode, story[:place])))

    def grow() -> None:
        with path.open("ab") as file:
            file.write(b"".join(map(encode, story[place:])))

    viewing = CallSelector(MATCH_ALL, lambda _flow, _sides: "")
    flows = viewing.flows(Story(grow).follow(path, beginning=False))
    names = {flow.number: str(flow.subject) for flow in flows}
    assert (names[11], names[20], names[3]) == ("shop/web-0:app", "jobs/batch-7f9c:worker", "")


def test_from_the_beginning_is_from_the_oldest_file(path: Path) -> None:
    """Unless FILE is read alone; one that is gone is passed over."""
    recording = writer(path, max_bytes=6000)
    write(recording, *(message_of for number in range(1, 9) for message_of in (begin(number), message(number))))()
    assert len(rotated_set(path)) > 2
    numbers = [one.number for one in Story().follow(path) if isinstance(one, Message)]
    assert numbers == list(range(1, 9))
    story = Story()
    alone = [
        one.number
        for one in follow(path, story.stop, beginning=True, alone=True, wait=story.wait)
        if isinstance(one, Message)
    ]
    assert alone == numbers[-len(alone) :]
    assert 0 < len(alone) < len(numbers)
    rotated_set(path)[0].unlink()
    rotated_set(path)[0].with_name("calls.000001.crirec").symlink_to("nowhere")
    assert 0 < len([one for one in Story().follow(path) if isinstance(one, Message)]) < len(numbers)


def test_a_file_that_is_empty_yet_is_waited_for(path: Path) -> None:
    """It has just been made."""
    path.touch()
    act = lambda: path.write_bytes(encode(Header(facts={})))  # noqa: E731
    assert kinds(Story(act).follow(path, beginning=False)) == "H"


def test_half_a_frame_is_waited_for(path: Path) -> None:
    """Nothing is damaged then."""
    data = encode(Header(facts={})) + encode(end(1))
    damage: list[Damage] = []
    path.write_bytes(data[:-3])
    frames = Story(lambda: path.write_bytes(data)).follow(path, damaged=damage.append)
    assert (kinds(frames), damage) == ("HE", [])


def test_damage_is_told_with_its_file(path: Path) -> None:
    """And the rest follows."""
    damage: list[Damage] = []
    path.write_bytes(encode(Header(facts={})) + b"garbage, quite a lot of it" + encode(end(1)))
    assert kinds(Story().follow(path, damaged=damage.append)) == "HE"
    assert [(one.file, one.size) for one in damage] == [(str(path), 26)]


def test_it_goes_over_to_the_new_file(path: Path) -> None:
    """Everything is seen once, whatever was rotated between two looks."""
    recording = writer(path, max_bytes=5000)
    many = [frame for number in range(2, 12) for frame in (message(number), end(number))]
    frames = Story(write(recording, begin(1)), write(recording, *many), write(recording, end(1))).follow(path)
    assert recording.rotations > 2
    assert numbers(frames) == [*range(2, 12), 1]
    assert numbers(frames, Message) == list(range(2, 12))


def test_files_that_are_gone_are_passed_over(path: Path) -> None:
    """It goes on with the oldest there is, after the one it has open."""
    recording = RecordingWriter(path, header_facts={}, max_bytes=3000, files=2)
    frames = Story(write(recording, *(message(number) for number in range(1, 9)))).follow(path)
    assert numbers(frames, Message) == [1, 7, 8]


def test_a_relay_that_starts_again_is_followed(path: Path) -> None:
    """After its predecessor was closed, or killed: then half a frame is damage."""
    damage: list[Damage] = []
    first = writer(path, "a")

    def killed() -> None:
        with path.open("ab") as file:
            file.write(encode(begin(5))[:-2])

    def start() -> None:
        write(writer(path, "b"), begin(1), end(1))()

    frames = Story(write(first, begin(1)), killed, start).follow(path, damaged=damage.append)
    assert [one.facts[SESSION] for one in frames if isinstance(one, Header)] == ["a", "b"]
    assert kinds(frames) == "HCB" + "HCBE"
    assert [one.file for one in damage] == [str(path)]


def test_a_predecessor_that_still_writes_is_read_until_it_pauses(path: Path) -> None:
    """Only then the new file is looked at."""
    old = writer(path, "a")
    new: list[RecordingWriter] = []
    frames = Story(
        lambda: new.append(writer(path, "b")),
        write(old, end(1)),
        write(old, end(2)),
        lambda: write(new[0], end(3))(),
    ).follow(path)
    assert numbers(frames) == [1, 2, 3]


def test_a_closed_recording_is_followed_on(path: Path) -> None:
    """Somebody may start a relay again."""
    writer(path, "a").close()
    frames = Story(lambda: None, lambda: writer(path, "b").close()).follow(path)
    assert kinds(frames) == "HCIT" * 2


def test_it_can_be_stopped_at_once(path: Path) -> None:
    """Also in the middle."""
    recording = writer(path)
    assert list(follow(path, lambda: True, beginning=True)) == []
    frames = follow(path, beginning=True)
    assert isinstance(next(frames), Header)
    frames.close()  # type: ignore[attr-defined]
    recording.close()


@pytest.mark.parametrize(
    ("content", "reason"),
    [(b"text", "not a recording"), (encode(Header(facts={"version": 99})), "use a newer one"), (None, "No such file")],
)
def test_what_cannot_be_followed_is_refused(path: Path, content: bytes | None, reason: str) -> None:
    """With its name."""
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=reason) as caught:
        Story().follow(path)
    assert str(path) in str(caught.value)


def test_a_directory_cannot_be_followed(tmp_path: Path) -> None:
    """It can be opened, but not read."""
    with pytest.raises(ConfigError, match="Is a directory"):
        Story().follow(tmp_path)


def test_a_name_that_changes_hands_while_it_is_opened_skips_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was opened has to be what was meant."""
    recording = writer(path, max_bytes=3000)
    looks = []

    def racing(path: Path) -> list[Path]:
        files = rotated_set(path)
        if len(files) == 2:
            looks.append(files)
            if len(looks) == 2:
                write(recording, message(3))()  # the newest gets a number right after we have seen it
        return files

    story = Story(write(recording, message(1), message(2)))
    frames = follow(path, story.stop, beginning=True, wait=story.wait)
    monkeypatch.setattr(module, "rotated_set", racing)
    assert numbers(list(frames), Message) == [1, 2, 3]


def test_a_file_that_vanishes_while_it_is_opened_is_looked_for_again(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed, or has a number now."""
    recording = writer(path, max_bytes=3000)
    looks = []

    def lying(path: Path) -> list[Path]:
        files = rotated_set(path)
        if len(files) > 1:
            looks.append(files)
        return [files[0], path.with_name("gone")] if len(looks) == 2 else files

    monkeypatch.setattr(module, "rotated_set", lying)
    frames = Story(write(recording, message(1), message(2))).follow(path)
    assert numbers(frames, Message) == [1, 2]
    assert len(looks) > 2


def test_a_link_that_leads_nowhere_is_not_tried_for_ever(path: Path) -> None:
    """It has a name like a file of the recording."""
    writer(path).close()

    def other() -> None:
        path.rename(path.with_name("calls.000001.crirec"))
        path.with_name("calls.000002.crirec").symlink_to("nowhere")

    with pytest.raises(ConfigError, match="a link leads nowhere"):
        Story(other).follow(path)


def test_a_successor_that_is_gone_again_is_waited_for(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another one may come."""
    writer(path, "a").close()
    looks = []

    def vanishing(path: Path) -> list[Path]:
        files = rotated_set(path)
        if len(files) > 1:
            looks.append(files)
        return files[:1] if len(looks) == 2 else files

    monkeypatch.setattr(module, "rotated_set", vanishing)
    frames = Story(lambda: writer(path, "b").close()).follow(path)
    assert kinds(frames) == "HCIT" * 2


def test_a_successor_that_is_no_recording_ends_it(path: Path) -> None:
    """There is nothing to go on with."""
    writer(path).close()

    def other() -> None:
        path.rename(path.with_name("calls.000001.crirec"))
        path.mkdir()

    with pytest.raises(ConfigError, match="Is a directory"):
        Story(other).follow(path)
