"""Chunked bodies, piece by piece: what may go on as it came, and where the body ends.

Whole chunks with plain sizes are skipped by `skip_plain_chunks`. What is left is read step by step: chunks that a piece
cuts, lines that are more than a size, trailers. The latter two h11 is asked about, and they are counted.

A client may send chunks of one byte by the ten thousand, and no other client is served meanwhile. So small chunks are
skipped by one regular expression, many at a time; `decode_plain_chunks`, for bodies that are buffered anyway, goes one
by one. A plain size is one to fifteen hexadecimal digits and CR LF: every reader of chunks agrees on those.

Where h11, Go and others differ in what they let pass, nothing passes: sizes have at most 15 digits and no white space
around them, lines end with CR LF only, extensions are printable and short, trailers are checked as heads are.

Invariant: a byte of framing is given out only when its whole line is known to be right, and nothing after the first
wrong one: `fault` says what was wrong. So what goes out does not depend on how the bytes came in.
"""

import re
from enum import Enum, auto
from typing import Final

from interpose.net.h1.h11_check import BodyChecker
from interpose.net.h1.rules import FIELDS, Grammar, MalformedError, format_value

_SIZE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})(;[\t\x20-\x7e]*)?\r\n")
_LONGEST_LINE: Final = 1024
# Clients send no extensions; reading very many of them would keep other connections waiting.
_EXTENSIONS: Final = 1024
# Fields that say where a message ends, or which host is meant, come too late in a trailer.
_NOT_IN_TRAILERS: Final = (b"content-length", b"transfer-encoding", b"host", b"trailer", b"connection", b"upgrade")


class _At(Enum):
    SIZE = auto()
    DATA = auto()
    CR = auto()
    LF = auto()
    TRAILERS = auto()
    END = auto()


class ChunkedBody:
    """The reader of one chunked body."""

    __slots__ = ("_at", "_extensions", "_fields", "_grammar", "_held", "_left", "_limit", "_opinion", "_room", "fault")

    def __init__(self, grammar: Grammar, limit: int) -> None:
        self._grammar = grammar
        self._limit = limit
        self._opinion: BodyChecker | None = None
        self._at = _At.SIZE
        self._left = 0  # of the chunk at hand
        self._extensions = 0
        self._fields = 0  # of the trailers
        self._room = _LONGEST_LINE  # for the line at hand
        self._held = bytearray()  # that line, if it is not complete
        self.fault: MalformedError | None = None

    @property
    def ended(self) -> bool:
        """The last byte of the body was given out."""
        return self._at is _At.END

    @property
    def holding(self) -> int:
        """How many bytes were fed and not given out."""
        return len(self._held)

    def take_held(self) -> bytes:
        """Take the bytes that were fed and not given out."""
        held = bytes(self._held)
        self._held.clear()
        return held

    def feed(self, piece: bytes, start: int, payload: list[bytes] | None) -> tuple[bytes, int]:
        """Read on in a piece: the bytes to pass on, and where reading stopped. Data is appended to `payload`."""
        if self._held:
            return self._complete(piece, start, payload)
        good = start
        size = len(piece)
        try:
            while good < size and self._at is not _At.END:
                after = self._step(piece, good, payload)
                if after == good:
                    self._held += piece[good:]
                    break
                good = after
        except MalformedError as fault:
            self.fault = fault.with_traceback(None)
        stop = good if self._at is _At.END else size
        return (piece if good - start == size else piece[start:good]), stop

    def _complete(self, piece: bytes, start: int, payload: list[bytes] | None) -> tuple[bytes, int]:
        """Go on with the line that was cut; it goes out by itself, so that the rest of the piece need not be copied."""
        stop = piece.find(b"\n", start) + 1 or len(piece)
        self._held += piece[start:stop]
        if self._held[-1:] != b"\n" and len(self._held) < self._room:
            return b"", stop
        line = bytes(self._held)
        try:
            self._step(line, 0, payload)
        except MalformedError as fault:
            self.fault = fault.with_traceback(None)
            return b"", len(piece)
        self._held.clear()
        return line, stop

    def _step(self, piece: bytes, at: int, payload: list[bytes] | None) -> int:
        """Read one thing, or many chunks; where the next begins, or `at` again if the line is not complete."""
        match self._at:
            case _At.DATA:
                stop = min(at + self._left, len(piece))
                self._left -= stop - at
                if payload is not None:
                    payload.append(piece[at:stop])
                if not self._left:
                    if piece.startswith(b"\r\n", stop):
                        self._at = _At.SIZE
                        return stop + 2
                    self._at = _At.CR
                return stop
            case _At.CR:
                return self._end_of_data(piece, at, b"\r", _At.LF)
            case _At.LF:
                return self._end_of_data(piece, at, b"\n", _At.SIZE)
            case _At.SIZE:
                after = skip_plain_chunks(piece, at) if payload is None else decode_plain_chunks(piece, at, payload)
                if after > at:
                    return after
                if piece.startswith(LAST, at):
                    self._at = _At.END
                    return at + len(LAST)
                return self._size(piece, at)
            case _:
                return self._trailer(piece, at)

    def _end_of_data(self, piece: bytes, at: int, wanted: bytes, then: _At) -> int:
        found = piece[at : at + 1]
        if found != wanted:
            raise MalformedError(self._grammar.status, f"a chunk is followed by {format_value(found)}, not by CR LF")
        self._at = then
        return at + 1

    def _size(self, piece: bytes, at: int) -> int:
        found = _SIZE.match(piece, at, at + _LONGEST_LINE)
        if found is None:
            line = self._line(piece, at)
            if not line:
                return at
            raise MalformedError(self._grammar.status, f"the line before a chunk is {format_value(line)}")
        if found[2]:
            self._extension(found[2])
        self._left = int(found[1], 16)
        if self._left:
            self._at = _At.DATA
        else:
            self._at = _At.TRAILERS
            self._room = self._limit
        return found.end()

    def _extension(self, extension: bytes) -> None:
        """A chunk line that is more than a size. The size is plain; h11 reads the rest before a chunk of one byte."""
        self._extensions += 1
        if self._extensions > _EXTENSIONS:
            raise MalformedError(self._grammar.status, f"more than {_EXTENSIONS} chunks have extensions")
        self._get_checker().check(b"1%s\r\nx\r\n" % extension, end=False)

    def _trailer(self, piece: bytes, at: int) -> int:
        line = self._line(piece, at)
        if not line:
            return at
        if not line.endswith(b"\r\n"):
            raise MalformedError(self._grammar.status, "the trailers have a LF without CR")
        if line == b"\r\n":
            if self._fields:
                self._get_checker().check(line, end=True)
            self._at = _At.END
        else:
            self._field(line)
        self._room -= len(line)
        return at + len(line)

    def _field(self, line: bytes) -> None:
        self._fields += 1
        if self._fields > FIELDS:
            raise MalformedError(self._grammar.large, f"the trailers have more than {FIELDS} fields")
        name, _ = self._grammar.parse_field(line[:-2])
        if name in _NOT_IN_TRAILERS:
            raise MalformedError(self._grammar.status, f"{name.decode('ascii')} stands in the trailers")
        self._get_checker().check(line if self._fields > 1 else LAST[:3] + line, end=False)

    def _line(self, piece: bytes, at: int) -> bytes:
        """The line that begins here, with its end; empty if that is not known yet."""
        room = self._room
        stop = piece.find(b"\n", at, at + room) + 1
        if stop:
            return piece[at:stop]
        if len(piece) - at >= room:
            if self._at is _At.SIZE:
                raise MalformedError(self._grammar.status, f"the line before a chunk is longer than {room} bytes")
            raise MalformedError(self._grammar.large, f"the trailers are longer than {self._limit} bytes")
        return b""

    def _get_checker(self) -> BodyChecker:
        """The h11 check, for chunks that are more than plain. It need not see the others: all chunks are read alike."""
        if self._opinion is None:
            self._opinion = BodyChecker(self._limit, self._grammar.status)
        return self._opinion


LAST: Final = b"0\r\n\r\n"
_SMALL: Final = 256  # sizes below are read many at a time, or by table
_AT_ONCE: Final = 256  # what the expression has to remember while it matches is bounded by this
_LINE: Final = re.compile(rb"([0-9A-Fa-f]{1,15})\r\n")


def _digit(value: int) -> bytes:
    digit = b"%x" % value
    return digit if digit.isdigit() else b"[%s%s]" % (digit, digit.upper())


def _small_chunks() -> "re.Pattern[bytes]":
    """One to many whole chunks whose sizes have one or two digits that count."""
    ends = [b"\r\n.{%d}\r\n" % size for size in range(_SMALL)]
    firsts = []
    for first in range(1, 16):
        seconds = [_digit(second) + ends[16 * first + second] for second in range(16)]
        firsts.append(_digit(first) + b"(?:%s)" % b"|".join((ends[first], *seconds)))
    return re.compile(b"(?:0{0,12}(?:%s)){1,%d}" % (b"|".join(firsts), _AT_ONCE), re.DOTALL)


_SMALL_CHUNKS: Final = _small_chunks()
_SIZES: Final = {form % size: size for size in range(1, _SMALL) for form in (b"%x\r\n", b"%X\r\n")}


def skip_plain_chunks(piece: bytes, at: int) -> int:
    """Where the first thing begins that is not a whole chunk with a plain size, or is the last one."""
    while True:
        small = _SMALL_CHUNKS.match(piece, at)
        if small is not None:
            at = small.end()
        data = _data(piece, at)
        if data is None:
            return at
        at = data[1] + 2


def decode_plain_chunks(piece: bytes, at: int, payload: list[bytes]) -> int:
    """Like `skip_plain_chunks`, and append the data to `payload`."""
    known = _SIZES.get
    while True:
        begin = at + 3
        size = known(piece[at:begin])
        if size is None:
            begin = at + 4
            size = known(piece[at:begin])
        if size is not None:
            stop = begin + size
            if piece[stop : stop + 2] != b"\r\n":
                return at
            payload.append(piece[begin:stop])
        else:
            data = _data(piece, at)
            if data is None:
                return at
            begin, stop = data
            payload.append(piece[begin:stop])
        at = stop + 2


def _data(piece: bytes, at: int) -> tuple[int, int] | None:
    """Where the data is of the chunk that begins here, if all of it is there, it is plain and not the last."""
    line = _LINE.match(piece, at)
    if line is None:
        return None
    begin = line.end()
    stop = begin + int(line[1], 16)
    if stop == begin or piece[stop : stop + 2] != b"\r\n":
        return None
    return begin, stop
