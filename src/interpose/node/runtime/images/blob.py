"""A blob on its way to the disk: its digest is known when its last byte is written."""

import hashlib
from pathlib import Path
from typing import Final

from interpose.node.runtime.images.concurrency import Threads
from interpose.node.runtime.images.manifests import Descriptor
from interpose.node.runtime.images.types import Progress, PullPhase, PullProgress

# Bytes are handed to a thread in pieces of this size: the network gives them in smaller ones.
_PIECE: Final = 1 << 20


class BlobFile:
    """A file that a blob is written to, piece by piece. It can begin anew."""

    def __init__(self, path: Path, blob: Descriptor, threads: Threads, progress: Progress) -> None:
        self.path = path
        self.size = 0
        self._blob = blob
        self._threads = threads
        self._progress = progress
        self._hash = hashlib.sha256()
        self._held = bytearray()
        self._file = path.open("xb")

    async def write(self, data: bytes) -> None:
        """More of it."""
        self._held += data
        self.size += len(data)
        if len(self._held) >= _PIECE:
            await self._flush()
            self._tell()

    async def reset(self) -> None:
        """It begins anew."""
        self._held.clear()
        self.size = 0
        self._hash = hashlib.sha256()
        self._file.seek(0)
        self._file.truncate()

    async def check(self) -> None:
        """All of it is there; ValueError if it is something else."""
        await self._flush()
        self._file.flush()
        self._tell()
        if f"sha256:{self._hash.hexdigest()}" != self._blob.digest or self.size != self._blob.size:
            raise ValueError(f"the content of blob {self._blob.digest} has another digest")

    def close(self) -> None:
        """Whatever came of it."""
        self._file.close()

    def _tell(self) -> None:
        news = PullProgress(what=self._blob.digest, phase=PullPhase.DOWNLOADING, done=self.size, total=self._blob.size)
        self._progress(news)

    async def _flush(self) -> None:
        held, self._held = self._held, bytearray()

        def put(_stopped: object) -> None:
            self._hash.update(held)
            self._file.write(held)

        if held:
            await self._threads.run(put)
