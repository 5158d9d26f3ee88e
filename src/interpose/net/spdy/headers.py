"""Header blocks of SPDY/3: names and values, compressed with all blocks that went the same way before.

Invariant: a block is never inflated to more than the limit. Blocks are packed in the order in which they are sent, and
every block that was received is unpacked, also of streams that are refused: the next one builds on it.

The dictionary is a fact of the protocol: each word with its length in front, most frequent last, then common values
run together. With any other byte no peer understands a header block, so the tests check its length and checksum.
"""

import zlib
from collections.abc import Mapping
from typing import Final

from interpose.net.spdy.frames import SpdyError

_WORDS: Final = (
    *("options", "head", "post", "put", "delete", "trace"),
    *("accept", "accept-charset", "accept-encoding", "accept-language", "accept-ranges", "age", "allow"),
    *("authorization", "cache-control", "connection", "content-base", "content-encoding", "content-language"),
    *("content-length", "content-location", "content-md5", "content-range", "content-type", "date", "etag", "expect"),
    *("expires", "from", "host", "if-match", "if-modified-since", "if-none-match", "if-range", "if-unmodified-since"),
    *("last-modified", "location", "max-forwards", "pragma", "proxy-authenticate", "proxy-authorization", "range"),
    *("referer", "retry-after", "server", "te", "trailer", "transfer-encoding", "upgrade", "user-agent", "vary", "via"),
    *("warning", "www-authenticate", "method", "get", "status", "200 OK", "version", "HTTP/1.1", "url", "public"),
    *("set-cookie", "keep-alive", "origin"),
)
_CODES: Final = (
    *(100, 101, 201, 202, 205, 206, 300, 302, 303, 304, 305, 306, 307, 402, 405, 406, 407, 408, 409, 410),
    *(411, 412, 413, 414, 415, 416, 417, 502, 504, 505),
)
_STATUSES: Final = (
    *("203 Non-Authoritative Information", "204 No Content", "301 Moved Permanently", "400 Bad Request"),
    *("401 Unauthorized", "403 Forbidden", "404 Not Found", "500 Internal Server Error", "501 Not Implemented"),
    "503 Service Unavailable",
)
_DATES: Final = "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
_VALUES: Final = (
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,"
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)


def _built() -> bytes:
    words = b"".join(len(word).to_bytes(4, "big") + word.encode("ascii") for word in _WORDS)
    rest = "".join((*map(str, _CODES), *_STATUSES, _DATES, _VALUES))
    return words + rest.encode("ascii")


DICTIONARY: Final = _built()


_LIMIT: Final = 1 << 16
_FIELDS: Final = 256


class HeaderPacker:
    """Compresses the header blocks that we send."""

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
    """Decompresses the header blocks that we receive."""

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
