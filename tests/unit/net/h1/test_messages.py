"""The readers: heads and parts in their order, bytes that wait, ends, and what follows a fault."""

import pytest

from interpose.net.h1.heads import Framing, Heads, MalformedError, RequestHead, ResponseHead
from interpose.net.h1.messages import BodyPart, RequestReader, ResponseReader

PING = b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n"
POST = b"POST /x HTTP/1.1\r\nHost: docker\r\nContent-Length: 5\r\n\r\n"
CHUNKED = b"POST /x HTTP/1.1\r\nHost: docker\r\nTransfer-Encoding: chunked\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
CHUNKED_OK = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def requests(*pieces: bytes, limit: int = 65536) -> RequestReader:
    """A reader that received these."""
    reader = RequestReader(Heads(limit=limit))
    for piece in pieces:
        reader.receive(piece)
    return reader


def answers(*pieces: bytes, method: str = "GET") -> ResponseReader:
    """A reader that expects an answer and received these."""
    reader = ResponseReader(Heads())
    reader.expect(method)
    for piece in pieces:
        reader.receive(piece)
    return reader


def head_of(reader: RequestReader | ResponseReader) -> RequestHead | ResponseHead:
    """The next thing, which is a head."""
    head = reader.next()
    assert isinstance(head, RequestHead | ResponseHead)
    return head


def test_a_request_without_a_body() -> None:
    """A head, and nothing after it until the next is asked for."""
    reader = requests(PING + PING)
    assert head_of(reader).raw == PING
    assert reader.next() is None
    assert reader.buffered == len(PING)
    reader.start_next()
    assert head_of(reader).raw == PING
    assert reader.buffered == 0


def test_a_head_that_is_a_whole_piece_is_not_copied() -> None:
    """The raw bytes of the head are the very object that was received."""
    piece = bytes(bytearray(PING))
    assert head_of(requests(piece)).raw is piece


def test_a_head_that_comes_byte_by_byte() -> None:
    """It is there with its last byte, and what follows it is not lost."""
    reader = requests()
    for byte in PING[:-1]:
        reader.receive(bytes((byte,)))
        assert reader.next() is None
    assert reader.buffered == len(PING) - 1
    reader.receive(PING[-1:] + PING[:5])
    assert head_of(reader).raw == PING
    assert reader.buffered == 5


def test_a_second_head_that_is_cut_is_looked_at_from_its_beginning() -> None:
    """What was known of the head before is forgotten."""
    reader = requests(PING[:25], PING[25:])
    head_of(reader)
    reader.start_next()
    reader.receive(b"GET /\r\n")
    with pytest.raises(MalformedError, match="the request line is 'GET /'"):
        reader.next()


def test_a_body_with_a_length() -> None:
    """In the pieces it came in, as those objects; the rest belongs to the next."""
    reader = requests(POST)
    assert head_of(reader).framing is Framing.LENGTH
    assert reader.next() is None
    piece = b"hel"
    reader.receive(piece)
    part = reader.next()
    assert part == BodyPart(b"hel", b"", False)
    assert isinstance(part, BodyPart)
    assert part.raw is piece
    reader.receive(b"lo" + PING)
    assert reader.next() == BodyPart(b"lo", b"", True)
    assert reader.next() is None
    assert reader.buffered == len(PING)


def test_a_chunked_body() -> None:
    """As it came; the rest belongs to the next."""
    reader = requests(CHUNKED + b"5\r\nhello\r\n0\r\n\r\n" + PING)
    assert head_of(reader).framing is Framing.CHUNKED
    assert reader.next() == BodyPart(b"5\r\nhello\r\n0\r\n\r\n", b"", True)
    assert reader.next() is None
    reader.start_next()
    assert head_of(reader).raw == PING


def test_bodies_are_decoded_on_demand() -> None:
    """Beside what they came as."""
    reader = requests(CHUNKED + b"5\r\nhello\r\n")
    reader.decode = True
    head_of(reader)
    assert reader.next() == BodyPart(b"5\r\nhello\r\n", b"hello", False)
    reader.receive(b"0\r\n\r\n" + POST + b"hello")
    assert reader.next() == BodyPart(b"0\r\n\r\n", b"", True)
    reader.start_next()
    head_of(reader)
    assert reader.next() == BodyPart(b"hello", b"hello", True)


def test_a_chunk_line_that_waits_is_counted() -> None:
    """It is received and not given out."""
    reader = requests(CHUNKED + b"5")
    head_of(reader)
    assert reader.next() is None
    assert reader.buffered == 1
    reader.receive(b"\r\nhello")
    assert reader.next() == BodyPart(b"5\r\n", b"", False)
    assert reader.next() == BodyPart(b"hello", b"", False)


def test_between_is_before_the_first_byte() -> None:
    """Not with a byte of the next request, and not while a message is under way or not answered."""
    reader = requests()
    seen = [reader.between]
    for piece in (PING[:3], PING[3:]):
        reader.receive(piece)
        seen.append(reader.between)
        reader.next()
        seen.append(reader.between)
    reader.start_next()
    assert [*seen, reader.between] == [True, False, False, False, False, True]


def test_the_next_message_comes_after_the_end_of_this() -> None:
    """Anything else is a mistake of the caller."""
    reader = requests(POST)
    head_of(reader)
    with pytest.raises(RuntimeError, match="the message is not over"):
        reader.start_next()
    answer = answers(OK)
    with pytest.raises(RuntimeError, match="the answer before is not over"):
        answer.expect("GET")


@pytest.mark.parametrize("size", [1, 7, 5000])
def test_a_head_without_an_end_is_refused_before_it_comes(size: int) -> None:
    """When it cannot be short enough any more."""
    reader = requests(limit=1000)
    data = (PING[:-2] + b"X: ").ljust(5000, b"y")
    stop = 999 - 999 % size
    for at in range(0, stop, size):
        reader.receive(data[at : at + size])
        assert reader.next() is None
    reader.receive(data[stop : stop + size])
    with pytest.raises(MalformedError, match="the head is longer than 1000 bytes") as caught:
        reader.next()
    assert caught.value.status == 431
    assert reader.buffered == 0


def test_after_a_fault_nothing_comes_out_and_nothing_is_held() -> None:
    """Whatever is received or asked."""
    reader = requests(b"GET /\r\n" + PING)
    for _ in range(3):
        with pytest.raises(MalformedError, match="the request line is"):
            reader.next()
        reader.receive(PING)
        assert reader.buffered == 0
    with pytest.raises(MalformedError, match="the request line is"):
        reader.eof()


def test_what_is_right_of_a_body_comes_before_the_fault() -> None:
    """And then the fault."""
    reader = requests(CHUNKED + b"5\r\nhello\r\nx\r\n")
    head_of(reader)
    assert reader.next() == BodyPart(b"5\r\nhello\r\n", b"", False)
    with pytest.raises(MalformedError, match="the line before a chunk is 'x"):
        reader.next()


def test_a_fault_in_a_cut_chunk_line() -> None:
    """It comes with the byte that makes it one."""
    reader = requests(CHUNKED + b"x")
    head_of(reader)
    assert reader.next() is None
    reader.receive(b"\r\n")
    with pytest.raises(MalformedError, match="the line before a chunk is 'x"):
        reader.next()


def test_the_rest_is_for_a_tunnel() -> None:
    """All that was not given out, in its order; then the reader is of no use."""
    reader = requests(CHUNKED + b"5", b"")
    head_of(reader)
    reader.next()
    reader.receive(b";a")
    reader.receive(b"bc")
    assert reader.take_rest() == b"5;abc"
    assert reader.next() is None
    assert reader.eof() is None
    with pytest.raises(RuntimeError, match="given its bytes away"):
        reader.receive(b"x")


def test_the_rest_of_a_head_is_for_a_tunnel() -> None:
    """What came in pieces is joined."""
    reader = requests(PING[:9])
    reader.next()
    reader.receive(b"!")
    assert reader.take_rest() == PING[:9] + b"!"
    assert reader.buffered == 0


@pytest.mark.parametrize("data", [PING[:9], POST + b"hel", CHUNKED + b"0\r\n"])
def test_an_end_in_the_middle_of_a_request(data: bytes) -> None:
    """The client is told, if it still listens; and again."""
    reader = requests(data)
    while reader.next() is not None:
        pass
    for _ in range(2):
        with pytest.raises(MalformedError, match="the connection ended in the middle of a message") as caught:
            reader.eof()
        assert caught.value.status == 400


def test_an_end_between_requests() -> None:
    """The end of the connection between requests is no error."""
    reader = requests(PING)
    assert requests().eof() is None
    head_of(reader)
    assert reader.eof() is None


def test_an_answer() -> None:
    """Head and body; then nothing until another is expected."""
    reader = answers(OK + b"OK")
    assert head_of(reader).raw == OK
    assert reader.next() == BodyPart(b"OK", b"", True)
    assert reader.next() is None
    reader.expect("HEAD")
    reader.receive(OK)
    assert head_of(reader).framing is Framing.NONE
    assert reader.next() is None
    assert not reader.between


def test_interim_answers_are_followed_by_another() -> None:
    """Any number of them."""
    reader = answers(b"HTTP/1.1 100 Continue\r\n\r\n" * 2 + OK + b"OK")
    assert [head_of(reader).raw[9:12] for _ in range(3)] == [b"100", b"100", b"200"]
    assert reader.next() == BodyPart(b"OK", b"", True)


def test_switched_protocols_leave_the_rest() -> None:
    """The bytes after the switch are left for the tunnel."""
    reader = answers(b"HTTP/1.1 101 UPGRADED\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\nraw", method="POST")
    head_of(reader)
    assert reader.next() is None
    assert reader.take_rest() == b"raw"


def test_an_answer_until_the_end() -> None:
    """Its parts come at once, its end with that of the connection."""
    reader = answers(b"HTTP/1.1 200 OK\r\n\r\n", b"some")
    head_of(reader)
    assert reader.next() == BodyPart(b"some", b"", False)
    assert reader.next() is None
    reader.receive(b"more")
    reader.decode = True
    assert reader.next() == BodyPart(b"more", b"more", False)
    reader.receive(b"last")
    assert reader.eof() == BodyPart(b"last", b"last", True)
    assert reader.eof() is None


@pytest.mark.parametrize("data", [OK[:9], OK + b"O", b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n"])
def test_an_end_in_the_middle_of_an_answer(data: bytes) -> None:
    """The fault is the server's."""
    reader = answers(data)
    while reader.next() is not None:
        pass
    with pytest.raises(MalformedError, match="the connection ended in the middle of a message") as caught:
        reader.eof()
    assert caught.value.status == 502


def test_an_end_before_an_answer_is_between() -> None:
    """Whether one is owed is known to the caller."""
    assert answers().eof() is None
    assert ResponseReader(Heads()).eof() is None


def test_bytes_nobody_asked_for_are_no_answer() -> None:
    """They wait, and break the next answer: whose is it?"""
    reader = ResponseReader(Heads())
    reader.receive(OK)
    assert reader.next() is None
    assert reader.buffered == len(OK)
    reader.expect("GET")
    with pytest.raises(MalformedError, match="bytes came that answer nothing") as caught:
        reader.next()
    assert caught.value.status == 502


def test_a_request_that_was_seen_before_is_taken_in_one_step() -> None:
    """The same head as by the long way; then it is over, and the next may come."""
    reader = requests(PING)
    known = head_of(reader)
    assert reader.whole(PING) is None  # not its turn
    reader.start_next()
    assert reader.whole(PING) is known
    assert reader.next() is None
    assert reader.buffered == 0
    reader.start_next()
    assert reader.between


@pytest.mark.parametrize("data", [POST, CHUNKED, PING[:-1], PING + PING, PING + b"x", b"", PING + bytes(5000)])
def test_other_requests_take_the_long_way(data: bytes) -> None:
    """Bodies, parts and pipelines are read as ever; that they were looked at changed nothing."""
    heads = Heads()
    for raw in (PING, POST, CHUNKED):
        heads.request(raw)
    reader = RequestReader(heads)
    assert reader.whole(data) is None
    assert reader.between
    reader.receive(PING)
    assert head_of(reader).raw == PING


def test_a_request_behind_waiting_bytes_takes_the_long_way() -> None:
    """Searched or not, what waits comes first."""
    heads = Heads()
    heads.request(PING)
    reader = RequestReader(heads)
    reader.receive(PING[:9])
    assert reader.whole(PING) is None
    assert reader.next() is None
    assert reader.whole(PING) is None
    reader.receive(PING[9:])
    assert head_of(reader).raw == PING


def test_an_answer_whose_head_was_seen_before_is_taken_in_one_step() -> None:
    """Its body may be another."""
    reader = answers(OK + b"hi")
    known = head_of(reader)
    assert reader.next() == BodyPart(b"hi", b"", True)
    assert reader.whole(OK + b"yo") is None  # nobody asked
    reader.expect("GET")
    assert reader.whole(OK + b"yo") is known
    assert reader.next() is None
    assert reader.buffered == 0
    reader.expect("GET")


def test_an_answer_to_head_has_no_body_in_one_step_either() -> None:
    """What it says of its length is what GET would have got."""
    reader = answers(OK, method="HEAD")
    known = head_of(reader)
    reader.expect("HEAD")
    assert reader.whole(OK + b"hi") is None
    assert reader.whole(OK) is known
    reader.expect("GET")
    assert reader.whole(OK) is None


@pytest.mark.parametrize(
    ("method", "data"),
    [
        ("GET", OK + b"h"),
        ("GET", OK + b"hi!"),
        ("GET", OK + b"hi" + OK + b"hi"),
        ("GET", OK[:-1]),
        ("GET", b""),
        ("GET", b"HTTP/1.1 200 OK\r\n\r\n"),
        ("GET", CHUNKED_OK),
        ("GET", CHUNKED_OK + b"5\r\nhello\r\n0\r\n"),
        ("GET", CHUNKED_OK + b"5\r\nhello\r\n0\r\nX: y\r\n\r\n"),
        ("GET", CHUNKED_OK + b"5;a\r\nhello\r\n0\r\n\r\n"),
        ("GET", CHUNKED_OK + b"5\r\nhello\r\n0\r\n\r\n" + b"0\r\n\r\n"),
        ("GET", CHUNKED_OK + b"7\r\n0\r\n\r\n"),
        ("GET", b"HTTP/1.1 100 Continue\r\n\r\n"),
        ("POST", b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"),
        ("CONNECT", b"HTTP/1.1 200 OK\r\n\r\n"),
        ("CONNECT", b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"),
    ],
)
def test_other_answers_take_the_long_way(method: str, data: bytes) -> None:
    """Cut or followed ones, those without a known end, interim ones and tunnels; nothing has changed by the look."""
    heads = Heads()
    heads.response(OK, "GET")
    heads.response(CHUNKED_OK, "GET")
    if data.endswith(b"\r\n\r\n") and not data.startswith(CHUNKED_OK):
        heads.response(data, method)
    reader = ResponseReader(heads)
    reader.expect(method)
    assert reader.whole(data) is None
    assert reader.between


@pytest.mark.parametrize("body", [b"", b"5\r\nhello\r\n", b"1\r\nx\r\n" * 1000 + b"400\r\n" + b"y" * 1024 + b"\r\n"])
def test_a_whole_chunked_answer_takes_the_short_way(body: bytes) -> None:
    """As dockerd answers lists; it is over then."""
    heads = Heads()
    known = heads.response(CHUNKED_OK, "GET")
    reader = ResponseReader(heads)
    reader.expect("GET")
    assert reader.whole(CHUNKED_OK + body + b"0\r\n\r\n") is known
    assert reader.next() is None
    assert not reader.buffered
    reader.expect("GET")


def test_an_answer_behind_waiting_bytes_takes_the_long_way() -> None:
    """Bytes that wait, searched or not, keep the short way from being used."""
    heads = Heads()
    heads.response(OK, "GET")
    reader = ResponseReader(heads)
    reader.expect("GET")
    reader.receive(OK[:9])
    assert reader.whole(OK + b"hi") is None
    assert reader.next() is None
    assert reader.whole(OK + b"hi") is None
    reader.receive(OK[9:] + b"hi")
    assert head_of(reader).raw == OK


def test_after_a_fault_there_is_no_short_way() -> None:
    """The reader stays broken."""
    heads = Heads()
    heads.request(PING)
    reader = RequestReader(heads)
    reader.receive(b"GET /\n\r\n\r\n")
    with pytest.raises(MalformedError):
        reader.next()
    assert reader.whole(PING) is None
    with pytest.raises(MalformedError):
        reader.next()
