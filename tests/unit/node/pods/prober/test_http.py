"""Answers as kubelets take them."""

import re
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from interpose.node.pods.prober.http import LARGEST_HEAD, AnswerReader, HttpAnswer, HttpAnswerError

LARGEST = 16
ENDLESS = b"x" * 100


def read(pieces: Iterable[bytes]) -> HttpAnswer:
    """The answer in these pieces; the connection ends behind them."""
    reader = AnswerReader(LARGEST)
    for piece in pieces:
        answer = reader.receive(piece)
        if answer is not None:
            return answer
    answer = reader.receive(b"")
    assert answer is not None
    return answer


def outcome(pieces: Iterable[bytes]) -> HttpAnswer | str:
    """The answer, or what is wrong with it."""
    try:
        return read(pieces)
    except HttpAnswerError as error:
        return str(error)


def head(*lines: bytes, end: bytes = b"\r\n") -> bytes:
    """A good status line, and these."""
    return end.join((b"HTTP/1.1 200 OK", *lines, b"", b""))


CHUNKED = b"Transfer-Encoding: chunked"
GOOD = [
    # how lines end, and status lines
    (b"HTTP/1.1 200 OK\n\nok", 200, b"ok"),
    (b"HTTP/1.1 200 OK\r\nA: b\n\r\nok", 200, b"ok"),
    (b"HTTP/1.0 503\r\n\r\n", 503, b""),
    (b"HTTP/1.1  200 \r\n\r\n", 200, b""),
    (b"HTTP/1.1 404 Nicht da, \xfc: gar nicht\r\n\r\n", 404, b""),
    # fields
    (head(b"X: a", b" b: c", b"\td", b"Content-Length:", b"  2") + b"okay", 200, b"ok"),
    (head(b"X: a", b" ", b":", b"no-value:") + b"ok", 200, b"ok"),
    # lengths
    (head(b"Content-Length: 2", b"CONTENT-LENGTH:2\t") + b"okay", 200, b"ok"),
    (head(b"Content-Length: " + b"0" * 5000 + b"2") + b"okay", 200, b"ok"),
    (head(b"Content-Length: 0") + b"okay", 200, b""),
    (head(b"Content-Length: 100") + ENDLESS, 200, ENDLESS[:LARGEST]),
    # chunks
    (head(CHUNKED, b"Content-Length: 1000") + b"2\r\nok\r\n0\r\n\r\n", 200, b"ok"),
    (head(b"Content-Length: x", b"transfer-encoding: Chunked", end=b"\n") + b"1\no\n1 ; a=b\nk\n000\n", 200, b"ok"),
    (head(CHUNKED) + b"A\r\n0123456789\r\na;x\r\n0123456789 anything", 200, b"0123456789012345"),
    (head(CHUNKED) + b"FFFFFFFFFFFFFFFF\r\n" + ENDLESS, 200, ENDLESS[:LARGEST]),
    (b"HTTP/1.0 200 OK\r\n" + CHUNKED + b"\r\n\r\n2\r\nok\r\n", 200, b"2\r\nok\r\n"),
    # interim answers, and those without a body
    (b"HTTP/1.1 100\n\nHTTP/1.1 103 Hints\nLink: x\n\nHTTP/1.1 500\n\nno", 500, b"no"),
    (b"HTTP/1.1 101 Switching\r\n\r\nbytes", 101, b""),
    (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, b""),
    (b"HTTP/1.1 304 Not Modified\r\nTransfer-Encoding: chunked\r\n\r\n", 304, b""),
]
BAD = [
    (b"", "the connection was closed without an answer"),
    (b"HTTP/1.1 100 Continue\r\n\r\n", "the connection was closed without an answer"),
    (b"SSH-2.0-server", "does not begin with HTTP/"),
    (b"\n", "does not begin with HTTP/"),
    (b"\0\0\x12\4\0\0\0\0\0", "does not begin with HTTP/"),
    (b"HTTP", "ended in the middle"),
    (b"HTTP/1.1 200 OK", "ended in the middle"),
    (b"HTTP/1.1 200 OK\r\n", "ended in the middle"),
    (b"HTTP/1.1 200 OK\r\nA: b\r\n", "ended in the middle"),
    (b"HTTP/1.1\r\n\r\n", "'HTTP/1.1' is not a status line"),
    (b"HTTP/1.1 2000 OK\r\n\r\n", "is not a status line"),
    (b"HTTP/1.1 020 OK\r\n\r\n", "is not a status line"),
    (b"HTTP/1.1 OK 200\r\n\r\n", "is not a status line"),
    (b"HTTP/11 200 OK\r\n\r\n", "is not a status line"),
    (b"HTTP/1.1 100 \r\n\r\nHTTP 200\r\n\r\n", "does not begin with HTTP/"),
    (head(b"no header"), "'no header' is not a header"),
    (head(b" no header"), "' no header' is not a header"),
    (head(b"Content-Length: two"), "Content-Length 'two' is not a number"),
    (head(b"Content-Length:"), "Content-Length '' is not a number"),
    (head(b"Content-Length: -1"), "Content-Length '-1' is not a number"),
    (head(b"Content-Length: " + b"9" * 5000), "Content-Length '9999.*' is not a number"),
    (head(b"Content-Length: 2", b"Content-Length: 3") + b"ok", "Content-Length '2, 3' is not a number"),
    (head(b"Content-Length: 3") + b"ok", "ended in the middle"),
    (head(b"Transfer-Encoding: gzip"), "Transfer-Encoding 'gzip' is not chunked"),
    (head(CHUNKED, CHUNKED), "Transfer-Encoding 'chunked, chunked' is not chunked"),
    (head(CHUNKED) + b"\r\n", "'' is not a size of a chunk"),
    (head(CHUNKED) + b"0x1\r\n", "'0x1' is not a size of a chunk"),
    (head(CHUNKED) + b"1" * 17 + b"\r\n", "is not a size of a chunk"),
    (head(CHUNKED) + b"2\r\nokay\r\n", "a chunk does not end where it should"),
    (head(CHUNKED) + b"2\r\nok\r\n", "ended in the middle"),
    (head(CHUNKED) + b"2\r\no", "ended in the middle"),
    (head(CHUNKED) + b"1;" + b"x" * 5000, "its line before a chunk is too long"),
]


@pytest.mark.parametrize(("data", "status", "body"), GOOD)
def test_what_kubelets_take(data: bytes, status: int, body: bytes) -> None:
    """As a whole and byte by byte; nothing is read that is not needed."""
    assert read([data]) == HttpAnswer(status=status, body=body)
    assert read(bytes((one,)) for one in data) == HttpAnswer(status=status, body=body)


@pytest.mark.parametrize(("data", "words"), BAD)
def test_what_is_no_answer(data: bytes, words: str) -> None:
    """Said in a few words, the same however the bytes come."""
    with pytest.raises(HttpAnswerError, match=words) as found:
        read([data])
    assert str(found.value) == outcome(bytes((one,)) for one in data)
    assert re.match("not an HTTP answer: |the connection was closed", str(found.value))
    assert len(str(found.value)) < 200


@pytest.mark.parametrize(
    ("lines", "place"),
    [([], ""), ([b"Location: /a", b"Location: /b"], "/a"), ([b"LOCATION:", b"\t/a\xfc"], "/a\xfc")],
)
def test_where_an_answer_leads(lines: list[bytes], place: str) -> None:
    """The first place counts."""
    assert read([head(*lines, b"Content-Length: 0")]).location == place


def test_an_answer_is_there_before_the_connection_ends() -> None:
    """As soon as nothing more is needed."""
    for data in (head(b"Content-Length: 2") + b"ok", head(CHUNKED) + b"0\r\n", b"HTTP/1.1 204\n\n", head() + ENDLESS):
        assert AnswerReader(LARGEST).receive(data) is not None
    assert AnswerReader(LARGEST).receive(head() + b"ok") is None


def test_who_speaks_something_else_need_not_end_the_line() -> None:
    """It may wait for us to speak."""
    with pytest.raises(HttpAnswerError, match="does not begin with HTTP/"):
        AnswerReader(LARGEST).receive(b"HTP")


def test_heads_have_a_limit() -> None:
    """All that come together, whatever they are made of."""
    room = LARGEST_HEAD - len(head(b"X: "))
    long = head(b"X: " + b"x" * room)
    assert read([long, b"ok"]).body == b"ok"
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    for data in (
        head(b"X: " + b"x" * (room + 1)),
        interim + long,
        interim * (LARGEST_HEAD // len(interim) + 1),
        head(b"X: a", *[b" b"] * (LARGEST_HEAD // 4)),
        b"HTTP/1.1 200 " + b"x" * LARGEST_HEAD,
    ):
        assert outcome([data]) == "not an HTTP answer: its head is too long"
        assert outcome([data[:1000], data[1000:]]) == "not an HTTP answer: its head is too long"


PARTS = [
    *(b"HTTP/1.1 200 OK", b"HTTP/1.0 302", b"HTTP/1.1 100 Continue", b"HTTP/1.1 204", b"HTTP/", b"Content-Length: "),
    *(b"3", b"12", b"f", b"0", b"99999999999999999999", CHUNKED, b"Location: /", b" folded", b"X: y", b":", b";"),
    *(b"\n", b"\r\n", b"\r\n\r\n", b"\n\n", b"\r", b" ", b"ok", b"\0", b"\xff", b"0123456789abcdef"),
]
MADE = st.lists(st.sampled_from(PARTS), max_size=12).map(b"".join)
HEADED = st.lists(st.sampled_from([b"X: y", CHUNKED, b"Content-Length: 3", b" z", b"Location: /"]), max_size=4)
ANSWERS = st.builds(
    lambda lines, end, rest: head(*lines, end=end) + rest, HEADED, st.sampled_from([b"\n", b"\r\n"]), MADE
)
BYTES = st.binary(max_size=60) | MADE | ANSWERS | st.sampled_from([data for data, *_ in (*GOOD, *BAD)])


@given(BYTES, st.lists(st.integers(0, 200), max_size=8))
def test_how_bytes_are_cut_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    """And whatever they are, there is an answer or the one error."""
    places = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    whole = outcome([data] if data else [])
    assert outcome(piece for piece in pieces if piece) == whole
    assert outcome(bytes((one,)) for one in data) == whole
    if isinstance(whole, HttpAnswer):
        assert len(whole.body) <= LARGEST
        assert 101 <= whole.status < 1000
        assert whole.good == (200 <= whole.status < 400)
