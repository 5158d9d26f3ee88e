"""The folder of a tree that was used last, open: entries of one folder mostly come one after the other.

No link is followed on the way to it.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

from interpose.node.runtime.images.layers.merged_view import Parts

FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def _enter(folder: int, place: Parts) -> int:
    return os.open(place[-1], FOLDER, dir_fd=folder)


class OpenFolder:
    """Descriptors of folders below a root. Each is good until the next one is asked for."""

    def __init__(self, root: Path) -> None:
        self.root = os.open(root, FOLDER)
        self._last: tuple[Parts, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def at(self, parts: Parts, enter: Callable[[int, Parts], int] = _enter) -> int:
        """The folder at a place; `enter` opens each on the way to it, inside of the one before."""
        if self._last is not None and self._last[0] == parts:
            return self._last[1]
        return self._walk(self.root, (), parts, enter)

    def inside(self, parts: Parts) -> int:
        """The same from the one that was used last, if it is the one above: for trees that nobody changes any more."""
        if self._last is not None and parts and self._last[0] == parts[:-1]:
            return self._walk(self._last[1], parts[:-1], parts, _enter)
        return self._walk(self.root, (), parts, _enter)

    def leave(self) -> None:
        """None is open any more but the root."""
        if self._last is not None:
            os.close(self._last[1])
            self._last = None

    def close(self) -> None:
        """The root neither."""
        self.leave()
        os.close(self.root)

    def _walk(self, start: int, above: Parts, parts: Parts, enter: Callable[[int, Parts], int]) -> int:
        descriptor = os.dup(start)
        try:
            for depth in range(len(above) + 1, len(parts) + 1):
                inner = enter(descriptor, parts[:depth])
                os.close(descriptor)
                descriptor = inner
        except BaseException:
            os.close(descriptor)
            raise
        self.leave()
        self._last = (parts, descriptor)
        return descriptor
