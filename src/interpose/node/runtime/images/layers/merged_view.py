"""Layers seen as the one tree they make together, without mounting anything.

No link is ever followed by the kernel here: each part of a place was seen to be a folder before the next is looked at.
Links are followed by us, as a container that has this tree as its root would: they cannot lead out of it.

The way to a place is gone once, part by part, with the folders that make up each part of it at hand: what it costs
grows with its depth and with the layers that have it, and both have a bound.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from interpose.node.runtime.images.layers.whiteouts import WhiteoutFormat, is_whiteout

MOST_DEPTH: Final = 256  # folders inside of each other; the deepest in use have some dozens
_MOST_LINKS: Final = 40  # as the kernel has it
_MOST_STEPS: Final = 4096  # parts of one place, with those of all links on the way

Parts = tuple[str, ...]


class MergedEntry(NamedTuple):
    """Where something is, and what."""

    path: str
    stat: os.stat_result

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.stat.st_mode)


class PathWalk:
    """Goes down from the root of layers, a part at a time, and up again."""

    def __init__(self, layers: Sequence[str], form: WhiteoutFormat) -> None:
        self._form = form
        self._folders = [tuple(layers)]  # for each part that was entered: the folders that are it together

    def look(self, part: str) -> MergedEntry | None:
        """What is here with this name."""
        return next(self._seen(part), None)

    def enter(self, part: str) -> MergedEntry | None:
        """The same, and go on inside of it. There is nothing inside of what is not a folder, or not there."""
        first: MergedEntry | None = None
        inner = []
        for found in self._seen(part):
            first = first or found
            if not found.is_folder:
                break
            inner.append(found.path)
            if self._form.sealed(found.path):
                break
        self._folders.append(tuple(inner))
        return first

    def leave(self) -> None:
        """Go back up; the root is above itself."""
        if len(self._folders) > 1:
            self._folders.pop()

    def restart(self) -> None:
        """Go back to the root."""
        del self._folders[1:]

    def _seen(self, part: str) -> Iterator[MergedEntry]:
        """What the layers have here, the highest first, until one hides those below it."""
        for folder in self._folders[-1]:
            if self._form.hidden(folder, part):
                return
            path = f"{folder}/{part}"
            try:
                found = MergedEntry(path, os.lstat(path))
            except FileNotFoundError:
                continue
            if is_whiteout(found.stat):
                return
            yield found


class MergedView:
    """Layers, highest first."""

    def __init__(self, layers: Sequence[str], form: WhiteoutFormat) -> None:
        self._layers = tuple(layers)
        self._form = form

    def way(self, parts: Parts = ()) -> PathWalk:
        """A way that has been gone to a place; no link is followed."""
        way = PathWalk(self._layers, self._form)
        for part in parts:
            way.enter(part)
        return way

    def find(self, parts: Parts) -> MergedEntry | None:
        """What is at a place; no link is followed on the way, so there is nothing behind one."""
        if parts:
            return self.way(parts[:-1]).look(parts[-1])
        return MergedEntry(self._layers[0], os.lstat(self._layers[0])) if self._layers else None

    def names(self) -> set[str]:
        """The names at the root."""
        names: set[str] = set()
        for layer in reversed(self._layers):
            with os.scandir(layer) as entries:
                for entry in entries:
                    if self._form.is_mark(entry):
                        names.discard(self._form.hidden_name(entry))
                    else:
                        names.add(entry.name)
        return names

    def resolve(self, parts: Parts) -> Parts:
        """The place of a folder behind all links; it need not exist. ValueError if it cannot be one."""
        done: list[str] = []
        left = list(reversed(parts))
        way = self.way()
        links = steps = 0
        while left:
            part = left.pop()
            steps += 1
            if steps > _MOST_STEPS:
                raise ValueError(f"the way to it has more than {_MOST_STEPS} parts")
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                way.leave()
                continue
            found = way.enter(part)
            if found is None or found.is_folder:
                done.append(part)
                if len(done) >= MOST_DEPTH:
                    raise ValueError(f"it is inside of {MOST_DEPTH} folders or more")
            elif stat.S_ISLNK(found.stat.st_mode):
                links += 1
                if links > _MOST_LINKS:
                    raise ValueError("too many symbolic links on the way")
                way.leave()
                target = os.readlink(found.path)  # noqa: PTH115 - as it is, not tidied
                if target.startswith("/"):
                    done.clear()
                    way.restart()
                left += reversed(target.split("/"))
            else:
                raise ValueError(f"{'/'.join((*done, part))!a} is not a folder")
        return tuple(done)
