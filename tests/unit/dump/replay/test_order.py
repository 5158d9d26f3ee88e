"""What came before what, in a recording."""

import pytest

from interpose.dump.model.frames import Begin, Context, End, Flags, Frame, Header, Message, MessageSide
from interpose.dump.replay.selection import recorded_calls
from interpose.testing.recordings import Script
from tests.support.builds import patches_constants

DAY = 24 * 3600 * 10**9
PATH = "/runtime.v1.RuntimeService/Version"


def begin(number: int, time: int = 0, flags: Flags = Flags(0)) -> Begin:  # noqa: B008 - a number
    """A call begins."""
    return Begin(number=number, time=time, path=PATH, flags=flags)


def end(number: int) -> End:
    """It ends."""
    return End(number=number, elapsed=5, code=0)


def test_calls_know_the_places_of_their_frames() -> None:
    """Begin, messages and end; those that never end come last."""
    script = Script()
    first = script.begin("Version", b"")
    second = script.begin("Status", b"")
    script.message(first, MessageSide.REPLY, b"", 1)
    script.end(first, 2)
    done, open_ = recorded_calls(script.frames)
    assert (done.flow.number, done.begin, done.positions, done.ended) == (first, 1, [2, 5], 6)
    assert (open_.flow.number, open_.begin, open_.positions, open_.ended) == (second, 3, [4], None)
    assert (done.position_of(MessageSide.REPLY), done.position_of(MessageSide.FORWARDED)) == (5, None)


def test_places_follow_messages_that_are_let_go() -> None:
    """A stream keeps its first message and the newest."""
    script = Script()
    number = script.begin("GetContainerEvents", b"")
    for _ in range(1200):
        script.message(number, MessageSide.REPLY, b"", 1)
    (one,) = recorded_calls(script.frames)
    assert len(one.positions) == len(one.flow.messages) == 1000
    assert one.positions[:2] == [2, 204]


def test_what_is_known_of_pods_is_handed_on() -> None:
    """To whoever asked for it."""
    learned: list[object] = []
    frames: list[Frame] = [Context(facts={"pods": {}}), begin(1)]
    assert len(list(recorded_calls(frames, learn=learned.append))) == 1
    assert learned == [{"pods": {}}]
    assert len(list(recorded_calls(frames))) == 1


def test_another_relay_ends_what_was_open() -> None:
    """Its numbers mean other calls; the header of the same one changes nothing."""
    frames: list[Frame] = [Header(facts={"session": "a"}), begin(1), Header(facts={"session": "a"}), end(1)]
    assert [one.ended for one in recorded_calls(frames)] == [3]
    frames[2] = Header(facts={"session": "b"})
    assert [one.ended for one in recorded_calls(frames)] == [None]


def test_a_number_that_comes_again_is_another_call() -> None:
    """Unless the call only goes on in another file."""
    again: list[Frame] = [begin(1), begin(1), end(1)]
    assert [(one.begin, one.ended) for one in recorded_calls(again)] == [(0, None), (1, 2)]
    going_on: list[Frame] = [begin(1), begin(1, flags=Flags.CONTINUED), end(1)]
    assert [(one.begin, one.ended) for one in recorded_calls(going_on)] == [(0, 2)]


@patches_constants
def test_calls_that_are_forgotten_are_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have no end."""
    monkeypatch.setattr("interpose.dump.model.call.KEPT_CALLS", 2)
    monkeypatch.setattr("interpose.dump.replay.selection.KEPT_CALLS", 2)
    frames: list[Frame] = [begin(1), begin(2), begin(3), end(1), end(3)]
    found = [(one.flow.number, one.ended) for one in recorded_calls(frames)]
    assert found == [(1, None), (3, 4), (2, None)]


def test_messages_of_nobody_are_passed_over() -> None:
    """Their call began before."""
    frames: list[Frame] = [Message(number=9, at=0, side=MessageSide.REPLY, size=0, body=b""), begin(1)]
    assert [one.begin for one in recorded_calls(frames)] == [1]


def test_time_only_goes_on() -> None:
    """A clock that is set back or far ahead takes no time; pauses are what they were."""
    times = [5 * DAY, 5 * DAY + 7, 5 * DAY - 100, 5 * DAY - 90, 50 * DAY, 51 * DAY]
    frames = [begin(number)._replace(time=time) for number, time in enumerate(times)]
    assert [one.at for one in recorded_calls(frames)] == [0, 7, 7, 17, 17, 17 + DAY]
