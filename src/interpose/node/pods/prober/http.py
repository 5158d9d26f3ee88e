"""What a container answers to a GET, read as kubelets read it: forgiving, up to a limit, no further than needed. Pure.

A health endpoint may be a shell script: lines may end without a carriage return, a field may go on in the next line,
a length may be said twice, and chunks win over a length. `h1` refuses all that, for it stands between two who must not
read the same bytes differently; here nobody reads them after us.

Invariant: the answer, or what is wrong with it, does not depend on how the bytes were cut.
"""

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias, TypeVar

from interpose.core.model.text import quoted

LARGEST_HEAD: Final = 1 << 20  # of all heads together, those of interim answers too
_LONGEST_CHUNK_LINE: Final = 4096
_START: Final = b"HTTP/"
_STATUS_LINE: Final = re.compile(rb"HTTP/([0-9]\.[0-9]) +([1-9][0-9]{2})(?: .*)?")
_LENGTH: Final = re.compile(rb"0*([0-9]{1,18})")
_SIZE: Final = re.compile(rb"[0-9A-Fa-f]{1,16}")
_SPACE: Final = b" \t"
_SWITCHING: Final = 101  # the only one below 200 that nothing follows
_BODILESS: Final = frozenset((_SWITCHING, 204, 304))

_T = TypeVar("_T")
_Steps: TypeAlias = Generator[None, None, _T]  # each step waits for more bytes


class HttpAnswerError(ValueError):
    """There is no answer, or it is none of HTTP."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpAnswer:
    """The status, the beginning of the body, and the place that is said to be asked instead."""

    status: int
    body: bytes
    location: str = ""

    @property
    def good(self) -> bool:
        """Whether it counts as a success."""
        return 200 <= self.status < 400


class AnswerReader:
    """Takes bytes as they come, until there is an answer."""

    def __init__(self, largest_body: int) -> None:
        self._inbox = _Inbox()
        self._reading = _answer(self._inbox, largest_body)

    def receive(self, data: bytes) -> HttpAnswer | None:
        """The answer; None: more bytes are needed. No bytes are the end of the connection. Raises BadAnswerError.

        After an answer or an error it is over.
        """
        self._inbox.held += data
        self._inbox.ended = not data
        try:
            next(self._reading)
        except StopIteration as done:
            answer: HttpAnswer = done.value
            return answer
        return None


class _Inbox:
    """Bytes that were received and not used."""

    def __init__(self) -> None:
        self.held = bytearray()
        self.used = 0
        self.ended = False

    def more(self) -> _Steps[None]:
        if self.ended:
            raise _bad("the connection ended in the middle of it")
        yield

    def take(self, count: int) -> _Steps[bytes]:
        while len(self.held) < count:
            yield from self.more()
        return self._cut(count)

    def head_line(self) -> _Steps[bytes]:
        return self.line(LARGEST_HEAD - self.used, "head")

    def line(self, longest: int, of: str) -> _Steps[bytes]:
        """A line without its end. Bytes that were searched are not searched again."""
        searched = 0
        while (end := self.held.find(b"\n", searched, longest)) < 0:
            searched = len(self.held)
            if searched >= longest:
                raise _bad(f"its {of} is too long")
            yield from self.more()
        return self._cut(end + 1)[:-1].removesuffix(b"\r")

    def _cut(self, count: int) -> bytes:
        data = bytes(self.held[:count])
        del self.held[:count]
        self.used += count
        return data


class _Head(NamedTuple):
    version: bytes
    status: int
    fields: list[tuple[bytes, bytes]]  # names in lower case

    def values(self, name: bytes) -> list[bytes]:
        return [value for found, value in self.fields if found == name]


def _answer(inbox: _Inbox, largest_body: int) -> _Steps[HttpAnswer]:
    head = yield from _head(inbox)
    while head.status < 200 and head.status != _SWITCHING:
        head = yield from _head(inbox)
    body = yield from _body(inbox, head, largest_body)
    location = next(iter(head.values(b"location")), b"")
    return HttpAnswer(status=head.status, body=body, location=location.decode("latin-1"))


def _head(inbox: _Inbox) -> _Steps[_Head]:
    # Who speaks another protocol may wait for us to say something, and never end the line.
    while len(inbox.held) < len(_START) and _START.startswith(inbox.held):
        if inbox.ended and not inbox.held:
            raise HttpAnswerError("the connection was closed without an answer")
        yield from inbox.more()
    if not inbox.held.startswith(_START):
        raise _bad("it does not begin with HTTP/")
    line = yield from inbox.head_line()
    match = _STATUS_LINE.fullmatch(line)
    if match is None:
        raise _bad(f"{_quote(line)} is not a status line")
    fields = yield from _fields(inbox)
    return _Head(match[1], int(match[2]), fields)


def _fields(inbox: _Inbox) -> _Steps[list[tuple[bytes, bytes]]]:
    lines: list[list[bytes]] = []  # each with those that continue it
    while line := (yield from inbox.head_line()):
        if lines and line[0] in _SPACE:
            lines[-1].append(line.strip(_SPACE))
        elif b":" in line:
            lines.append([line])
        else:
            raise _bad(f"{_quote(line)} is not a header")
    parts = (b" ".join(line).partition(b":") for line in lines)
    return [(name.lower(), value.strip(_SPACE)) for name, _, value in parts]


def _body(inbox: _Inbox, head: _Head, largest: int) -> _Steps[bytes]:
    if head.status in _BODILESS:
        return b""
    if _is_chunked(head):
        return (yield from _chunks(inbox, largest))
    length = _length(head)
    if length is not None:
        return (yield from inbox.take(min(length, largest)))
    while len(inbox.held) < largest and not inbox.ended:
        yield
    return bytes(inbox.held[:largest])


def _is_chunked(head: _Head) -> bool:
    codings = head.values(b"transfer-encoding")
    if not codings or head.version < b"1.1":  # before, there were no chunks, whatever is said
        return False
    if [coding.lower() for coding in codings] != [b"chunked"]:
        raise _bad(f"Transfer-Encoding {_quote(b', '.join(codings))} is not chunked")
    return True


def _length(head: _Head) -> int | None:
    values = head.values(b"content-length")
    if not values:
        return None
    match = _LENGTH.fullmatch(values[0])
    if match is None or len(set(values)) > 1:
        raise _bad(f"Content-Length {_quote(b', '.join(values))} is not a number")
    return int(match[1])


def _chunks(inbox: _Inbox, largest: int) -> _Steps[bytes]:
    """Up to the last chunk; what follows it has no bearing."""
    body = b""
    while len(body) < largest:
        line = yield from inbox.line(_LONGEST_CHUNK_LINE, "line before a chunk")
        size = line.partition(b";")[0].strip(_SPACE)
        if not _SIZE.fullmatch(size):
            raise _bad(f"{_quote(line)} is not a size of a chunk")
        count = int(size, 16)
        if not count:
            break
        body += yield from inbox.take(min(count, largest - len(body)))
        if len(body) < largest and (yield from inbox.line(_LONGEST_CHUNK_LINE, "line after a chunk")):
            raise _bad("a chunk does not end where it should")
    return body


def _quote(data: bytes) -> str:
    return quoted(data.decode("latin-1"))


def _bad(words: str) -> HttpAnswerError:
    return HttpAnswerError(f"not an HTTP answer: {words}")
