"""A call as one line of the list."""

import pytest

from interpose.dump.live.model import CallRow
from interpose.dump.live.row import COLUMNS, Tone, cells, elapsed, marks, status, subject, tone
from interpose.dump.model.call import Flow, Subject
from interpose.dump.model.frames import End, Flags, Message, MessageSide

START = 1_763_283_600_123_456_789  # 2025-11-16T09:00:00.123456789Z
CREATE = "/runtime.v1.RuntimeService/CreateContainer"


def row(
    path: str = CREATE,
    *,
    code: int | None = 0,
    changed_by: tuple[str, ...] = (),
    origin: str = "client",
    cut: bool = False,
    messages: int = 2,
) -> CallRow:
    flow = Flow(number=1, time=START, path=path, origin=origin, pid=1, uid=0, flags=Flags.NONE, metadata=())
    if code is not None:
        flow.end = End(number=1, elapsed=1_500_000, code=code, changed_by=changed_by)
    flow.subject = Subject(namespace="shop", pod="web-0", container="app")
    return CallRow(serial=1, flow=flow, traffic=2048, messages=messages, cut=cut)


def test_a_call_has_a_text_for_every_column() -> None:
    """In their order."""
    texts = cells(row(), START, wide=True)
    assert texts == ("  ", "09:00:00.123", "CreateContainer", "shop/web-0:app", "OK", "1.50ms", "2.0KiB", "")
    assert len(texts) == len(COLUMNS)


def test_a_call_of_docker_has_no_size_unless_it_is_known() -> None:
    """It is named by its method and path."""
    call = row("/docker/GET /v1.41/containers/json", messages=0)
    assert cells(call, START, wide=True)[6] == "2.0KiB"
    call.traffic = 0
    assert (cells(call, START, wide=True)[2], cells(call, START, wide=True)[6]) == ("GET /containers/json", "")


def test_a_narrow_list_shows_seconds() -> None:
    """They are enough to tell calls apart."""
    assert cells(row(), START, wide=False)[1] == "09:00:00"


def test_the_clock_of_an_open_call_runs() -> None:
    """Until now; never backwards, and not of a call that was cut off."""
    assert elapsed(row(code=None), START + 2_000_000_000) == "2.00s"
    assert elapsed(row(code=None), START - 5) == "0ns"
    assert elapsed(row(code=None, cut=True), START) == ""


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (row(), "OK"),
        (row(code=5), "NOT_FOUND"),
        (row(code=None), "open"),
        (row(code=None, cut=True), "cut off"),
    ],
)
def test_status_says_how_it_ended(one: CallRow, expected: str) -> None:
    """Or that it has not."""
    assert status(one) == expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (row(), Tone.PLAIN),
        (row(code=13, changed_by=("x",)), Tone.ERROR),
        (row(code=None), Tone.OPEN),
        (row(code=None, cut=True), Tone.QUIET),
        (row(changed_by=("x",)), Tone.CHANGED),
        (row(origin="policy"), Tone.QUIET),
    ],
)
def test_tone_is_what_matters_most(one: CallRow, expected: Tone) -> None:
    """A failure before everything."""
    assert tone(one) is expected


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (row(), "  "),
        (row(changed_by=("x",), origin="policy"), " *"),
        (row(origin="policy"), " +"),
        (row("/runtime.v1alpha2.RuntimeService/Version"), " α"),
    ],
)
def test_marks_say_what_is_out_of_the_ordinary(one: CallRow, expected: str) -> None:
    """And what people marked."""
    assert marks(one) == expected
    one.marked = True
    assert marks(one) == "●" + expected[1]


def test_who_made_a_call_is_behind_its_subject() -> None:
    """If it was not the kubelet."""
    one = row(origin="policy").flow
    assert subject(one) == "shop/web-0:app (policy)"
    one.subject = Subject()
    assert subject(one) == "(policy)"


def test_messages_of_streams_are_counted() -> None:
    """Of others only if there are more than a request and a reply."""
    assert cells(row("/runtime.v1.RuntimeService/GetContainerEvents", messages=1), START, wide=True)[-1] == "1"
    assert cells(row("/some.Service/Stream", messages=7), START, wide=True)[-1] == "7"
    assert cells(row("/some.Service/Stream", messages=2), START, wide=True)[-1] == ""


def test_nothing_that_came_can_move_the_cursor() -> None:
    """Names are what somebody sent."""
    one = row("/x/\x1b[2JEvil")
    one.flow.subject = Subject(pod="\x1b]52;c;\x07", container="a\nb")
    one.flow.messages.append(Message(number=1, at=0, side=MessageSide.REQUEST, size=0, body=b""))
    assert all(text.isprintable() for text in cells(one, START, wide=True))
