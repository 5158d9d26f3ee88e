"""Tar files from others, read once from front to back with bounded memory.

`tarfile` does the formats (ustar, GNU, pax, sparse), and reads what it is told to; here is what it reads from, which
lets headers cost only so much. Compression is recognised by the first bytes, whatever a media type says.
"""

import gzip
import hashlib
import importlib
import tarfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any, Final, Protocol

# Headers of one entry: names, extended attributes, the map of a sparse file.
_MOST_HEADER: Final = 1 << 20
_MOST_GLOBALS: Final = 1000
_STEP: Final = 1 << 18
_GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
_XZ: Final = b"\xfd7zXZ"
_BZIP2: Final = b"BZh"
_REFUSED: Final = ((_XZ, "xz"), (_BZIP2, "bzip2"))

# All that the modules below say about bytes they cannot read.
BROKEN: Final = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, RecursionError, OverflowError, UnicodeError)


class Readable(Protocol):
    """Bytes from the front to the end."""

    def read(self, size: int, /) -> bytes:
        """At most so many; empty at the end."""


class StoppedError(Exception):
    """Somebody does not want it any more."""


def decompressed(file: IO[bytes]) -> Readable:
    """The bytes behind gzip or zstd, or the file itself; ValueError for what cannot be read here."""
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
    """What a TarFile reads from: forwards only, counted, hashed, and with a bound on what headers take."""

    def __init__(
        self,
        source: Readable,
        *,
        limit: int,
        stopped: Callable[[], bool],
        record: Callable[[bytes], None] | None = None,
    ) -> None:
        """`record` is given all bytes but the data of files that is read by `data_of`."""
        self._source = source
        self._record = record
        self._limit = limit
        self._stopped = stopped
        self._hash = hashlib.sha256()
        self._at = 0
        self._room: int | None = None  # for the headers of the next entry
        self._header = b""  # what was read last of them
        self._in_data = False

    @property
    def digest(self) -> str:
        """Of all that was read."""
        return "sha256:" + self._hash.hexdigest()

    @property
    def size(self) -> int:
        """How much was read."""
        return self._at

    def header_begins(self) -> None:
        """What is read from now on is kept in memory."""
        self._room = _MOST_HEADER

    def header_ended(self) -> None:
        """What is read from now on goes to a file."""
        self._room = None

    def read(self, size: int = -1, /) -> bytes:
        """As many bytes as wanted, fewer only at the end."""
        if self._room is not None:
            self._room -= size
            if size < 0 or self._room < 0:
                raise ValueError(f"an entry has headers of more than {_MOST_HEADER} bytes")
        parts = []
        while size > 0 and (data := self._next(min(size, _STEP))):
            parts.append(data)
            size -= len(data)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        if self._room is not None:
            self._header = data
        return data

    def read_data(self, size: int) -> bytes:
        """The same, of a file: whoever records gets that from the file."""
        self._in_data = True
        try:
            return self.read(size)
        finally:
            self._in_data = False

    def check_end(self) -> None:
        """ValueError unless what was read last is where a tar file ends: nothing any more, or two empty blocks.

        `tarfile` takes every header it cannot read for the end, and all that comes after it would be missing.
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
        """Go forwards: what lies between is read and counted."""
        if whence != 0 or position < self._at:
            raise ValueError("its entries overlap")
        while self._at < position and self._next(min(position - self._at, _STEP)):
            pass
        return self._at

    def moved(self, position: int) -> int:
        """The source was moved to this place."""
        self._at = position
        return position

    def tell(self) -> int:
        """Where the next byte is."""
        return self._at

    def drain(self) -> None:
        """Read to the end: the digest is that of everything."""
        while self._next(_STEP):
            pass


def data_of(source: TarBytes, member: tarfile.TarInfo) -> Iterator[tuple[int, bytes]]:
    """The data of the entry that came last, in pieces with their places; what is between them is a hole."""
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
    """The entries, one after the other; data of one can be read until the next is asked for."""
    source.header_begins()
    with tarfile.open(fileobj=source, mode="r:", errors="surrogateescape") as tar:  # type: ignore[call-overload]
        count = 0
        while (member := tar.next()) is not None:
            tar.members.clear()  # nobody asks for them, and there may be many
            source.header_ended()
            count += 1
            if count > most:
                raise ValueError(f"it has more than {most} entries")
            if len(tar.pax_headers) > _MOST_GLOBALS:
                raise ValueError(f"it has more than {_MOST_GLOBALS} global headers")
            yield member
            source.header_begins()
        source.check_end()
        source.header_ended()
    source.drain()
