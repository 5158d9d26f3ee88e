"""A file that grows by whole records, with a buffer of our own.

The buffered files of the library keep what they could not write and fail with it again and again, and do not say what
it was. Here a failure says how many records are lost, and the file ends behind the last whole one if the system lets
us have it so.
"""

import os
from contextlib import suppress
from typing import Final

BUFFER_BYTES: Final = 256 << 10


class OutFile:
    """Takes over a descriptor that was opened for appending."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.size = os.fstat(fd).st_size  # with what is in the buffer
        self.lost = 0  # records; the owner may set it back
        self.lost_bytes = 0
        self._records: list[bytes] = []
        self._held = 0

    def add(self, record: bytes) -> None:
        """One more record; OSError if the buffer was full and could not be written, this record then is lost, too."""
        self._records.append(record)
        self._held += len(record)
        self.size += len(record)
        if self._held >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand what is in the buffer to the system. OSError: some of it is lost, which is counted."""
        if not self._records:
            return
        records, self._records = self._records, []
        begin, self._held = self.size - self._held, 0
        written = 0
        try:
            with memoryview(b"".join(records)) as data:
                while written < len(data):
                    written += os.write(self.fd, data[written:])
        except OSError:
            self._cut(records, begin, written)
            raise

    def close(self, *, sync: bool) -> None:
        """Give the descriptor back; OSError of what was still to do. What is in the buffer is lost: flush first."""
        try:
            if sync:
                os.fsync(self.fd)
        finally:
            os.close(self.fd)

    def _cut(self, records: list[bytes], begin: int, written: int) -> None:
        whole = 0
        for index, record in enumerate(records):
            if whole + len(record) > written:
                self.lost += len(records) - index
                self.lost_bytes += sum(map(len, records[index:]))
                break
            whole += len(record)
        with suppress(OSError):
            os.ftruncate(self.fd, begin + whole)
        self.size = begin + written
        with suppress(OSError):
            self.size = os.fstat(self.fd).st_size
