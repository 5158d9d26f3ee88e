"""Bytes that were received and not given out, in the pieces they came in; small ones that wait are joined.

Nothing else is copied.
"""

from collections import deque
from typing import Final

_SMALL: Final = 512


class Inbox:
    """A queue of bytes."""

    __slots__ = ("_at", "_pieces", "size")

    def __init__(self) -> None:
        self._pieces: deque[bytes] = deque()
        self._at = 0  # where the first piece begins
        self.size = 0

    def add(self, data: bytes) -> None:
        """Queue bytes."""
        if not data:
            return
        pieces = self._pieces
        self.size += len(data)
        # A peer that sends single bytes must not make us keep an object for each.
        if len(data) < _SMALL and pieces and len(pieces[-1]) < _SMALL:
            pieces[-1] += data
        else:
            pieces.append(data)

    def first(self) -> tuple[bytes, int]:
        """The first piece, and where in it the bytes begin. There must be one."""
        return self._pieces[0], self._at

    def skip_to(self, position: int) -> None:
        """The first piece is used up to there."""
        self.size -= position - self._at
        self._at = position
        if position == len(self._pieces[0]):
            self._pieces.popleft()
            self._at = 0

    def take(self, most: int) -> bytes:
        """The next bytes, at most so many and at most one piece; the piece itself if all of it is taken."""
        piece = self._pieces[0]
        at = self._at
        stop = min(at + most, len(piece))
        self.skip_to(stop)
        return piece if stop - at == len(piece) else piece[at:stop]

    def take_all(self) -> bytes:
        """Everything that is left."""
        return b"".join([self.take(self.size) for _ in range(len(self._pieces))])

    def put_back(self, data: bytes) -> None:
        """Bytes that were taken come first again."""
        if data:
            if self._at:
                self._pieces[0] = self._pieces[0][self._at :]
                self._at = 0
            self._pieces.appendleft(data)
            self.size += len(data)
