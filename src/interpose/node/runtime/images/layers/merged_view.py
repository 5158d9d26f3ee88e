"""Layers as the one tree that overlay would show, without mounting anything.

No link is ever followed by the kernel here: each part of a path was checked to be a folder before the next is opened.
Links are followed by us, as a container that has this tree as its root would: they cannot lead out of it.

A path is walked once, part by part, with the folders of all layers for each part: the cost grows with its depth and
with the number of layers that have it, and both have a limit.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from interpose.node.runtime.images.layers.whiteouts import WhiteoutFormat, is_whiteout

MAX_DEPTH: Final = 256  # folders inside of each other; the deepest in use have some dozens
_MAX_LINKS: Final = 40  # as the kernel has it
_MAX_STEPS: Final = 4096  # parts of a path, with those of all links in it

Parts = tuple[str, ...]


class MergedEntry(NamedTuple):
    """A path on disk, and its stat result."""

    path: str
    stat: os.stat_result

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder."""
        return stat.S_ISDIR(self.stat.st_mode)


class PathWalk:
    """A walk through merged layers from the root, a part of a path at a time."""

    def __init__(self, layers: Sequence[str], form: WhiteoutFormat) -> None:
        self._form = form
        self._folders = [tuple(layers)]  # for each part that was entered: its folders in all layers

    def look(self, part: str) -> MergedEntry | None:
        """The entry with this name in the current folder; None without one."""
        return next(self._visible(part), None)

    def enter(self, part: str) -> MergedEntry | None:
        """As `look`, and go into it. A file, or a name without an entry, is entered as an empty folder."""
        first: MergedEntry | None = None
        inner = []
        for found in self._visible(part):
            first = first or found
            if not found.is_folder:
                break
            inner.append(found.path)
            if self._form.is_opaque(found.path):
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

    def _visible(self, part: str) -> Iterator[MergedEntry]:
        """The entries of the layers, the highest first, until one hides those below it."""
        for folder in self._folders[-1]:
            if self._form.is_hidden(folder, part):
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
    """A view of merged layers, which are given highest first."""

    def __init__(self, layers: Sequence[str], form: WhiteoutFormat) -> None:
        self._layers = tuple(layers)
        self._form = form

    def walk(self, parts: Parts = ()) -> PathWalk:
        """A walk that has entered all `parts`; no link is followed."""
        walk = PathWalk(self._layers, self._form)
        for part in parts:
            walk.enter(part)
        return walk

    def find(self, parts: Parts) -> MergedEntry | None:
        """The entry at a path; no link is followed, so there is no entry behind one."""
        if parts:
            return self.walk(parts[:-1]).look(parts[-1])
        return MergedEntry(self._layers[0], os.lstat(self._layers[0])) if self._layers else None

    def names(self) -> set[str]:
        """The visible names at the root."""
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
        """The path of a folder with all links followed; it need not exist. ValueError if it cannot be a folder."""
        done: list[str] = []
        left = list(reversed(parts))
        walk = self.walk()
        links = steps = 0
        while left:
            part = left.pop()
            steps += 1
            if steps > _MAX_STEPS:
                raise ValueError(f"the way to it has more than {_MAX_STEPS} parts")
            if part in ("", "."):
                continue
            if part == "..":
                del done[-1:]
                walk.leave()
                continue
            found = walk.enter(part)
            if found is None or found.is_folder:
                done.append(part)
                if len(done) >= MAX_DEPTH:
                    raise ValueError(f"it is inside of {MAX_DEPTH} folders or more")
            elif stat.S_ISLNK(found.stat.st_mode):
                links += 1
                if links > _MAX_LINKS:
                    raise ValueError("too many symbolic links on the way")
                walk.leave()
                target = os.readlink(found.path)  # noqa: PTH115 - as it is, not tidied
                if target.startswith("/"):
                    done.clear()
                    walk.restart()
                left += reversed(target.split("/"))
            else:
                raise ValueError(f"{'/'.join((*done, part))!a} is not a folder")
        return tuple(done)
