"""The index of a file: rows in, columns, rows out."""

import zlib
from base64 import b64encode
from typing import Any

import pytest

from interpose.dump.model.call import Subject
from interpose.dump.model.frames import Begin, Dropped, End, Flags, Index, Message, MessageSide, decode, encode
from interpose.dump.recording import index as module
from interpose.dump.recording.index import IndexBuilder, read_index
from tests.support.builds import patches_constants

BEGIN = Begin(number=1, time=-5, path="/a/B", origin="policy", flags=Flags.INTERCEPTED)
END = End(number=1, elapsed=9, code=5)
WEB = Subject(namespace="shop", pod="web", container="app", image="x")


def message(side: MessageSide, number: int = 1) -> Message:
    """An empty one."""
    return Message(number=number, at=1, side=side, size=0, body=b"")


def built() -> IndexBuilder:
    """Of two calls, one of which is over."""
    builder = IndexBuilder()
    builder.add(BEGIN, 100, 150)
    builder.add(message(MessageSide.REQUEST), 150, 160, WEB)
    builder.add(BEGIN._replace(number=2, path="/a/C", origin="client", flags=Flags.NONE), 160, 200)
    builder.add(END, 200, 230)
    builder.add(Dropped(frames=1, size=1, time=1), 230, 250)
    return builder


def test_a_call_is_a_row() -> None:
    """With its place, its outcome, and whom it is about."""
    first, second = built().rows()
    assert (first.number, first.begin, first.end, first.time) == (1, 100, 230, -5)
    assert (first.elapsed, first.code, first.changed) == (9, 5, False)
    assert (first.path, first.origin, first.flags, first.subject) == ("/a/B", "policy", Flags.INTERCEPTED, WEB)
    assert (second.number, second.end, second.path) == (2, 0, "/a/C")
    assert not second.subject


def test_rows_survive_the_frame() -> None:
    """As columns and tables."""
    facts = built().facts()
    assert facts is not None
    frame, _ = decode(encode(Index(facts=facts)))
    assert isinstance(frame, Index)
    assert read_index(frame.facts) == list(built().rows())


@pytest.mark.parametrize(
    "frame", [message(MessageSide.FORWARDED), message(MessageSide.RECEIVED), END._replace(changed_by=("x",))]
)
def test_a_changed_call_is_marked(frame: Message | End) -> None:
    """By a message or by its end."""
    builder = IndexBuilder()
    builder.add(BEGIN, 0, 1)
    builder.add(frame, 1, 2)
    builder.add(END, 2, 3)
    assert [row.changed for row in builder.rows()] == [True]


def test_frames_of_unknown_calls_change_nothing() -> None:
    """They began in another file."""
    builder = IndexBuilder()
    builder.add(END, 1, 2)
    builder.add(message(MessageSide.REQUEST), 1, 2)
    assert len(builder) == 0


def test_a_call_that_is_continued_in_the_same_file_is_one_row() -> None:
    """As behind a gap."""
    builder = IndexBuilder()
    builder.add(BEGIN, 1, 2)
    builder.add(BEGIN._replace(flags=Flags.CONTINUED), 2, 3)
    assert [row.begin for row in builder.rows()] == [1]


def test_too_many_calls_have_no_index() -> None:
    """A part of it would be worse."""
    builder = IndexBuilder(max_calls=1)
    builder.add(BEGIN, 1, 2)
    assert builder.facts() is not None
    for number in (2, 3):
        builder.add(BEGIN._replace(number=number), 2, 3)
    assert builder.facts() is None
    assert builder.size == 0


@patches_constants
def test_calls_in_flight_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is let go of never ends for the index."""
    monkeypatch.setattr(module, "KEPT_CALLS", 1)
    builder = IndexBuilder()
    builder.add(BEGIN, 1, 2)
    builder.add(BEGIN._replace(number=2), 2, 3)
    builder.add(END, 3, 4)
    assert [row.end for row in builder.rows()] == [0, 0]


def test_the_size_is_guessed_high_enough() -> None:
    """Room is kept for it."""
    builder = IndexBuilder()
    for number in range(1, 3000):
        mixed = (number * 2654435761) % (1 << 32)
        builder.add(BEGIN._replace(number=number, time=mixed << 20, path=f"/a/M{mixed % 50}"), mixed, mixed)
        subject = Subject(pod=f"pod-{mixed}", container_id=f"{mixed:064x}")
        builder.add(END._replace(number=number, elapsed=mixed), mixed, mixed + 1, subject)
    facts = builder.facts()
    assert facts is not None
    assert len(encode(Index(facts=facts))) < builder.size


def column(data: bytes) -> str:
    """As in an index."""
    return b64encode(zlib.compress(data)).decode()


@pytest.mark.parametrize(
    "wrong",
    [
        {"calls": -1},
        {"calls": 10**12},
        {"calls": "many"},
        {"calls": None},
        {"calls": 3},
        {"columns": {}},
        {"columns": []},
        {"paths": []},
        {"origins": 5},
        {"subjects": [["too", "few"]]},
    ],
)
def test_an_index_that_makes_no_sense_is_refused(wrong: dict[str, Any]) -> None:
    """In one way, whatever is wrong."""
    with pytest.raises(ValueError, match="the index cannot be used"):
        read_index({**(built().facts() or {}), **wrong})


@pytest.mark.parametrize("text", ["%%%", b64encode(b"no zlib").decode(), column(b""), column(bytes(17)), 5])
def test_a_column_that_makes_no_sense_is_refused(text: object) -> None:
    """And no more of it is unpacked than it may have."""
    facts = built().facts() or {}
    with pytest.raises(ValueError, match="the index cannot be used"):
        read_index({**facts, "columns": {**facts["columns"], "time": text}})


def test_a_code_that_does_not_exist_is_kept_as_the_highest() -> None:
    """As in its frame."""
    builder = IndexBuilder()
    builder.add(BEGIN, 0, 10)
    builder.add(END._replace(code=999), 10, 20)
    assert [row.code for row in builder.rows()] == [255]


@patches_constants
def test_a_call_that_takes_the_number_of_another_pushes_out_no_third(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that it replaces made room."""
    monkeypatch.setattr(module, "KEPT_CALLS", 2)
    builder = IndexBuilder()
    for number in (1, 2, 2):
        builder.add(BEGIN._replace(number=number), 0, 10)
    builder.add(END._replace(number=1), 10, 20)
    assert [row.end for row in builder.rows()] == [20, 0, 0]
