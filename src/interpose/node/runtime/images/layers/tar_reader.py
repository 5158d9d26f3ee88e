"""Untrusted tar files, read once from front to back with bounded memory.

`tarfile` parses the formats (ustar, GNU, pax, sparse); this module is the stream it reads from, which limits the size
of headers. Compression is recognised by the first bytes, whatever a media type says.
"""

import gzip
import hashlib
import importlib
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, Final, Protocol

# Headers of one entry: names, extended attributes, the map of a sparse file.
_MAX_HEADER: Final = 1 << 20
_MAX_GLOBALS: Final = 1000
_STEP: Final = 1 << 18
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_XZ: Final = b"\xfd7zXZ"
_BZIP2: Final = b"BZh"
_REFUSED: Final = ((_XZ, "xz"), (_BZIP2, "bzip2"))

# All errors of these modules about bytes they cannot read.
BROKEN: Final = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, RecursionError, OverflowError, UnicodeError)


class Readable(Protocol):
    """A stream of bytes."""

    def read(self, size: int, /) -> bytes:
        """At most `size` bytes; empty at the end."""


class StoppedError(Exception):
    """The caller asked to stop."""


def decompress(file: IO[bytes]) -> Readable:
    """The decompressed bytes of gzip or zstd, or the file itself; ValueError for other compressions."""
    head = file.read(6)
    file.seek(0)
    if head.startswith(_GZIP):
        return gzip.GzipFile(fileobj=file, mode="rb")
    if head.startswith(_ZSTD):
        return _zstd(file)
    for mark, name in _REFUSED:
        if head.startswith(mark):
            raise ValueError(f"it is compressed with {name}, which is not supported: use gzip")
    return file


def _zstd(file: IO[bytes]) -> Readable:
    try:
        zstd: Any = importlib.import_module("compression.zstd")
    except ImportError:
        raise ValueError(
            "it is compressed with zstd, which this Python cannot read (3.14 and later can): use gzip"
        ) from None
    opened: Readable = zstd.ZstdFile(file)
    return opened


class TarBytes:
    """The stream of a TarFile: forwards only, counted, hashed, and with a limit for headers."""

    def __init__(
        self,
        source: Readable,
        *,
        limit: int,
        stopped: Callable[[], bool],
        record: Callable[[bytes], None] | None = None,
    ) -> None:
        """`record` is called with all bytes but the file data that `data_of` reads."""
        self._source = source
        self._record = record
        self._limit = limit
        self._stopped = stopped
        self._hash = hashlib.sha256()
        self._at = 0
        self._room: int | None = None  # bytes left for the headers of the next entry
        self._header = b""  # the last read of them
        self._in_data = False

    @property
    def digest(self) -> str:
        """The digest of all bytes that were read."""
        return "sha256:" + self._hash.hexdigest()

    @property
    def size(self) -> int:
        """The number of bytes that were read."""
        return self._at

    def begin_header(self) -> None:
        """Reads from now on are headers, which are kept in memory: they have a limit."""
        self._room = _MAX_HEADER

    def end_header(self) -> None:
        """Reads from now on are file data."""
        self._room = None

    def read(self, size: int = -1, /) -> bytes:
        """Exactly `size` bytes, fewer only at the end."""
        if self._room is not None:
            self._room -= size
            if size < 0 or self._room < 0:
                raise ValueError(f"an entry has headers of more than {_MAX_HEADER} bytes")
        parts = []
        while size > 0 and (data := self._next(min(size, _STEP))):
            parts.append(data)
            size -= len(data)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if self._room is not None:
            self._header = data
        return data

    def read_data(self, size: int) -> bytes:
        """As `read`, for file data: it is not recorded."""
        self._in_data = True
        try:
            return self.read(size)
        finally:
            self._in_data = False

    def check_end(self) -> None:
        """ValueError unless the last read was the end of a tar file: no more bytes, or two empty blocks.

        `tarfile` takes every header it cannot read for the end, and all entries after it would be missing.
        """
        if any(self._header) or (self._header and any(self.read(tarfile.BLOCKSIZE))):
            raise ValueError(f"it is damaged or cut off: there is no header at byte {self._at - len(self._header)}")

    def _next(self, size: int) -> bytes:
        if self._stopped():
            raise StoppedError
        data = self._source.read(size)
        self._hash.update(data)
        if self._record is not None and not self._in_data:
            self._record(data)
        self._at += len(data)
        if self._at > self._limit:
            raise ValueError(f"it is larger than {self._limit} bytes when unpacked")
        return data

    def seek(self, position: int, whence: int = 0, /) -> int:
        """Go forwards: the bytes in between are read and counted."""
        if whence != 0 or position < self._at:
            raise ValueError("its entries overlap")
        while self._at < position and self._next(min(position - self._at, _STEP)):
            pass
        return self._at

    def set_position(self, position: int) -> int:
        """Note that the source was moved to this position."""
        self._at = position
        return position

    def tell(self) -> int:
        """The position of the next byte."""
        return self._at

    def drain(self) -> None:
        """Read to the end: the digest is that of the whole stream."""
        while self._next(_STEP):
            pass


def data_of(source: TarBytes, member: tarfile.TarInfo) -> Iterator[tuple[int, bytes]]:
    """The data of the last entry, in pieces with their offsets; the ranges between them are holes."""
    blocks: Any = member.sparse if member.sparse is not None else ((0, member.size),)
    source.seek(member.offset_data)
    for offset, length in blocks:
        at, end = offset, offset + length
        while at < end:
            data = source.read_data(min(end - at, _STEP))
            if not data:
                raise ValueError("it ends in the middle of a file")
            yield at, data
            at += len(data)


def entries(source: TarBytes, *, most: int) -> Iterator[tarfile.TarInfo]:
    """The entries, at most `most`; data of an entry can be read until the next one is requested."""
    source.begin_header()
    with tarfile.open(fileobj=source, mode="r:", errors="surrogateescape") as tar:  # type: ignore[call-overload]
        count = 0
        while (member := tar.next()) is not None:
            tar.members.clear()  # they are not used, and there may be many
            source.end_header()
            count += 1
            if count > most:
                raise ValueError(f"it has more than {most} entries")
            if len(tar.pax_headers) > _MAX_GLOBALS:
                raise ValueError(f"it has more than {_MAX_GLOBALS} global headers")
            yield member
            source.begin_header()
        source.check_end()
        source.end_header()
    source.drain()
