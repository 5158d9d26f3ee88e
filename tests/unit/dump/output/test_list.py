"""Calls as a list."""

import pytest

from interpose.dump.model.call import Assembler, CallEventKind, Flow
from interpose.dump.model.frames import Begin, End, Flags, MessageSide
from interpose.dump.model.subject import Subjects
from interpose.dump.output.list import CallListWriter, remarks, status_of
from interpose.testing.recordings import START, Script, story_frames

DAY = 86_400 * 10**9


def story() -> dict[int, Flow]:
    """The calls of the story by number."""
    assembler = Assembler(Subjects().identify)
    events = assembler.feed_all(story_frames())
    flows = [event.flow for event in events if event.kind is CallEventKind.END and event.flow is not None]
    return {flow.number: flow for flow in [*flows, *assembler.open.values()]}


def one(script: Script) -> Flow:
    """The only call of a script."""
    return next(event.flow for event in Assembler().feed_all(script.frames) if event.flow is not None)


def test_a_line_says_what_a_call_was() -> None:
    """When, which, about whom, how it ended and how long it took, how large it was, and who changed it."""
    (line,) = CallListWriter().lines(story()[7])
    assert line.split() == [
        "2025-11-16T09:00:02.465000Z",
        "7",
        "CreateContainer",
        "shop/web-0:app",
        "OK",
        "48.1ms",
        "1.2KiB",
        "*",
        "koordlet,",
        "static",
    ]


@pytest.mark.parametrize("width", [0, 60, 70, 80, 96, 100, 130, 200])
def test_columns_stand_below_each_other(width: int) -> None:
    """And no line is wider than the terminal."""
    calls = CallListWriter(width)
    head = calls.head()
    at = head.index("METHOD")
    for flow in story().values():
        line = calls.lines(flow)[-1]
        assert line[at - 1] == " "
        assert line[at:].startswith(flow.name[:5])
        assert not width or len(line) <= width
    assert not width or len(head) <= width


def test_a_long_name_keeps_its_ends_on_a_terminal() -> None:
    """Elsewhere it is whole."""
    flow = story()[9]
    assert "Update…erResources" in CallListWriter(100).lines(flow)[-1]
    assert "Updat…rResources" in CallListWriter(80).lines(flow)[-1]
    assert "UpdateContainerResources" in CallListWriter().lines(flow)[-1]


def test_names_have_most_of_the_room_of_a_small_terminal() -> None:
    """That a call was changed takes one column then."""
    lines = {number: CallListWriter(80).lines(flow)[-1] for number, flow in story().items()}
    assert "jobs/batch-7f9c:worker" in lines[14]
    assert len(lines[7]) == 80
    assert lines[7].endswith("  *")
    assert lines[9].endswith("  …")


@pytest.mark.parametrize("width", [1, 5, 20, 40])
def test_no_terminal_is_too_small(width: int) -> None:
    """What does not fit is left out."""
    calls = CallListWriter(width)
    assert len(calls.head()) <= width
    assert all(len(calls.lines(flow)[-1]) <= width for flow in story().values())


def test_numbers_that_are_too_long_move_the_rest() -> None:
    """And still no line is wider than the terminal."""
    script = Script()
    script.frames.append(Begin(number=(1 << 64) - 1, time=START, path="/runtime.v1.RuntimeService/Version"))
    assert all(len(CallListWriter(width).lines(one(script))[-1]) <= width for width in (70, 80, 100, 130))


def test_what_is_not_in_the_recording_is_marked() -> None:
    """The beginning of a call, its end, and messages that were too many to keep."""
    script = Script()
    number = script.begin("GetContainerEvents", b"")
    script.frames = [one._replace(flags=Flags.CONTINUED) if isinstance(one, Begin) else one for one in script.frames]
    for _ in range(4):
        script.message(number, MessageSide.REPLY, b"1234567890")
    flow = [event.flow for event in Assembler(kept_messages=2).feed_all(script.frames)][-1]
    assert flow is not None
    flow.lost = True
    assert remarks(flow) == "beginning not recorded; end not recorded; 4 replies"
    assert "  40B  " in CallListWriter().lines(flow)[-1]


def test_each_day_has_a_line_on_a_terminal() -> None:
    """The first, too; elsewhere each time has its day."""
    today, tomorrow = (Script(start=START + days * DAY) for days in (0, 1))
    for script in (today, tomorrow):
        script.call("Version", b"")
    calls = CallListWriter(100)
    assert [len(calls.lines(one(script))) for script in (today, today, tomorrow)] == [2, 1, 2]
    assert CallListWriter(100).lines(one(tomorrow))[0] == "2025-11-17"


def test_parts_have_roles() -> None:
    """For colours; widths are those of the texts."""
    seen: list[tuple[str, str]] = []

    def style(text: str, role: str) -> str:
        seen.append((text.strip(), role))
        return text

    CallListWriter(120, style).lines(story()[13])
    assert ("NOT_FOUND", "bad") in seen
    assert {role for _text, role in seen} == {"dim", "bad", "mark"}


@pytest.mark.parametrize(
    ("number", "text", "role"),
    [(1, "OK", "good"), (13, "NOT_FOUND", "bad"), (20, "open", "open")],
)
def test_a_status_is_a_word(number: int, text: str, role: str) -> None:
    """Also without an end."""
    assert status_of(story()[number]) == (text, role)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, ""),
        (2, "v1alpha2"),
        (3, "3 replies"),
        (7, "* koordlet, static"),
        (9, "by policy"),
        (10, "* reporting"),
        (17, "command timed out"),
    ],
)
def test_marks_say_what_is_out_of_the_ordinary(number: int, text: str) -> None:
    """And nothing for most calls."""
    assert remarks(story()[number]) == text


def test_marks_of_calls_in_flight_and_of_other_services() -> None:
    """Nobody knows yet who changed it; a service of another kind is named; a stream counts its replies."""
    script = Script()
    number = script.begin("CreateContainer", b"")
    script.message(number, MessageSide.FORWARDED, b"")
    assert remarks(one(script)) == "*"
    other = Script()
    other.call("Check", b"", version="grpc.health.v1")
    assert remarks(one(other)) == "grpc.health.v1.RuntimeService"
    stream = Script()
    stream.call("GetContainerEvents", b"", b"")
    assert remarks(one(stream)) == "1 reply"


def test_a_call_of_docker_has_its_line() -> None:
    """Named by method and path, marked as Docker's, with its status if it failed."""
    assembler = Assembler()
    assembler.feed(Begin(number=1, time=START, path="/docker/GET /v1.41/containers/json"))
    (event,) = assembler.feed_all([End(number=1, elapsed=1_200_000, code=5, message="HTTP 404")])
    assert event.flow is not None
    (line,) = CallListWriter().lines(event.flow)
    assert line.split()[2:6] == ["GET", "/containers/json", "NOT_FOUND", "1.20ms"]
    assert "0B" not in line  # nobody knows how large it was
    assert line.endswith("docker; HTTP 404")
