"""The tar file of a layer without its file contents (tar-split): with it and the unpacked files the same tar file can
be rebuilt, to the last byte, so that the image keeps its id.

A compressed file of records: bytes as they were, or a piece of a file of the layer. Blocking: callers use threads.
"""

import gzip
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

from interpose.node.runtime.images.layers.merged_view import Parts
from interpose.node.runtime.images.layers.open_folder import OpenFolder

_HEAD: Final = struct.Struct(">cI")  # the kind of a record, and how long it is
_PIECE: Final = struct.Struct(">QQ")
_RAW: Final = b"R"
_FILE: Final = b"F"
_STEP: Final = 1 << 20


class TarSplitWriter:
    """Records a tar file while it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = gzip.GzipFile(path, "xb", compresslevel=1)
        self._records = bytearray()
        self._raw = bytearray()
        self._place: Parts = ()  # path of the file of the last piece
        self._offset = self._length = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end_record()
            self._file.write(self._records)
        finally:
            self._file.close()

    @property
    def size(self) -> int:
        """Bytes on the disk, after it was closed."""
        return self._path.stat().st_size

    def raw(self, data: bytes) -> None:
        """Record bytes that are in no file."""
        if self._length or len(self._raw) >= _STEP:
            self._end_record()
        self._raw += data

    def piece(self, place: Parts, offset: int, length: int) -> None:
        """Record a range of bytes of a file."""
        if self._length and self._place == place and self._offset + self._length == offset:
            self._length += length
            return
        self._end_record()
        self._place, self._offset, self._length = place, offset, length

    def _end_record(self) -> None:
        if self._raw:
            self._records += _HEAD.pack(_RAW, len(self._raw)) + self._raw
            self._raw.clear()
        if self._length:
            body = _PIECE.pack(self._offset, self._length) + os.fsencode("/".join(self._place))
            self._records += _HEAD.pack(_FILE, len(body)) + body
            self._length = 0
        if len(self._records) >= _STEP:
            self._file.write(self._records)
            self._records.clear()


def tar_bytes(split: Path, folder: Path) -> Iterator[bytes]:
    """Rebuild the tar file whose files are in a folder. OSError, EOFError or ValueError if that is not possible."""
    with gzip.GzipFile(split, "rb") as file, OpenFolder(folder) as folders:
        while head := file.read(_HEAD.size):
            if len(head) != _HEAD.size:
                raise EOFError
            kind, length = _HEAD.unpack(head)
            body = file.read(length)
            if len(body) != length:
                raise EOFError
            if kind == _RAW:
                yield body
            else:
                if length <= _PIECE.size:
                    raise ValueError("a record without a file")
                offset, size = _PIECE.unpack(body[: _PIECE.size])
                place = tuple(os.fsdecode(body[_PIECE.size :]).split("/"))
                yield from _read(folders.at(place[:-1]), place[-1], offset, size)


def _read(folder: int, name: str, offset: int, length: int) -> Iterator[bytes]:
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with os.fdopen(os.open(name, flags, dir_fd=folder), "rb", buffering=0) as file:
        file.seek(offset)
        left = length
        while left:
            data = file.read(min(left, _STEP))
            if not data:
                raise EOFError
            left -= len(data)
            yield data
