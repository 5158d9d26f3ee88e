"""What has to hold for any bytes at all in `interpose.net.h1`, for fuzzers, property tests and the corpus.

Nothing but Malformed is raised; what comes out, joined, is what went in, up to the first wrong byte; how the bytes were
cut makes no difference, nor does whether bodies are decoded; nothing comes out and nothing is held after Malformed;
what is held before is bounded; the messages are cut where `cut`, a plain reading of the RFC that shares no code with
the readers, cuts them; and h11, given a whole message, reads it to its end and finds the same body.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, TypeVar

import h11

from interpose.net.h1.heads import Framing, Heads, MalformedError, ResponseHead
from interpose.net.h1.messages import BodyPart, RequestReader, ResponseReader

LIMIT: Final = 2000  # small, so that a short input meets it
_LINE: Final = 1024  # what a line of chunk framing may hold at most


@dataclass(slots=True, kw_only=True)
class Outcome:
    """What came out of a reader."""

    messages: list[list[bytes]] = field(default_factory=list)  # of each: head, body as it came, body decoded
    whole: int = 0  # messages that are over
    status: int | None = None
    why: str = ""
    rest: bytes = b""  # neither refused nor given out

    @property
    def raw(self) -> bytes:
        """Everything that was given out."""
        return b"".join(part for message in self.messages for part in message[:2])

    @property
    def undecoded(self) -> tuple[object, ...]:
        """All but the decoded bodies."""
        return [message[:2] for message in self.messages], self.whole, self.status, self.why, self.rest


class BrokenPromise(AssertionError):  # noqa: N818 - a fact about the readers
    """One of the things above does not hold."""


def run(
    reader: RequestReader | ResponseReader, pieces: Iterable[bytes], method: str = "", limit: int = LIMIT
) -> Outcome:
    """Feed a reader; all requests, or one answer, to a request of that method."""
    outcome = Outcome()
    if isinstance(reader, ResponseReader):
        reader.expect(method)
    try:
        for piece in pieces:
            reader.receive(piece)
            _drain(reader, outcome)
            # What comes after an answer nobody asked for: it is for the caller to count.
            over = isinstance(reader, ResponseReader) and outcome.whole
            _must(bool(over) or reader.buffered <= max(_LINE, limit), "too much is held")
        outcome.rest = reader.take_rest()
    except MalformedError as fault:
        outcome.status, outcome.why = fault.status, str(fault)
        _stays_broken(reader, fault)
    return outcome


def check_requests(data: bytes) -> Outcome:
    """The promises for what clients send."""
    outcome = _check(lambda reader, pieces: run(reader, pieces), lambda: RequestReader(Heads(limit=LIMIT)), data)
    _as_the_reference(outcome, cut(data))
    for head, raw, body in outcome.messages[: outcome.whole]:
        _must(read_by_h11(h11.Connection(h11.SERVER), head + raw) == body, "h11 reads another body")
    return outcome


def check_answers(data: bytes) -> Outcome:
    """The promises for what a server sends; the first byte says to which method."""
    method = _METHODS[data[0] % len(_METHODS)] if data else "GET"
    outcome = _check(
        lambda reader, pieces: run(reader, pieces, method), lambda: ResponseReader(Heads(limit=LIMIT)), data[1:]
    )
    # h11 takes 101 only if somebody asked to switch; after CONNECT it waits for nothing more.
    if outcome.whole and method != "CONNECT" and outcome.messages[-1][0].split(b" ", 2)[1][:3] != b"101":
        raw = b"".join(head + raw for head, raw, _ in outcome.messages)
        _must(read_by_h11(asked(method), raw) == outcome.messages[-1][2], "h11 reads another body")
    return outcome


TARGETS: Final[dict[str, Callable[[bytes], Outcome]]] = {"requests": check_requests, "answers": check_answers}
_METHODS: Final = ("GET", "HEAD", "POST", "CONNECT")
_Reader = TypeVar("_Reader", RequestReader, ResponseReader)


def decoding(reader: _Reader) -> _Reader:
    """The same reader, with bodies decoded."""
    reader.decode = True
    return reader


def asked(method: str) -> h11.Connection:
    """h11 as a client that has sent a request."""
    connection = h11.Connection(h11.CLIENT)
    connection.send(h11.Request(method=method, target="/", headers=[("host", "x")]))
    connection.send(h11.EndOfMessage())
    return connection


def read_by_h11(connection: h11.Connection, data: bytes) -> bytes:
    """The body of one message, as h11 reads it by itself. It is told letters of a target that are not ASCII escaped."""
    line, end, rest = data.partition(b"\r\n")
    if connection.our_role is h11.SERVER:
        line = b"".join(bytes((byte,)) if byte < 0x80 else b"%%%02X" % byte for byte in line)
    connection.receive_data(line + end + rest)
    body = b""
    while type(event := connection.next_event()) is not h11.EndOfMessage:
        _must(event not in (h11.PAUSED, h11.NEED_DATA), "h11 sees no end")
        if type(event) is h11.Data:
            body += event.data
    _must(connection.trailing_data[0] == b"", "h11 sees an earlier end")
    return body


def cut(data: bytes) -> list[tuple[bytes, bytes]]:
    """Requests and their bodies, decoded, as a plain reading of RFC 9112 has them; only for right ones."""
    found: list[tuple[bytes, bytes]] = []
    while data:
        head, blank, rest = data.partition(b"\r\n\r\n")
        if not blank:
            break
        lowered = head.lower()
        length = re.search(rb"\r\ncontent-length:[ \t]*([0-9]+)[ \t]*(?:\r\n|\Z)", lowered)
        if re.search(rb"\r\ntransfer-encoding:[ \t]*chunked[ \t]*(?:\r\n|\Z)", lowered):
            body, rest_or_none = _dechunk(rest)
            if rest_or_none is None:
                found.append((head + blank, body))
                break
            rest = rest_or_none
        else:
            size = int(length[1]) if length else 0
            body, rest = rest[:size], rest[size:]
        found.append((head + blank, body))
        data = rest
    return found


def _dechunk(data: bytes) -> tuple[bytes, bytes | None]:
    body = b""
    while True:
        line, end, data = data.partition(b"\r\n")
        digits = re.match(rb"[0-9A-Fa-f]+", line)
        if not end or digits is None:
            return body, None
        size = int(digits[0], 16)
        if not size:
            break
        body, data = body + data[:size], data[size + 2 :]
    while True:
        line, end, data = data.partition(b"\r\n")
        if not end:
            return body, None
        if not line:
            return body, data


def _check(
    attempt: Callable[[_Reader, Iterable[bytes]], Outcome], fresh: Callable[[], _Reader], data: bytes
) -> Outcome:
    whole = attempt(decoding(fresh()), [data] if data else [])
    _must(data.startswith(whole.raw), "what came out is not what went in")
    if whole.status is None:
        _must(whole.raw + whole.rest == data, "bytes were lost")
    for size in (1, 7, 64):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        _must(attempt(decoding(fresh()), pieces) == whole, f"pieces of {size} bytes make a difference")
    for size in (7, len(data) or 1):
        pieces = [data[at : at + size] for at in range(0, len(data), size)]
        passed = attempt(fresh(), pieces)
        _must(passed.undecoded == whole.undecoded, f"decoding makes a difference, in pieces of {size} bytes")
    return whole


def _as_the_reference(outcome: Outcome, expected: list[tuple[bytes, bytes]]) -> None:
    """Bodies that did not come to their end may be shorter than the reference has them: their last bytes are held."""
    for number, (head, _raw, body) in enumerate(outcome.messages):
        _must(number < len(expected), f"message {number} is none")
        _must(head == expected[number][0], f"head {number} is cut differently")
        if number < outcome.whole:
            _must(body == expected[number][1], f"body {number} is cut differently")
        else:
            _must(expected[number][1].startswith(body), f"body {number} begins differently")
    if outcome.status is None and not outcome.rest:
        _must(len(outcome.messages) == len(expected), "a message is missing")
    _must(b"\r\n\r\n" not in outcome.rest or bool(outcome.messages), "a whole head was not seen")


def _drain(reader: RequestReader | ResponseReader, outcome: Outcome) -> None:
    while (item := reader.next()) is not None:
        if isinstance(item, BodyPart):
            outcome.messages[-1][1] += item.raw
            outcome.messages[-1][2] += item.data
            over = item.end
        else:
            outcome.messages.append([item.raw, b"", b""])
            over = item.framing is Framing.NONE and not (isinstance(item, ResponseHead) and item.interim)
        if over:
            outcome.whole += 1
            if isinstance(reader, RequestReader):
                reader.start_next()


def _stays_broken(reader: RequestReader | ResponseReader, fault: MalformedError) -> None:
    _must(not reader.buffered, "bytes are held after Malformed")
    reader.receive(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    try:
        reader.next()
    except MalformedError as again:
        _must(str(again) == str(fault) and again.status == fault.status and not reader.buffered, "the fault changed")
        return
    raise BrokenPromise("something came out after Malformed")


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise BrokenPromise(otherwise)
