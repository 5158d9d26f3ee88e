"""The last used folder of a tree, kept open: entries of one folder mostly follow each other.

No link in its path is followed.
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
    """Descriptors of folders below a root. Each is valid until the next one is opened."""

    def __init__(self, root: Path) -> None:
        self.root = os.open(root, FOLDER)
        self._last: tuple[Parts, int] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def at(self, parts: Parts, enter: Callable[[int, Parts], int] = _enter) -> int:
        """Open the folder at a path; `enter` opens each part, relative to the one before."""
        if self._last is not None and self._last[0] == parts:
            return self._last[1]
        return self._walk(self.root, (), parts, enter)

    def inside(self, parts: Parts) -> int:
        """As `at`, but from the last used folder if that is the parent: for trees that do not change any more."""
        if self._last is not None and parts and self._last[0] == parts[:-1]:
            return self._walk(self._last[1], parts[:-1], parts, _enter)
        return self._walk(self.root, (), parts, _enter)

    def leave(self) -> None:
        """Close the last used folder; the root stays open."""
        if self._last is not None:
            os.close(self._last[1])
            self._last = None

    def close(self) -> None:
        """Close the last used folder and the root."""
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
