"""HTTP/1.1 for any stream of messages, cut in any way: nothing is lost, nothing differs, and h11 reads the same."""

from dataclasses import dataclass
from itertools import pairwise

import h11
from hypothesis import given
from hypothesis import strategies as st

from interpose.net.h1.heads import Heads, MalformedError
from interpose.net.h1.messages import BodyPart, RequestReader, ResponseReader
from tests.support.fuzz.h1 import LIMIT, asked, check_answers, check_requests, decoding, read_by_h11, run

NAMES = st.text("ABCxyz-_09", min_size=1, max_size=8).map(lambda name: f"X-{name}".encode())
VALUES = st.lists(st.binary(max_size=6)).map(lambda parts: b" ".join(parts).translate(None, bytes((*range(32), 127))))
BODIES = st.lists(st.binary(min_size=1, max_size=60), max_size=4)
FIELDS = st.lists(st.tuples(NAMES, VALUES), max_size=4)
EXTENSIONS = st.sampled_from([b"", b";a", b';a="b c"', b";"])
ODD = st.sampled_from(
    [b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"\x00", b" ", b":", b"0\r\n\r\n", b"Content-Length: 5\r\n", b"5\r\n"]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """Bytes, and what they mean."""

    raw: bytes
    body: bytes


def lines(fields: list[tuple[bytes, bytes]]) -> bytes:
    """As they stand in a head."""
    return b"".join(name + b": " + value + b"\r\n" for name, value in fields)


@st.composite
def bodies(draw: st.DrawFn) -> tuple[bytes, Message]:
    """A framing field, and the body that goes with it."""
    parts = draw(BODIES)
    body = b"".join(parts)
    if not draw(st.booleans()):
        return b"Content-Length: %d\r\n" % len(body), Message(raw=body, body=body)
    raw = b"".join(b"%x%s\r\n%s\r\n" % (len(part), draw(EXTENSIONS), part) for part in parts)
    raw += b"0\r\n" + lines(draw(FIELDS)) + b"\r\n"
    return draw(st.sampled_from([b"Transfer-Encoding: chunked\r\n", b"transfer-encoding:Chunked \r\n"])), Message(
        raw=raw, body=body
    )


@st.composite
def requests(draw: st.DrawFn) -> Message:
    """A right request."""
    head = draw(st.sampled_from([b"GET", b"POST", b"DELETE"])) + b" /v1.41/containers/x?a=%20 HTTP/1.1\r\nHost: x\r\n"
    head += lines(draw(FIELDS))
    if draw(st.booleans()):
        return Message(raw=head + b"\r\n", body=b"")
    field, message = draw(bodies())
    return Message(raw=head + field + b"\r\n" + message.raw, body=message.body)


@st.composite
def answers(draw: st.DrawFn) -> Message:
    """A right answer."""
    interim = b"HTTP/1.1 100 Continue\r\n\r\n" * draw(st.integers(0, 2))
    field, message = draw(bodies())
    head = interim + b"HTTP/1.1 200 OK\r\nDate: Mon, 16 Nov 2026 15:06:00 GMT\r\n" + lines(draw(FIELDS))
    return Message(raw=head + field + b"\r\n" + message.raw, body=message.body)


@st.composite
def broken(draw: st.DrawFn, messages: st.SearchStrategy[Message]) -> bytes:
    """Right ones, with something put in, taken out, or cut off."""
    data = b"".join(message.raw for message in draw(st.lists(messages, max_size=3)))
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.integers(0, len(data)))
        out = draw(st.sampled_from([0, 0, 1, 2]))
        data = data[:at] + draw(ODD | st.binary(max_size=3)) + data[at + out :]
    return data


def pieces(source: st.DataObject, data: bytes) -> list[bytes]:
    """The data, cut anywhere."""
    cuts = source.draw(st.lists(st.integers(0, len(data)), max_size=12))
    return [data[a:b] for a, b in pairwise(sorted({0, len(data), *cuts}))]


@given(st.data(), st.lists(requests(), min_size=1, max_size=4))
def test_right_requests_come_out_as_they_went_in(data: st.DataObject, messages: list[Message]) -> None:
    """All of them, whole, with their bodies, and as h11 reads them."""
    stream = b"".join(message.raw for message in messages)
    outcome = run(decoding(RequestReader(Heads())), pieces(data, stream), limit=65536)
    assert outcome.status is None, outcome.why
    assert [head + raw for head, raw, _ in outcome.messages] == [message.raw for message in messages]
    assert [body for _, _, body in outcome.messages] == [message.body for message in messages]
    for message in messages:
        assert read_by_h11(h11.Connection(h11.SERVER), message.raw) == message.body


@given(st.data(), answers())
def test_a_right_answer_comes_out_as_it_went_in(data: st.DataObject, message: Message) -> None:
    """Interim heads before it, nothing after it."""
    outcome = run(decoding(ResponseReader(Heads())), pieces(data, message.raw), "GET", 65536)
    assert outcome.status is None, outcome.why
    assert outcome.raw == message.raw
    assert b"".join(body for _, _, body in outcome.messages) == message.body
    assert read_by_h11(asked("GET"), message.raw) == message.body


@given(st.data(), broken(requests()))
def test_broken_requests_keep_the_promises(data: st.DataObject, stream: bytes) -> None:
    """Nothing but Malformed, the same however they are cut."""
    whole = check_requests(stream)
    assert run(decoding(RequestReader(Heads(limit=LIMIT))), pieces(data, stream)) == whole


@given(st.data(), broken(answers()), st.integers(0, 3))
def test_broken_answers_keep_the_promises(data: st.DataObject, stream: bytes, method: int) -> None:
    """The same for the other side."""
    whole = check_answers(bytes((method,)) + stream)
    reader = decoding(ResponseReader(Heads(limit=LIMIT)))
    assert run(reader, pieces(data, stream), ("GET", "HEAD", "POST", "CONNECT")[method]) == whole


@given(broken(requests()))
def test_what_h11_refuses_is_refused(stream: bytes) -> None:
    """Whole messages that went through, h11 reads in the same way."""
    outcome = check_requests(stream)
    for head, raw, body in outcome.messages[: outcome.whole]:
        assert read_by_h11(h11.Connection(h11.SERVER), head + raw) == body


@given(broken(answers()))
def test_remembered_verdicts_are_those_of_a_fresh_look(stream: bytes) -> None:
    """A memory that has seen much says the same as one that has seen nothing."""
    head = stream[: stream.find(b"\r\n\r\n") + 4]
    heads = Heads()
    told = []
    for reader in (heads, heads, Heads()):
        try:
            told.append(repr(reader.response(head, "GET").headers))
        except MalformedError as fault:
            told.append(str(fault))
    assert told[0] == told[1] == told[2]


def given_out(reader: RequestReader | ResponseReader) -> list[object]:
    """All that can be had of a message, or why there is no more, and what is left."""
    found: list[object] = []
    try:
        while (item := reader.next()) is not None:
            found.append(item)
    except MalformedError as fault:
        found.append((fault.status, str(fault)))
    return [*found, reader.buffered, reader.between]


@given(st.data(), st.lists(requests(), min_size=1, max_size=4))
def test_the_short_way_reads_requests_as_the_long_one(data: st.DataObject, messages: list[Message]) -> None:
    """The same head, and the reader is in the same place; what is not taken is read as if nobody had looked."""
    heads = Heads()
    stream = b"".join(message.raw for message in messages)
    run(decoding(RequestReader(heads)), [stream], limit=65536)
    piece = data.draw(st.sampled_from([*(message.raw for message in messages), *pieces(data, stream)]))
    short, long = RequestReader(heads), RequestReader(heads)
    long.receive(piece)
    taken = short.whole(piece)
    if taken is None:
        short.receive(piece)
        assert given_out(short) == given_out(long)
    else:
        assert [taken, *given_out(short)] == given_out(long)


@given(st.data(), answers(), st.sampled_from(["GET", "HEAD", "POST", "CONNECT"]))
def test_the_short_way_reads_answers_as_the_long_one(data: st.DataObject, message: Message, method: str) -> None:
    """The same for the other side, where a body may come along."""
    heads = Heads()
    seen, short, long = (ResponseReader(heads) for _ in range(3))
    for reader in (seen, short, long):
        reader.expect(method)
    seen.receive(message.raw)
    given_out(seen)
    last = message.raw.rfind(b"HTTP/1.1 200")
    piece = data.draw(st.sampled_from([message.raw, message.raw[last:], *pieces(data, message.raw)]))
    long.receive(piece)
    taken = short.whole(piece)
    if taken is None:
        short.receive(piece)
        assert given_out(short) == given_out(long)
        return
    head, *parts, buffered, between = given_out(long)
    assert head is taken
    assert taken.raw + b"".join(part.raw for part in parts if isinstance(part, BodyPart)) == piece
    assert given_out(short) == [buffered, between]
    short.expect(method)  # it is over
    long.expect(method)
