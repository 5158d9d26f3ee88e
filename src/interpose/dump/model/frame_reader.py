"""Frames out of bytes that come in pieces, from a file or a socket, whole or damaged.

Pure. Where a frame is damaged the next one is searched, by its mark, its length and its checksum; what lies between is
reported, never an exception.

Invariant: what comes out depends on the bytes alone, not on the pieces they came in. So a frame that is unfinished is
waited for until `finish`, which says that there will be no more; what is held is one frame and one piece at most.
Second: the time it takes grows with the bytes, whatever they are. What looks like a large frame and is none costs, and
what passes pays for it; whoever has spent too much is looked at for small frames only, until enough has passed.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from interpose.dump.model.frames import (
    HEAD,
    MARK,
    MAX_PAYLOAD,
    DamagedFrameError,
    Frame,
    KnownTexts,
    decode,
    frame_size,
)

# Places of damage that are told apart; a file of garbage must not fill the memory with reports about it.
KEPT_DAMAGE: Final = 1000
TRUNCATED: Final = "a frame is cut off: it is being written now, or its writer was stopped"
DECEPTIVE: Final = "too much of it looks like frames and is none"
# Bytes that may be looked at in vain: several of the largest frames. Noise of any length stays below.
BUDGET: Final = 4 * MAX_PAYLOAD
# How many of these each byte pays for that passes.
PAID_PER_BYTE: Final = 8
# To look at one that is smaller costs less than to find it.
ALWAYS_LOOKED_AT: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    """Bytes that are no frames; or, without size, what is wrong with all of it. `file` is empty where there is none."""

    offset: int
    size: int
    why: str
    file: str = ""

    def __str__(self) -> str:
        where = f"{self.file}: " if self.file else ""
        place = f"{self.size} bytes at offset {self.offset}: " if self.size else ""
        return f"{where}{place}{self.why}"


class PlacedFrame(NamedTuple):
    """A frame, where it begins, where the next one does, and its bytes."""

    frame: Frame
    begin: int
    end: int
    wire: bytes


class FrameStream:
    """Bytes in, frames out. `at` is the offset of the first byte that will be fed."""

    def __init__(self, at: int = 0) -> None:
        self.damage: list[Damage] = []  # the first ones
        self.damaged = 0  # places, also those that `damage` does not name
        self.damaged_bytes = 0
        self.unknown = 0  # frames of a later version, passed over
        self._buffer = bytearray()
        self._known = KnownTexts()
        self._at = at  # offset of what the buffer begins with
        self._needed = HEAD.size  # bytes in the buffer without which nothing can be said
        self._bad_from: int | None = None  # offset; what is known to be damaged is let go of
        self._why = ""
        self._spent = 0  # bytes that were looked at in vain and are not paid for yet

    @property
    def offset(self) -> int:
        """Behind the last frame, or behind what is known to be damage."""
        return self._at

    @property
    def held(self) -> int:
        """Bytes that wait for others: 0 between frames."""
        return len(self._buffer)

    def feed(self, data: bytes | memoryview) -> list[Frame]:
        """Some bytes; the frames that are complete with them."""
        return [placed.frame for placed in self.feed_placed(data)]

    def feed_placed(self, data: bytes | memoryview) -> list[PlacedFrame]:
        """The same, with their places."""
        self._buffer += data
        return self._parse(ended=False) if len(self._buffer) >= self._needed else []

    def finish(self) -> list[Frame]:
        """There are no more bytes: what is unfinished is damaged, but there may be frames behind a damaged length."""
        return [placed.frame for placed in self.finish_placed()]

    def finish_placed(self) -> list[PlacedFrame]:
        """The same, with their places."""
        return self._parse(ended=True)

    def _parse(self, *, ended: bool) -> list[PlacedFrame]:
        found: list[PlacedFrame] = []
        size: int | None = None
        at = 0
        with memoryview(self._buffer) as view:
            last = len(view)
            while at < last:
                try:
                    frame, wire = self._decoded(view, at)
                except EOFError:
                    if not ended:
                        size = frame_size(view, at)
                        break
                    at = self._skip(at, TRUNCATED)
                except DamagedFrameError as error:
                    at = self._skip(at, str(error))
                else:
                    if self._bad_from is not None:
                        self._report(self._at + at)
                    end = at + len(wire)
                    if frame is None:
                        self.unknown += 1
                    else:
                        found.append(PlacedFrame(frame, self._at + at, self._at + end, wire))
                    if self._spent:
                        self._pay(end - at)
                    at = end
        self._at += at
        del self._buffer[:at]
        self._needed = size or HEAD.size
        if ended:
            self._report(self._at)
        return found

    def _decoded(self, view: memoryview, at: int) -> tuple[Frame | None, bytes]:
        """As `decode`, within the budget."""
        if self._spent:
            size = frame_size(view, at) or 0
            if size > ALWAYS_LOOKED_AT and self._spent + size > BUDGET:
                raise DamagedFrameError(DECEPTIVE)
        try:
            return decode(view, at, self._known)
        except DamagedFrameError:
            self._spent += frame_size(view, at) or 0  # raises the same if no frame begins here
            raise

    def _pay(self, passed: int) -> None:
        self._spent = max(0, self._spent - PAID_PER_BYTE * passed)

    def _skip(self, at: int, why: str) -> int:
        """Where the next frame may begin."""
        if self._bad_from is None:
            self._bad_from, self._why = self._at + at, why
        found = self._buffer.find(MARK, at + 1)
        if found < 0:
            # The last byte may be the first half of a mark.
            last = len(self._buffer) - 1
            found = last if last > at and self._buffer[last] == MARK[0] else last + 1
        self._pay(found - at)
        return found

    def _report(self, end: int) -> None:
        """All is well from here on: if it was not before, say so."""
        if self._bad_from is None:
            return
        self.damaged += 1
        self.damaged_bytes += end - self._bad_from
        if len(self.damage) < KEPT_DAMAGE:
            self.damage.append(Damage(offset=self._bad_from, size=end - self._bad_from, why=self._why))
        self._bad_from = None
