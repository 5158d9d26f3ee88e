"""The promises about HTTP/1.1 are found broken when they are, and the plain reference reads what is right."""

import pytest

from interpose.net.h1 import chunked, rules
from interpose.net.h1.heads import Heads
from interpose.net.h1.messages import RequestReader, ResponseReader
from tests.support.fuzz import h1 as h1fuzz
from tests.support.fuzz.h1 import BrokenPromise, check_answers, check_requests, cut, run

PING = b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: docker\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST /x HTTP/1.1\r\nHost: docker\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"


def test_the_reference_cuts_requests() -> None:
    """Bodies without their framing; what is not complete as far as it goes."""
    data = POST + b"hello" + CHUNKED + b"5;a\r\nhello\r\n0\r\nX: y\r\n\r\n" + PING
    assert cut(data) == [(POST, b"hello"), (CHUNKED, b"hello"), (PING, b"")]
    assert cut(PING[:9]) == []
    assert cut(POST + b"hel") == [(POST, b"hel")]
    for cut_short in (b"5\r\nhello\r\n", b"5\r\nhello\r\n0\r\n", b"5\r\nhello\r\nx\r\n"):
        assert cut(CHUNKED + cut_short) == [(CHUNKED, b"hello")]


def test_what_comes_out_is_told() -> None:
    """Messages, how many are whole, what is left, what is wrong."""
    outcome = check_requests(PING + POST + b"hello" + CHUNKED + b"1\r\nx\r\n5")
    assert outcome.messages == [[PING, b"", b""], [POST, b"hello", b"hello"], [CHUNKED, b"1\r\nx\r\n", b"x"]]
    assert (outcome.whole, outcome.rest, outcome.status) == (2, b"5", None)
    assert check_requests(b"GET /\r\n").status == 400


def test_answers_are_read_as_those_to_a_method() -> None:
    """The first byte chooses."""
    assert check_answers(b"\x00" + OK + b"OK").messages == [[OK, b"OK", b"OK"]]
    assert check_answers(b"\x01" + OK + b"OK").rest == b"OK"
    assert check_answers(b"").rest == b""
    assert check_answers(b"\x00" + b"HTTP/1.1 100 Continue\r\n\r\n" + OK).whole == 0


def test_a_body_that_is_cut_elsewhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reference does not agree."""
    monkeypatch.setattr(rules.Grammar, "parse_body", lambda *_: rules.DeclaredBody(False, 3))
    with pytest.raises(BrokenPromise, match="cut differently"):
        check_requests(POST + b"hello")


def test_a_difference_by_pieces_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if lines were not held."""

    def forget(self: chunked.ChunkedBody, piece: bytes, start: int, payload: list[bytes] | None) -> tuple[bytes, int]:
        self.take_held()
        return self.feed(piece, start, payload)

    monkeypatch.setattr(chunked.ChunkedBody, "_complete", forget)
    with pytest.raises(BrokenPromise, match="pieces of 1 bytes"):
        check_requests(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n")


def test_bytes_that_are_lost_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """And bytes that were never there."""
    monkeypatch.setattr(RequestReader, "take_rest", lambda _: b"")
    with pytest.raises(BrokenPromise, match="bytes were lost"):
        check_requests(PING + b"GET")
    monkeypatch.setattr(h1fuzz.Outcome, "raw", b"other")
    with pytest.raises(BrokenPromise, match="not what went in"):
        check_requests(PING)


def test_too_much_that_is_held_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not so after an answer: nobody asked for that, and its reader is not read."""
    monkeypatch.setattr(RequestReader, "buffered", 5000)
    with pytest.raises(BrokenPromise, match="too much is held"):
        check_requests(PING)
    assert run(ResponseReader(Heads()), [OK + b"OK", b"x" * 5000], "GET").rest == b"x" * 5000


def test_life_after_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes, heads and other faults."""
    monkeypatch.setattr(RequestReader, "_break", lambda _, fault: fault)
    with pytest.raises(BrokenPromise, match="something came out after Malformed"):
        check_requests(b"GET /\r\n\r\n")
    with pytest.raises(BrokenPromise, match="bytes are held after Malformed"):
        check_requests(b"GET /\r\n\r\nmore")
    with pytest.raises(BrokenPromise, match="the fault changed"):
        check_requests(CHUNKED + b"x\r\n")
