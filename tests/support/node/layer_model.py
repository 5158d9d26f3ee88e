"""What layers mean, as simply as it can be said: a dictionary from places to what is there.

The unpacker is held against it. Entries are (name, kind, value): kinds are dir (mode), file (content), link (target),
hard (target), gone (whiteout), and opaque.
"""

import os
import stat
import tarfile
from pathlib import Path
from typing import Any, TypeAlias

from tests.support.node.image_files import entry, tar

Place: TypeAlias = tuple[str, ...]
Node: TypeAlias = tuple[str, Any]
Entry: TypeAlias = tuple[str, str, Any]
Tree: TypeAlias = dict[Place, Node]

_IMPLIED = ("dir", 0o755)


class RefusedError(Exception):
    """No layer may have such an entry."""


class Model:
    """A tree that layers are laid over, one after the other."""

    def __init__(self) -> None:
        self.tree: Tree = {(): _IMPLIED}
        self._own: set[Place] = set()

    def add_layer(self, entries: list[Entry]) -> None:
        """Lay a layer over what is there; RefusedError if it cannot be."""
        self._own = {()}
        for name, kind, value in entries:
            place = tuple(name.split("/"))
            if kind == "opaque":
                self._opaque(self._resolve(place))
                continue
            place = (*self._resolve(place[:-1]), place[-1])
            if kind == "gone":
                self._gone(place)
            elif kind == "dir":
                self._make_parents(place)
                if self.tree.get(place, ("", 0))[0] != "dir":
                    self._remove(place)
                self._put(place, ("dir", value))
            elif kind == "hard":
                self._hard(place, tuple(value.split("/")))
            else:
                self._make_parents(place)
                self._remove(place)
                self._put(place, (kind, value))

    def _hard(self, place: Place, target: Place) -> None:
        self._make_parents(place)
        target = (*self._resolve(target[:-1]), target[-1])
        if target == place:
            return
        node = self.tree.get(target)
        if node is None or node[0] == "dir":
            raise RefusedError
        self._make_parents(target)
        self._own.add(target)
        self._remove(place)
        if target not in self.tree:
            raise RefusedError
        self._put(place, node)

    def _put(self, place: Place, node: Node) -> None:
        self.tree[place] = node
        self._own.add(place)

    def _make_parents(self, place: Place) -> None:
        for depth in range(1, len(place)):
            self._put(place[:depth], self.tree.get(place[:depth], _IMPLIED))

    def _remove(self, place: Place) -> None:
        for one in [one for one in self.tree if one[: len(place)] == place]:
            del self.tree[one]
            self._own.discard(one)

    def _gone(self, place: Place) -> None:
        if place not in self._own:
            self._remove(place)
        elif self.tree[place][0] == "dir":
            self._opaque(place)

    def _opaque(self, place: Place) -> None:
        if place not in self.tree:
            return
        for one in [one for one in self.tree if one[: len(place)] == place and len(one) > len(place)]:
            if one not in self._own and one in self.tree:
                self._remove(one)
        self._make_parents((*place, "x"))

    def _resolve(self, parts: Place) -> Place:
        done: list[str] = []
        left = list(reversed(parts))
        links = 0
        while left:
            part = left.pop()
            if part in ("", "."):
                continue
            if part == "..":
                done = done[:-1]
                continue
            kind, value = self.tree.get((*done, part), ("dir", 0))
            if kind == "link":
                links += 1
                if links > 40:
                    raise RefusedError
                if value.startswith("/"):
                    done = []
                left += reversed(value.split("/"))
            elif kind == "dir":
                done.append(part)
            else:
                raise RefusedError
        return tuple(done)


def tar_of(entries: list[Entry]) -> bytes:
    """The tar file of a layer."""
    kinds = {"dir": tarfile.DIRTYPE, "link": tarfile.SYMTYPE, "hard": tarfile.LNKTYPE}
    made = []
    for name, kind, value in entries:
        if kind == "opaque":
            made.append(entry(f"{name}/.wh..wh..opq"))
        elif kind == "gone":
            parent, slash, last = name.rpartition("/")
            made.append(entry(f"{parent}{slash}.wh.{last}"))
        elif kind == "file":
            made.append(entry(name, data=value.encode()))
        elif kind == "dir":
            made.append(entry(name, kinds[kind], mode=value))
        else:
            made.append(entry(name, kinds[kind], linkname=value))
    return tar(made)


def read_tree(folder: Path) -> Tree:
    """What is in a folder."""
    tree: Tree = {(): ("dir", stat.S_IMODE(folder.lstat().st_mode))}
    for path in folder.rglob("*"):
        place = path.relative_to(folder).parts
        if path.is_symlink():
            tree[place] = ("link", os.readlink(path))  # noqa: PTH115 - as it is
        elif path.is_dir():
            tree[place] = ("dir", stat.S_IMODE(path.stat().st_mode))
        else:
            tree[place] = ("file", path.read_text())
    return tree
