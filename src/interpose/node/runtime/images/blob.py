"""A blob that is downloaded to the disk: its digest is checked after its last byte."""

import hashlib
from pathlib import Path
from typing import Final

from interpose.node.runtime.images.concurrency import Threads
from interpose.node.runtime.images.manifests import Descriptor
from interpose.node.runtime.images.types import Progress, PullPhase, PullProgress

# Bytes are handed to a thread in pieces of this size: the network gives them in smaller ones.
_PIECE: Final = 1 << 20


class BlobFile:
    """A file that a blob is written to, piece by piece. It can be reset."""

    def __init__(self, path: Path, blob: Descriptor, threads: Threads, progress: Progress) -> None:
        self.path = path
        self.size = 0
        self._blob = blob
        self._threads = threads
        self._progress = progress
        self._hash = hashlib.sha256()
        self._buffer = bytearray()
        self._file = path.open("xb")

    async def write(self, data: bytes) -> None:
        """Append bytes; they reach the file in larger pieces."""
        self._buffer += data
        self.size += len(data)
        if len(self._buffer) >= _PIECE:
            await self._flush()
            self._report_progress()

    async def reset(self) -> None:
        """Drop all bytes and begin again."""
        self._buffer.clear()
        self.size = 0
        self._hash = hashlib.sha256()
        self._file.seek(0)
        self._file.truncate()

    async def check(self) -> None:
        """Flush the file; ValueError if the digest or the size is wrong."""
        await self._flush()
        self._file.flush()
        self._report_progress()
        if f"sha256:{self._hash.hexdigest()}" != self._blob.digest or self.size != self._blob.size:
            raise ValueError(f"the content of blob {self._blob.digest} has another digest")

    def close(self) -> None:
        """Close the file, complete or not."""
        self._file.close()

    def _report_progress(self) -> None:
        progress = PullProgress(
            part=self._blob.digest, phase=PullPhase.DOWNLOADING, done=self.size, total=self._blob.size
        )
        self._progress(progress)

    async def _flush(self) -> None:
        buffer, self._buffer = self._buffer, bytearray()

        def put(_stopped: object) -> None:
            self._hash.update(buffer)
            self._file.write(buffer)

        if buffer:
            await self._threads.run(put)
