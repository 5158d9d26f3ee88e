"""Chunked bodies: what goes on when, where they end, and when h11 is asked."""

import re

import pytest

from interpose.h1 import chunks as module
from interpose.h1.chunks import Chunks
from interpose.h1.opinion import BodyOpinion
from interpose.h1.rules import REQUESTS, RESPONSES

HELLO = b"5\r\nhello\r\n"


def fresh(*, trusting: bool = False, limit: int = 1000) -> Chunks:
    """A body that has not begun."""
    return Chunks(RESPONSES if trusting else REQUESTS, limit, trusting=trusting)


def feed(chunks: Chunks, *pieces: bytes) -> list[bytes]:
    """What goes on of each piece, which is used to its end."""
    given = []
    for piece in pieces:
        raw = b""
        at = 0
        while at < len(piece):
            part, at = chunks.feed(piece, at, None)
            raw += part
        given.append(raw)
    return given


def test_a_whole_piece_goes_on_as_the_object_that_came() -> None:
    """No copy."""
    piece = b"5\r\nhel"
    raw, stop = fresh().feed(piece, 0, None)
    assert raw is piece
    assert stop == len(piece)


def test_data_goes_on_at_once() -> None:
    """Only lines wait for their end."""
    assert feed(fresh(), b"5", b"\r", b"\n", b"h", b"ell", b"o\r", b"\n0", b"\r\n", b"\r", b"\n") == [
        b"", b"", b"5\r\n", b"h", b"ell", b"o\r", b"\n", b"0\r\n", b"", b"\r\n",
    ]  # fmt: skip


def test_the_end_is_known() -> None:
    """What comes after it is not taken."""
    chunks = fresh()
    data = HELLO + b"0\r\n\r\nGET"
    assert chunks.feed(data, 0, None) == (data[:-3], len(data) - 3)
    assert chunks.ended


def test_the_end_of_a_cut_line_is_known() -> None:
    """The same when the last line came in two pieces."""
    chunks = fresh()
    feed(chunks, b"0\r\n\r")
    assert chunks.feed(b"\nGET", 0, None) == (b"\r\n", 1)
    assert chunks.ended


def test_it_begins_where_it_is_told() -> None:
    """The head before it may be in the same piece."""
    assert fresh().feed(b"head" + HELLO, 4, None) == (HELLO, 14)


def test_data_is_told_without_its_framing() -> None:
    """If it is asked for."""
    payload: list[bytes] = []
    chunks = fresh()
    chunks.feed(b"5;a=b\r\nhel", 0, payload)
    chunks.feed(b"lo\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n", 0, payload)
    assert b"".join(payload) == b"hello!"
    assert chunks.ended


def test_what_is_right_goes_on_before_what_is_wrong() -> None:
    """And nothing after it."""
    chunks = fresh()
    assert feed(chunks, HELLO + b"x\r\n") == [HELLO]
    assert chunks.fault is not None
    assert str(chunks.fault) == "the line before a chunk is 'x\\r\\n'"


def test_held_bytes_can_be_taken() -> None:
    """For a tunnel."""
    chunks = fresh()
    feed(chunks, b"5;a")
    assert chunks.holding == 3
    assert chunks.take_held() == b"5;a"
    assert chunks.holding == 0


@pytest.mark.parametrize("trusting", [False, True])
@pytest.mark.parametrize("size", [1, 10_000])
def test_lines_are_not_held_for_ever(trusting: bool, size: int) -> None:
    """A size line has its limit, trailers have that of heads."""
    for data, text in (
        (b"5;" + b"a" * 5000, "the line before a chunk is longer than 1024 bytes"),
        (b"0\r\nX: " + b"a" * 5000, "the trailers are longer than 1000 bytes"),
        (b"0\r\n" + b"X: y\r\n" * 1000, "the trailers are longer than 1000 bytes"),
    ):
        chunks = fresh(trusting=trusting)
        for at in range(0, len(data), size):
            if chunks.fault is None:
                feed(chunks, data[at : at + size])
                assert chunks.holding <= 1024
        assert str(chunks.fault) == text


def test_long_trailers_of_clients_have_their_status() -> None:
    """431, as a long head."""
    chunks = fresh()
    feed(chunks, b"0\r\nX: " + b"a" * 5000)
    assert chunks.fault is not None
    assert chunks.fault.status == 431


class Asked(BodyOpinion):
    """Says what it was told."""

    told: list[bytes]

    def agree(self, data: bytes, *, end: bool) -> None:
        """Note it."""
        self.told.append(data)
        super().agree(data, end=end)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What h11 is told."""
    Asked.told = []
    monkeypatch.setattr(module, "BodyOpinion", Asked)
    return Asked.told


def test_h11_reads_along_what_clients_send(told: list[bytes]) -> None:
    """All of it."""
    feed(fresh(), HELLO, b"0\r\n\r\n")
    assert told == [HELLO, b"0\r\n\r\n"]


def test_h11_is_not_asked_about_plain_answers(told: list[bytes]) -> None:
    """There is nothing to differ about."""
    feed(fresh(trusting=True), HELLO, b"0\r\n\r\n")
    assert told == []


def test_h11_reads_along_from_an_extension_on(told: list[bytes]) -> None:
    """It need not have seen the chunks before."""
    feed(fresh(trusting=True), HELLO + b"5;a\r\nwor", b"ld\r\n0\r\n\r\n")
    assert told == [b"5;a\r\nwor", b"ld\r\n0\r\n\r\n"]


@pytest.mark.parametrize("cut", [False, True])
def test_h11_is_shown_trailers(told: list[bytes], cut: bool) -> None:
    """With the line they belong to, whether or not they come in one piece."""
    chunks = fresh(trusting=True)
    feed(chunks, *([HELLO, b"0\r\nX", b": y\r\n\r\n"] if cut else [HELLO + b"0\r\nX: y\r\n\r\n"]))
    assert b"".join(told) == b"0\r\nX: y\r\n\r\n"
    assert chunks.ended


def test_h11_is_not_told_the_end_of_the_connection_by_nothing(told: list[bytes]) -> None:
    """A wrong trailer is named as what it is, though h11 was asked for it and nothing of it goes on."""
    chunks = fresh(trusting=True)
    assert feed(chunks, HELLO + b"0\r\nHost: y\r\n\r\n") == [HELLO + b"0\r\n"]
    assert str(chunks.fault) == "host stands in the trailers"


def test_what_h11_refuses_does_not_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should our own rules ever let something pass."""
    chunks = fresh()
    monkeypatch.setattr(module, "_SIZE", re.compile(rb"([0-9]+)( )?\r\n"))
    assert feed(chunks, b"123456789012345678901\r\nx") == [b""]
    assert "illegal chunk header" in str(chunks.fault)
