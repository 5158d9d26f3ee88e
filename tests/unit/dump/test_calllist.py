"""Calls as a list."""

import pytest

from interpose.dump.calllist import CallList, marks, status_of
from interpose.dump.flow import Assembler, Flow, What
from interpose.dump.frames import Side
from interpose.dump.subjects import Subjects
from interpose.testing.recordings import START, Script, story_frames

DAY = 86_400 * 10**9


def story() -> dict[int, Flow]:
    """The calls of the story by number."""
    assembler = Assembler(Subjects().identify)
    events = assembler.feed_all(story_frames())
    flows = [event.flow for event in events if event.what is What.END and event.flow is not None]
    return {flow.number: flow for flow in [*flows, *assembler.open.values()]}


def one(script: Script) -> Flow:
    """The only call of a script."""
    return next(event.flow for event in Assembler().feed_all(script.frames) if event.flow is not None)


def test_a_line_says_what_a_call_was() -> None:
    """When, which, about whom, how it ended and how long it took, how large it was, and who changed it."""
    (line,) = CallList().lines(story()[7])
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


@pytest.mark.parametrize("width", [0, 60, 80, 100, 130, 200])
def test_columns_stand_below_each_other(width: int) -> None:
    """And no line is wider than the terminal, if it has room for the columns at all."""
    calls = CallList(width)
    head = calls.head()
    at = head.index("METHOD")
    for flow in story().values():
        line = calls.lines(flow)[-1]
        assert line[at - 1] == " "
        assert line[at:].startswith(flow.name[:5])
        assert not width or len(line) <= max(width, 74)
    assert not width or len(head) <= width


def test_a_long_name_keeps_its_ends_on_a_terminal() -> None:
    """Elsewhere it is whole."""
    flow = story()[9]
    assert "Update…erResources" in CallList(80).lines(flow)[-1]
    assert "UpdateContainerResources" in CallList().lines(flow)[-1]


def test_each_day_has_a_line_on_a_terminal() -> None:
    """The first, too; elsewhere each time has its day."""
    today, tomorrow = (Script(start=START + days * DAY) for days in (0, 1))
    for script in (today, tomorrow):
        script.call("Version", b"")
    calls = CallList(100)
    assert [len(calls.lines(one(script))) for script in (today, today, tomorrow)] == [2, 1, 2]
    assert CallList(100).lines(one(tomorrow))[0] == "2025-11-17"


def test_parts_have_roles() -> None:
    """For colours; widths are those of the texts."""
    seen: list[tuple[str, str]] = []

    def style(text: str, role: str) -> str:
        seen.append((text.strip(), role))
        return text

    CallList(120, style).lines(story()[13])
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
    assert marks(story()[number]) == text


def test_marks_of_calls_in_flight_and_of_other_services() -> None:
    """Nobody knows yet who changed it; a service of another kind is named; a stream counts its replies."""
    script = Script()
    number = script.begin("CreateContainer", b"")
    script.message(number, Side.FORWARDED, b"")
    assert marks(one(script)) == "*"
    other = Script()
    other.call("Check", b"", version="grpc.health.v1")
    assert marks(one(other)) == "grpc.health.v1.RuntimeService"
    stream = Script()
    stream.call("GetContainerEvents", b"", b"")
    assert marks(one(stream)) == "1 reply"
