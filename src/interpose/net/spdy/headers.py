"""Header blocks of SPDY/3: names and values, compressed with all blocks that went the same way before.

Invariant: a block is never inflated to more than the limit. Blocks are packed in the order in which they are sent, and
every block that came is unpacked, also of streams that are refused: the next one builds on it.
"""

import zlib
from collections.abc import Mapping
from typing import Final

from interpose.net.spdy.frames import SpdyError
from interpose.net.spdy.spdydictionary import DICTIONARY

_LIMIT: Final = 1 << 16
_FIELDS: Final = 256


class HeaderPacker:
    """The blocks that we send."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(zdict=DICTIONARY)

    def pack(self, headers: Mapping[str, str]) -> bytes:
        """A block. Names are sent in lower case, as they must be."""
        plain = bytearray(len(headers).to_bytes(4, "big"))
        for name, value in headers.items():
            for text in (name.lower(), value):
                raw = text.encode("latin-1")
                plain += len(raw).to_bytes(4, "big") + raw
        return self._zlib.compress(bytes(plain)) + self._zlib.flush(zlib.Z_SYNC_FLUSH)


class HeaderUnpacker:
    """The blocks that come."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._zlib = zlib.decompressobj(zdict=DICTIONARY)
        self._limit = limit

    def unpack(self, block: bytes) -> dict[str, str]:
        """Names, in lower case, and values. Several values of a name have a NUL between them."""
        try:
            plain = self._zlib.decompress(block, self._limit + 1)
        except zlib.error as error:
            raise SpdyError(f"a header block cannot be inflated: {error}") from None
        if len(plain) > self._limit:
            raise SpdyError(f"a header block has more than {self._limit} bytes")
        if self._zlib.eof:
            raise SpdyError("a header block ends the compression that the next one builds on")
        return _read(plain)


def _read(plain: bytes) -> dict[str, str]:
    count, at = _number(plain, 0)
    if count > _FIELDS:
        raise SpdyError(f"a header block says that it has {count} fields, more than {_FIELDS}")
    headers: dict[str, str] = {}
    for _ in range(count):
        name, at = _text(plain, at)
        value, at = _text(plain, at)
        name = name.lower()
        if not name or name in headers:
            raise SpdyError(f"a header block has a name that is empty or there twice: {name[:40]!r}")
        headers[name] = value
    if at != len(plain):
        raise SpdyError(f"a header block has {len(plain) - at} bytes after its last field")
    return headers


def _number(plain: bytes, at: int) -> tuple[int, int]:
    if at + 4 > len(plain):
        raise SpdyError("a header block is cut off")
    return int.from_bytes(plain[at : at + 4], "big"), at + 4


def _text(plain: bytes, at: int) -> tuple[str, int]:
    size, at = _number(plain, at)
    if at + size > len(plain):
        raise SpdyError("a header block is cut off")
    return plain[at : at + size].decode("latin-1"), at + size
