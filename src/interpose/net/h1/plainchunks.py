"""Whole chunks with plain sizes: nearly all that chunked bodies are made of, and all that can come in great numbers.

A client may send chunks of one byte by the ten thousand, and nobody else is served meanwhile. So small chunks are read
by one expression, many at a time; `decoded`, for bodies that are held anyway, goes one by one. A plain size is one to
fifteen hexadecimal digits and CR LF: nobody who reads chunks at all reads that in another way.
"""

import re
from typing import Final

LAST: Final = b"0\r\n\r\n"
"""The end of a body without trailers."""

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


def passed(piece: bytes, at: int) -> int:
    """Where the first thing begins that is not a whole chunk with a plain size, or is the last one."""
    while True:
        small = _SMALL_CHUNKS.match(piece, at)
        if small is not None:
            at = small.end()
        data = _data(piece, at)
        if data is None:
            return at
        at = data.stop + 2


def decoded(piece: bytes, at: int, payload: list[bytes]) -> int:
    """The same, and `payload` gets the data."""
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
            payload.append(piece[data])
            stop = data.stop
        at = stop + 2


def _data(piece: bytes, at: int) -> slice | None:
    """Where the data is of the chunk that begins here, if all of it is there, it is plain and not the last."""
    line = _LINE.match(piece, at)
    if line is None:
        return None
    begin = line.end()
    stop = begin + int(line[1], 16)
    if stop == begin or piece[stop : stop + 2] != b"\r\n":
        return None
    return slice(begin, stop)
