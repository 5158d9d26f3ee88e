"""Writes a recording: a file of frames that is readable up to its last whole frame at any time, and rotated when full.

A file begins with HEADER, CONTEXT and a BEGIN for each call that is in flight, so it can be read without those before
it, and ends with INDEX and TRAILER if it is closed in order. What files are called and who may rename them is in
`fileset`. At most about half of a file is such a beginning, so that there is room for what comes: the calls and names
that were not heard of for longest are left out. Whether a call is over whose END was lost cannot be known; those that
were in flight when frames were dropped, and have not been heard of since, are left out first.

Invariant: nothing here raises once the first file is open. A disk that is full or gone is an `error` until it works
again; meanwhile frames are counted as lost, and the recording says so when it goes on. The owner calls `flush` at least
once a second and when there is nothing to do, and logs `error` when it changes.
"""

import errno
import os
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from interpose.dump.model.call import CALLS, KEPT_CALLS, NO_SUBJECT, SESSION, Subject, subjects_to_facts
from interpose.dump.model.frames import (
    MAX_PAYLOAD,
    VERSION,
    Begin,
    Context,
    Dropped,
    End,
    Flags,
    Frame,
    Header,
    Index,
    Message,
    Packing,
    Trailer,
    encode,
)
from interpose.dump.recording.files import create_file, open_new, remove_surplus, replace_open_file
from interpose.dump.recording.index import ROW_BYTES, IndexBuilder

BUFFER_BYTES: Final = 256 << 10


class BufferedFile:
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


FORMAT: Final = "crirec"
MAX_BYTES: Final = 128 << 20
FILES: Final = 8
# Seconds until writing is tried again.
RETRY: Final = 5.0
# Smaller bodies gain too little to be worth the time.
LEAST_PACKED: Final = 512
# Of a file may be names that are known, and as much may be calls in flight.
_QUARTER: Final = 4
# With these a new file would not do any better, and old ones must not be pushed out by empty ones.
_DISK_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
# A member of an enumeration takes longer to look up than all else that is done with it here.
_PLAIN: Final = Packing.PLAIN
_ZLIB: Final = Packing.ZLIB


class RecordingWriter:
    """Writes to `path`, in files of about `max_bytes` (0: no limit), of which the newest `files` are kept.

    The constructor raises ConfigError if `path` is something else than a recording, OSError if it cannot be made.
    `context` says what a reader has to know that begins with the next file. `clock` counts seconds, `now` tells
    nanoseconds since the epoch.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        header_facts: Mapping[str, Any],
        max_bytes: int = MAX_BYTES,
        files: int = FILES,
        context: Callable[[], Mapping[str, Any]] = dict,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], int] = time.time_ns,
    ) -> None:
        self.path = Path(path)
        self.error: OSError | None = None  # why nothing can be written just now
        self.lost = 0  # frames
        self.written = 0  # frames, also those in the buffer
        self.rotations = 0
        self._facts = dict(header_facts)
        self._max_bytes = max_bytes
        self._files = files
        self._context = context
        self._clock = clock
        self._now = now
        self._retry_at = 0.0  # when writing may be tried again
        self._unreported = (0, 0)  # frames and bytes that are lost and not in a DROPPED frame yet
        self._calls: dict[int, tuple[Begin, Subject]] = {}  # in flight
        self._doubtful: dict[int, None] = {}  # those that may be over
        self._limit = max_bytes  # of this file
        self._fresh = True  # the file has nothing but its beginning
        self._closed = False
        self._out: BufferedFile | None = BufferedFile(open_new(self.path))
        self._index: IndexBuilder | None = IndexBuilder()
        # One that was there when we came is kept in any case: nobody expects a start to remove a recording.
        with suppress(OSError):
            remove_surplus(self.path, max(files - 1, 1))
        self._attempt(self._introduce)

    @property
    def size(self) -> int:
        """Of the newest file, with what is in the buffer."""
        return 0 if self._out is None else self._out.size

    def write(self, frame: Frame, subject: Subject = NO_SUBJECT, wire: bytes = b"") -> None:
        """One frame, and whom its call is about as far as it is known: that is for the index.

        `wire` is what `encode` makes of the frame, if that is at hand.
        The HEADER of another relay process begins a new file. An index or trailer is of another file and left out.
        """
        if isinstance(frame, Header):
            self._new_session(frame)
        elif not isinstance(frame, Index | Trailer):
            self._write(frame, subject, wire)

    def flush(self) -> None:
        """Hand over to the system what is in the buffer. Goes on in a new FILE if somebody took the old one away."""
        if self._out is None or self.error is not None:
            return
        if self._attempt(self._out.flush) and not self.path.exists():
            self._attempt(self._rotate)

    def close(self) -> None:
        """Write the index and bring the file to the disk. What is written afterwards is lost."""
        if self.error is not None and self._out is not None:
            self._attempt(self._introduce)
        self._end_file(sync=True)
        self._closed = True

    def _write(self, frame: Frame, subject: Subject, wire: bytes) -> None:
        packed = _packed(frame)
        try:
            data = wire if wire and packed is frame else encode(packed)
        except (ValueError, struct.error):
            data = b""  # values that no frame can hold
        if data and self._ready(len(data)) and (out := self._out) is not None:
            begin = out.size
            try:
                out.add(data)
                self.written += 1
            except OSError as error:
                self._fail(error)
            self._fresh = False
            if self._index is not None:
                self._index.add(frame, begin, begin + len(data), subject)
        else:
            self._lose(1, len(data))
        if data:
            self._keep_track(frame, subject)

    def _keep_track(self, frame: Frame, subject: Subject) -> None:
        if isinstance(frame, Message):
            self._doubtful.pop(frame.number, None)
            if subject and frame.number in self._calls:
                self._calls[frame.number] = self._calls[frame.number][0], subject
        elif isinstance(frame, End):
            self._forget(frame.number)
        elif isinstance(frame, Begin):
            self._forget(frame.number)
            if len(self._calls) >= KEPT_CALLS:
                self._forget(next(iter(self._doubtful or self._calls)))
            self._calls[frame.number] = frame, subject
        elif isinstance(frame, Dropped):
            self._doubtful = dict.fromkeys(self._calls)

    def _forget(self, number: int) -> None:
        """A call is not continued any more."""
        self._calls.pop(number, None)
        self._doubtful.pop(number, None)

    def _forget_surplus(self) -> None:
        """Calls in flight may have a part of the next file only."""
        if not self._max_bytes:
            return
        sizes = {number: len(encode(begin)) + ROW_BYTES for number, (begin, _) in self._calls.items()}
        surplus = sum(sizes.values()) - self._max_bytes // _QUARTER
        for number in [*self._doubtful, *(number for number in self._calls if number not in self._doubtful)]:
            if surplus <= 0:
                return
            surplus -= sizes[number]
            self._forget(number)

    def _new_session(self, header: Header) -> None:
        if header.facts.get(SESSION) == self._facts.get(SESSION):
            return
        self._facts = dict(header.facts)
        self._calls.clear()
        self._doubtful.clear()
        if not self._closed:
            self._attempt(self._rotate)

    # -- files

    def _ready(self, size: int) -> bool:
        """Whether so many bytes can be written now; makes a new file if that is needed."""
        if self._closed or (self.error is not None and self._clock() < self._retry_at):
            return False
        if self._out is None or self._is_full(self._out, size):
            return self._attempt(self._rotate)
        if self.error is None:
            return True
        return self._attempt(self._resume if self.path.exists() else self._rotate)

    def _is_full(self, out: BufferedFile, size: int) -> bool:
        if not self._max_bytes or self._fresh:
            return False
        return self._limit < out.size + size + (0 if self._index is None else self._index.size)

    def _resume(self) -> None:
        """Go on after a failure: in the same file if possible."""
        try:
            self._introduce()
        except OSError as error:
            if error.errno in _DISK_FULL:
                raise
            self._rotate()

    def _rotate(self) -> None:
        """Go on in a new file. If another process has the name now, there is none for us."""
        try:
            fd = create_file(self.path) if self._out is None else replace_open_file(self.path, self._out.fd)
        except FileExistsError as error:
            self._end_file(sync=False)
            raise FileExistsError(error.errno, "another process records to this file now", str(self.path)) from None
        self._end_file(sync=False)
        self._out = BufferedFile(fd)
        self._index = IndexBuilder()
        self.rotations += 1
        with suppress(OSError):
            remove_surplus(self.path, self._files - 1)
        self._introduce()

    def _introduce(self) -> None:
        """Write what a reader needs who begins here, or who goes on behind a gap."""
        out = self._out
        if out is None:
            return
        new = out.size == 0
        lost = out.lost, out.lost_bytes
        self._forget_surplus()
        try:
            for frame, subject in self._beginning(new=new):
                begin = out.size
                out.add(encode(frame))
                if self._index is not None:
                    self._index.add(frame, begin, out.size, subject)
            out.flush()
        except OSError:
            out.lost, out.lost_bytes = lost  # these frames were nobody's
            raise
        self._fresh = True
        self._unreported = 0, 0
        self.error = None
        if new:
            # However long its beginning is, half of what a file may have comes behind it: or each frame had its own.
            beginning = out.size + (0 if self._index is None else self._index.size)
            self._limit = max(self._max_bytes, beginning + self._max_bytes // 2)

    def _beginning(self, *, new: bool) -> Iterable[tuple[Frame, Subject]]:
        if new:
            yield Header(facts=self._header_facts()), NO_SUBJECT
            yield Context(facts=self._context_facts()), NO_SUBJECT
        if any(self._unreported):
            yield Dropped(frames=self._unreported[0], size=self._unreported[1], time=self._now()), NO_SUBJECT
        for begin, subject in self._calls.values():
            yield begin._replace(flags=begin.flags | Flags.CONTINUED), subject

    def _context_facts(self) -> Mapping[str, Any]:
        """What is known, as much of it as fits. The newest is last in each of its parts."""
        limit = min(self._max_bytes // _QUARTER or MAX_PAYLOAD, MAX_PAYLOAD // 2)
        subjects = subjects_to_facts({number: subject for number, (_, subject) in self._calls.items()})
        facts: Mapping[str, Any] = {**self._context(), **({CALLS: subjects} if subjects else {})}
        while not _fits(Context(facts=facts), limit):
            if not any(isinstance(value, Mapping) and value for value in facts.values()):
                return {}
            facts = {name: _newer_half(value) if isinstance(value, Mapping) else value for name, value in facts.items()}
        return facts

    def _header_facts(self) -> dict[str, Any]:
        created = datetime.fromtimestamp(self._now() / 1e9, UTC).isoformat(timespec="milliseconds")
        return {
            **self._facts,
            "format": FORMAT,
            "version": VERSION,
            "created": created.replace("+00:00", "Z"),
            "part": self.rotations + 1,
        }

    def _end_file(self, *, sync: bool) -> None:
        """Index and trailer; the disk is waited for only at the very end, for frames come meanwhile."""
        out, self._out = self._out, None
        if out is None:
            return
        try:
            out.flush()
            self._add_index(out)
        except OSError as error:
            self.error = error
        self._lose(out.lost, out.lost_bytes)
        try:
            out.close(sync=sync)
        except OSError as error:
            self.error = error

    def _add_index(self, out: BufferedFile) -> None:
        facts = None if self._index is None else self._index.facts()
        if facts is None:
            return
        lost = out.lost, out.lost_bytes
        try:
            trailer = Trailer(index_at=out.size)
            out.add(encode(Index(facts=facts)))
            out.add(encode(trailer))
            out.flush()
        except ValueError:
            pass  # larger than a frame can be
        finally:
            out.lost, out.lost_bytes = lost  # an index is no loss, it can be made again

    # -- trouble

    def _attempt(self, action: Callable[[], None]) -> bool:
        """Do something with files; if that fails, remember it and what was lost."""
        try:
            action()
        except OSError as error:
            self._fail(error)
            return False
        return True

    def _fail(self, error: OSError) -> None:
        if self.error is None or self.error.errno != error.errno:
            self.error = error
        self._retry_at = self._clock() + RETRY
        self._index = None  # it tells of frames that are not there
        if self._out is not None:
            self._lose(self._out.lost, self._out.lost_bytes)
            self._out.lost = self._out.lost_bytes = 0

    def _lose(self, frames: int, size: int) -> None:
        self.lost += frames
        self._unreported = self._unreported[0] + frames, self._unreported[1] + size


def _fits(frame: Frame, limit: int) -> bool:
    try:
        return len(encode(frame)) <= limit
    except ValueError:  # larger than a frame can be
        return False


def _newer_half(part: Mapping[str, Any]) -> dict[str, Any]:
    return dict(list(part.items())[(len(part) + 1) // 2 :])


def _packed(frame: Frame) -> Frame:
    """A message with its body packed, if that makes it smaller."""
    if not isinstance(frame, Message) or frame.packing is not _PLAIN or len(frame.body) < LEAST_PACKED:
        return frame
    body = zlib.compress(frame.body, 1)
    return frame._replace(packing=_ZLIB, body=body) if len(body) < len(frame.body) else frame
