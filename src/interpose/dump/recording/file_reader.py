"""One file of a recording, to be read: from its beginning, or at places that its index names.

Reads with offsets on one descriptor: the file may be renamed meanwhile, and several readers do not disturb each other.
What is held is one piece of the file and one frame.
"""

import errno
import os
import shutil
import stat
import tempfile
import weakref
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from interpose.dump.model.call import NO_SUBJECT, SESSION, Assembler, Identify, Learn
from interpose.dump.model.frame_reader import Damage, FrameStream, PlacedFrame
from interpose.dump.model.frames import (
    HEAD,
    VERSION,
    DamagedFrameError,
    Dropped,
    Header,
    Index,
    Message,
    Trailer,
    decode,
    encode,
    frame_size,
)
from interpose.dump.recording.files import bad_beginning
from interpose.dump.recording.index import IndexBuilder, IndexRow, read_index
from interpose.errors import ConfigError

PIECE: Final = 1 << 20
STDIN: Final = "-"
EMPTY: Final = "the file is empty: nothing was written yet, or the disk was full"
_TRAILER_BYTES: Final = len(encode(Trailer(index_at=0)))

# Is told of what was known when a file began; goes with Identify.


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """What reading a whole file tells without looking into messages."""

    rows: list[IndexRow]
    frames: int
    message_bytes: int
    dropped: int  # frames
    dropped_bytes: int


class RecordingFile:
    """An open file. ConfigError if it cannot be read, is not a recording, or is of a version that we do not know."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.damage: list[Damage] = []  # found when it was read last
        self.damaged = 0  # places, also those that `damage` does not name
        self.unknown = 0  # frames of a later version
        self._fd = _open(str(path))
        self._close = weakref.finalize(self, os.close, self._fd)
        try:
            self.header = self._read_header()
        except BaseException:
            self._close()
            raise

    @property
    def size(self) -> int:
        """The size of the file in bytes at this time."""
        return os.fstat(self._fd).st_size

    @property
    def session(self) -> str:
        """Which relay process it is of."""
        return str(self.header.facts.get(SESSION, ""))

    def close(self) -> None:
        self._close()

    def placed(self, begin: int = 0, end: int | None = None) -> Iterator[PlacedFrame]:
        """Frames from one offset to another, with their places. `damage` is about what was read by then."""
        stream = FrameStream(at=begin)
        at = begin
        self.damage, self.damaged, self.unknown = [], 0, 0
        while piece := self._read(at, PIECE if end is None else min(PIECE, end - at)):
            at += len(piece)
            yield from stream.feed_placed(piece)
        yield from stream.finish_placed()
        self.damage = [replace(damage, file=str(self.path)) for damage in stream.damage]
        self.damaged, self.unknown = stream.damaged, stream.unknown
        if at == 0:
            self.damage, self.damaged = [Damage(offset=0, size=0, why=EMPTY, file=str(self.path))], 1

    def rows(self) -> list[IndexRow] | None:
        """The calls by the index, without reading anything else; None if there is no intact one."""
        try:
            trailer, _ = decode(self._read(max(0, self.size - _TRAILER_BYTES), _TRAILER_BYTES))
            if not isinstance(trailer, Trailer):
                return None
            size = frame_size(self._read(trailer.index_at, HEAD.size))
            if size is None or trailer.index_at + size + _TRAILER_BYTES != self.size:
                return None
            index, _ = decode(self._read(trailer.index_at, size))
            return read_index(index.facts) if isinstance(index, Index) else None
        except (DamagedFrameError, EOFError, ValueError, OverflowError, OSError):
            return None

    def scan(self, identify: Identify | None = None, learn: Learn | None = None) -> Scan:
        """Read all of it, to know the same as an index and more."""
        builder = IndexBuilder(max_calls=1 << 62)
        assembler = Assembler(identify, learn, kept_messages=2)
        frames = message_bytes = dropped = dropped_bytes = 0
        for placed in self.placed():
            frame = placed.frame
            frames += 1
            if isinstance(frame, Message):
                message_bytes += frame.size
            elif isinstance(frame, Dropped):
                dropped += frame.frames
                dropped_bytes += frame.size
            flow = None if identify is None else assembler.feed(frame).flow
            builder.add(frame, placed.begin, placed.end, NO_SUBJECT if flow is None else flow.subject)
        return Scan(
            rows=list(builder.rows()),
            frames=frames,
            message_bytes=message_bytes,
            dropped=dropped,
            dropped_bytes=dropped_bytes,
        )

    def _read(self, at: int, size: int) -> bytes:
        try:
            return os.pread(self._fd, size, at) if size > 0 else b""
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path)) from None

    def _read_header(self) -> Header:
        beginning = self._read(0, PIECE)
        stream = FrameStream()
        frames = [*stream.feed(beginning), *stream.finish()]
        if not frames and (strange := bad_beginning(beginning)):
            raise ConfigError(f"{self.path}: {strange}")
        header = frames[0] if frames and isinstance(frames[0], Header) else Header(facts={})
        check_version(self.path, header)
        return header


def check_version(path: Path, header: Header) -> None:
    """ConfigError if it takes a newer program to read this."""
    version = header.facts.get("version", VERSION)
    if not isinstance(version, int) or version > VERSION:
        raise ConfigError(
            f"{path}: a recording of version {version!r}; this program reads up to {VERSION}, use a newer one"
        )


def _open(path: str) -> int:
    """A descriptor that can be read at any offset; what comes through a pipe is copied to a file without a name."""
    if path == STDIN:
        return _copied(0)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise ConfigError(f"{path}: there is no such file") from None
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    mode = os.fstat(fd).st_mode
    if stat.S_ISREG(mode):
        return fd
    try:
        if stat.S_ISDIR(mode):
            raise ConfigError(f"{path}: cannot be read: {os.strerror(errno.EISDIR)}")
        return _copied(fd)
    finally:
        os.close(fd)


def _copied(source: int) -> int:
    with tempfile.TemporaryFile() as copy, open(source, "rb", closefd=False) as file:
        shutil.copyfileobj(file, copy, PIECE)
        copy.flush()
        return os.dup(copy.fileno())
