"""Chunked bodies: what goes on when, where they end, and when h11 is asked."""

import pytest

from interpose.net.h1 import chunked as module
from interpose.net.h1.chunked import ChunkedBody
from interpose.net.h1.h11_check import BodyChecker
from interpose.net.h1.rules import FIELDS, REQUESTS, RESPONSES, Grammar, MalformedError

HELLO = b"5\r\nhello\r\n"


def fresh(grammar: Grammar = REQUESTS, limit: int = 1000) -> ChunkedBody:
    """A body that has not begun."""
    return ChunkedBody(grammar, limit)


def feed(chunks: ChunkedBody, *pieces: bytes) -> list[bytes]:
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
    """A piece that is passed on whole is not copied."""
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
    """A tunnel takes over the bytes that were not passed on."""
    chunks = fresh()
    feed(chunks, b"5;a")
    assert chunks.holding == 3
    assert chunks.take_held() == b"5;a"
    assert chunks.holding == 0


@pytest.mark.parametrize("grammar", [REQUESTS, RESPONSES])
@pytest.mark.parametrize("size", [1, 10_000])
def test_lines_are_not_held_for_ever(grammar: Grammar, size: int) -> None:
    """A size line has its limit, trailers have that of heads."""
    for data, text in (
        (b"5;" + b"a" * 5000, "the line before a chunk is longer than 1024 bytes"),
        (b"0\r\nX: " + b"a" * 5000, "the trailers are longer than 1000 bytes"),
        (b"0\r\n" + b"X: y\r\n" * 1000, "the trailers are longer than 1000 bytes"),
    ):
        chunks = fresh(grammar)
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


class RecordingChecker(BodyChecker):
    """Says what it was told."""

    checked: list[bytes]

    def check(self, data: bytes, *, end: bool) -> None:
        """Record the bytes that h11 would read."""
        self.checked.append(data)
        super().check(data, end=end)


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What h11 is told."""
    RecordingChecker.checked = []
    monkeypatch.setattr(module, "BodyChecker", RecordingChecker)
    return RecordingChecker.checked


@pytest.mark.parametrize("grammar", [REQUESTS, RESPONSES])
def test_h11_is_not_asked_about_plain_chunks(checked: list[bytes], grammar: Grammar) -> None:
    """There is nothing to differ about."""
    feed(fresh(grammar), HELLO, b"5\r\nhel", b"lo\r\n", b"0\r\n\r\n")
    assert checked == []


@pytest.mark.parametrize("grammar", [REQUESTS, RESPONSES])
def test_h11_is_asked_about_extensions(checked: list[bytes], grammar: Grammar) -> None:
    """It need not see the data, nor the chunks before and after."""
    chunks = fresh(grammar)
    feed(chunks, HELLO + b"5;a\r\nwor", b"ld\r\n" + HELLO + b"0;b\r\n\r\n")
    assert checked == [b"1;a\r\nx\r\n", b"1;b\r\nx\r\n"]
    assert chunks.ended


@pytest.mark.parametrize("grammar", [REQUESTS, RESPONSES])
@pytest.mark.parametrize("cut", [False, True])
def test_h11_is_asked_about_trailers(checked: list[bytes], grammar: Grammar, cut: bool) -> None:
    """With the line they belong to, whether or not they come in one piece."""
    chunks = fresh(grammar)
    rest = [b"0\r\nX", b": y\r\n", b"Z:\r", b"\n\r\n"]
    feed(chunks, HELLO, *(rest if cut else [b"".join(rest)]))
    assert b"".join(checked) == b"".join(rest)
    assert chunks.ended


def test_a_wrong_trailer_is_named_as_what_it_is(checked: list[bytes]) -> None:
    """h11 is not even asked."""
    chunks = fresh(RESPONSES)
    assert feed(chunks, HELLO + b"0\r\nHost: y\r\n\r\n") == [HELLO + b"0\r\n"]
    assert str(chunks.fault) == "host stands in the trailers"
    assert checked == []


class Refusing(BodyChecker):
    """A checker that refuses everything."""

    def check(self, data: bytes, *, end: bool) -> None:
        """Refuse all bytes."""
        raise MalformedError(400, "h11 thinks otherwise")


@pytest.mark.parametrize(("data", "good"), [(b"1;a\r\nx\r\n", b""), (b"0\r\nX: y\r\n\r\n", b"0\r\n")])
@pytest.mark.parametrize("size", [1, 100])
def test_what_h11_refuses_does_not_go_on(monkeypatch: pytest.MonkeyPatch, data: bytes, good: bytes, size: int) -> None:
    """Should our own rules ever let something pass; what came before it does."""
    monkeypatch.setattr(module, "BodyChecker", Refusing)
    chunks = fresh()
    given = b""
    for at in range(0, len(data), size):
        if chunks.fault is None:
            given += b"".join(feed(chunks, data[at : at + size]))
    assert given == good
    assert str(chunks.fault) == "h11 thinks otherwise"


def test_extensions_are_counted() -> None:
    """Nobody sends them by the thousand, and each takes long."""
    chunks = fresh()
    data = b"1;\r\nx\r\n" * 1024
    assert feed(chunks, data) == [data]
    feed(chunks, b"1;\r\n")
    assert str(chunks.fault) == "more than 1024 chunks have extensions"


@pytest.mark.parametrize(("grammar", "status"), [(REQUESTS, 431), (RESPONSES, 502)])
def test_trailers_are_counted(grammar: Grammar, status: int) -> None:
    """As the fields of heads are."""
    chunks = fresh(grammar, 100_000)
    data = b"0\r\n" + b"X: y\r\n" * FIELDS
    assert feed(chunks, data) == [data]
    feed(chunks, b"X: y\r\n")
    assert chunks.fault is not None
    assert str(chunks.fault) == f"the trailers have more than {FIELDS} fields"
    assert chunks.fault.status == status
