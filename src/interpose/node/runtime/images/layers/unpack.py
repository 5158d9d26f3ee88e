"""A layer's tar file becomes a folder that overlay can mount, or that can be copied.

The tar file may come from anybody. Invariant: nothing is made outside of the folder. Names have no "..", links on the
way are followed by us and not by the kernel, folders are opened part by part without following any, and everything is
made inside of an open folder. What it may cost is bounded, and its digest is checked before it counts.

Entries work one after the other on what they find, as if the layers below were there: a place behind a link of a layer
below is where the link leads, and a folder that is only implied looks as it does below.
"""

import errno
import os
import stat
import tarfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from interpose.host.rmtree import remove_at
from interpose.node.runtime.images.layers.attributes import IMPLIED, Attributes, AttributeWriter, of_file, of_member
from interpose.node.runtime.images.layers.flatten import copy_data
from interpose.node.runtime.images.layers.merged_view import MergedEntry, MergedView, Parts, PathWalk
from interpose.node.runtime.images.layers.open_folder import FOLDER, OpenFolder
from interpose.node.runtime.images.layers.prune_whiteouts import WhiteoutPruner
from interpose.node.runtime.images.layers.tar_names import EntryKind, read_name, split_name
from interpose.node.runtime.images.layers.tar_reader import (
    BROKEN,
    StoppedError,
    TarBytes,
    data_of,
    decompressed,
    entries,
)
from interpose.node.runtime.images.layers.whiteouts import WhiteoutFormat, is_whiteout
from interpose.node.runtime.images.saving.tar_split import TarSplitWriter
from interpose.node.runtime.images.types import UnpackLimits, UnpackResult

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK: Final = 4096
# What no layer is to blame for.
_OF_THE_DISK: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE))
_DEVICES: Final = {tarfile.CHRTYPE: stat.S_IFCHR, tarfile.BLKTYPE: stat.S_IFBLK, tarfile.FIFOTYPE: stat.S_IFIFO}


def unpack(
    file: IO[bytes],
    target: Path,
    below: Sequence[Path],
    form: WhiteoutFormat,
    *,
    limits: UnpackLimits | None = None,
    split: TarSplitWriter | None = None,
    privileged: bool | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> UnpackResult:
    """Unpack a layer into a new folder; `below` are the layers under it, lowest first.

    `split` writes down what the tar file is besides. ValueError says what is wrong with the layer, StoppedError that
    `stopped` said so. What was made until then stays.
    """
    limits = limits or UnpackLimits()
    root = os.geteuid() == 0 if privileged is None else privileged
    target.mkdir(mode=0o755)
    try:
        record = None if split is None else split.raw
        source = TarBytes(decompressed(file), limit=limits.size, stopped=stopped, record=record)
        with _Layer(target, below, form, AttributeWriter(privileged=root), limits, split) as layer:
            for member in entries(source, most=limits.entries):  # asks `stopped` for each
                layer.add(member, source)
            layer.finish(stopped)
            return UnpackResult(diff_id=source.digest, size=layer.size, inodes=layer.inodes, skipped=layer.skipped)
    except BROKEN as error:
        raise ValueError(f"it is not a whole tar file: {str(error) or type(error).__name__}") from None


def _go_on_unless(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise StoppedError


class _Layer:
    """A layer that is being made."""

    def __init__(
        self,
        target: Path,
        below: Sequence[Path],
        form: WhiteoutFormat,
        giver: AttributeWriter,
        limits: UnpackLimits,
        split: TarSplitWriter | None,
    ) -> None:
        lower = [str(path) for path in reversed(below)]
        self._path = str(target)
        self._below = MergedView(lower, form)
        self._all = MergedView([self._path, *lower], form)
        self._form = form
        self._giver = giver
        self._limits = limits
        self._split = split
        self._open_folder = OpenFolder(target)
        self._root = self._open_folder.root
        self._folders: set[Parts] = set()  # of this layer, no link on the way; some of them
        self._dates: dict[Parts, int] = {}  # of folders, for the end
        self._root_sealed = False
        self._whiteouts = self._seals = False  # whether there are any
        self._bare: set[Parts] = set()  # folders that only whiteouts asked for
        self.size = 0
        self.inodes = 1
        self.skipped = 0

    def __enter__(self) -> "_Layer":
        found = self._below.find(())
        implied = of_file(found.path, found.stat) if found else IMPLIED
        self._give_folder((), implied)
        return self

    def __exit__(self, *_: object) -> None:
        self._open_folder.close()

    # -- entries

    def add(self, member: tarfile.TarInfo, source: TarBytes) -> None:
        """One entry."""
        name = read_name(member.name)
        if self.inodes > self._limits.entries:  # folders that are only implied cost as much as others
            raise ValueError(f"it has more than {self._limits.entries} files and folders")
        try:
            match name.meaning:
                case EntryKind.PLACE:
                    self._place(name.parts, member, source)
                case EntryKind.WHITEOUT:
                    self._hide(name.parts)
                case EntryKind.OPAQUE:
                    self._seal(name.parts)
                case EntryKind.NOTHING:
                    pass
        except ValueError as error:
            raise ValueError(f"entry {member.name[:200]!a}: {error}") from None
        except OSError as error:
            if error.errno in _OF_THE_DISK:
                raise
            raise ValueError(f"entry {member.name[:200]!a}: {error.strerror or error}") from None

    def _place(self, parts: Parts, member: tarfile.TarInfo, source: TarBytes) -> None:
        attributes = of_member(member)
        if not parts:
            if not member.isdir():
                raise ValueError("the root is not a folder")
            self._give_folder((), attributes)
            return
        parent = self._resolve(parts[:-1])
        place = (*parent, parts[-1])
        if self._bare:  # these are there for more than whiteouts now
            self._bare.difference_update(parent[:depth] for depth in range(1, len(parent) + 1))
        folder = self._open(parent)
        if member.isdir():
            self._make_folder(folder, place)
            self._give_folder(place, attributes)
        elif member.ischr() and (member.devmajor, member.devminor) == (0, 0):
            self._hide(place)  # what overlay makes of it in any case
        elif member.islnk():
            self._link(place, member.linkname)
        else:
            self._clear(folder, place[-1])
            self._make_file(folder, place, member, source, attributes)

    def _make_file(
        self, folder: int, place: Parts, member: tarfile.TarInfo, source: TarBytes, attributes: Attributes
    ) -> None:
        name = place[-1]
        if member.isreg():
            mode = stat.S_IFREG
            self._write(folder, place, member, source)
        elif member.issym():
            mode = stat.S_IFLNK
            os.symlink(member.linkname, name, dir_fd=folder)
        elif member.type in _DEVICES:
            mode = _DEVICES[member.type]
            try:
                os.mknod(name, mode | 0o600, os.makedev(member.devmajor, member.devminor), dir_fd=folder)
            except PermissionError:
                self.skipped += 1  # containers get their devices elsewhere
                return
        else:
            raise ValueError(f"its type {member.type!r} is unknown")
        self.inodes += 1
        self._giver.give(folder, name, attributes, mode=mode)

    def _write(self, folder: int, place: Parts, member: tarfile.TarInfo, source: TarBytes) -> None:
        if member.size > self._limits.file:
            raise ValueError(f"it is larger than {self._limits.file} bytes")
        descriptor = os.open(place[-1], _NEW, 0o600, dir_fd=folder)
        try:
            for offset, data in data_of(source, member):
                if self._split is not None:
                    self._split.piece(place, offset, len(data))
                rest = memoryview(data)
                while rest:
                    count = os.pwrite(descriptor, rest, offset)
                    rest, offset = rest[count:], offset + count
                self.size += len(data)
            os.ftruncate(descriptor, member.size)
        finally:
            os.close(descriptor)
        self.size += -self.size % _BLOCK

    def _link(self, place: Parts, linkname: str) -> None:
        """A second name for something in this layer, or for a copy of something below."""
        named = split_name(linkname)
        target = (*self._resolve(named[:-1]), *named[-1:])
        if target == place:
            return
        found = self._all.find(target)
        if found is None or found.is_folder:
            raise ValueError(
                f"it is a hard link to {linkname[:200]!a}, which is {'a folder' if found else 'not there'}"
            )
        if not found.path.startswith(self._path + "/"):
            self._copy_up(target, found)
        source = self._open(target[:-1])
        kept = os.dup(source)  # the next line may let it go
        try:
            folder = self._open(place[:-1])
            self._clear(folder, place[-1])
            os.link(target[-1], place[-1], src_dir_fd=kept, dst_dir_fd=folder, follow_symlinks=False)
        finally:
            os.close(kept)

    def _copy_up(self, place: Parts, found: MergedEntry) -> None:
        folder = self._open(place[:-1])
        self._clear(folder, place[-1])
        self.size += copy_data(found.path, found.stat, folder, place[-1])
        self.inodes += 1
        self._giver.give(folder, place[-1], of_file(found.path, found.stat), mode=found.stat.st_mode)

    # -- what is gone

    def _hide(self, parts: Parts) -> None:
        place = (*self._resolve(parts[:-1]), parts[-1])
        own = self._own(place)
        if own is not None:
            if own.is_folder:
                self._seal_off(self._open(place))
            return  # it is in the way of what is below
        if self._all.find(place) is not None:
            self._expect_bare(place[:-1])
            self._form.hide(self._open(place[:-1]), place[-1])
            self._whiteouts = True

    def _seal(self, parts: Parts) -> None:
        place = self._resolve(parts)
        if not place:
            # Overlay does not read that of roots: each name gets its own at the end.
            self._root_sealed = self._seals = True
            self._all = MergedView([self._path], self._form)
        elif (found := self._all.find(place)) is not None and not self._is_sealed(found):
            self._bare.discard(place)
            self._seal_off(self._open(place))

    def _expect_bare(self, parts: Parts) -> None:
        while parts and self._own(parts) is None:
            self._bare.add(parts)
            parts = parts[:-1]

    def _seal_off(self, folder: int) -> None:
        self._form.seal(folder)
        self._seals = True

    def _is_sealed(self, found: MergedEntry) -> bool:
        """Whether it is a folder of this layer that hides all below already; one that was hidden by name is none."""
        return found.path.startswith(self._path + "/") and self._form.sealed(found.path)

    def _own(self, place: Parts) -> MergedEntry | None:
        """What this layer itself has at a place."""
        return MergedView([self._path], self._form).find(place)

    # -- folders

    def _resolve(self, parts: Parts) -> Parts:
        """The place of a folder behind links. Folders of this layer are remembered until one makes room."""
        if parts in self._folders:
            return parts
        place = self._all.resolve(parts)
        # Not where links lead: one of a layer below ends when anything of this layer comes in its place.
        if place == parts and self._own(place) is not None:
            self._folders.add(place)
        return place

    def _open(self, parts: Parts) -> int:
        """A folder of this layer, made on the way where it is not there yet. Good until the next one is opened."""
        way: PathWalk | None = None  # from the first folder on that is not there yet

        def enter(folder: int, place: Parts) -> int:
            nonlocal way
            inner = _opened(folder, place[-1])
            if inner is None:
                way = way or self._all.way(place[:-1])
                inner = self._imply(folder, place, way)
            return inner

        return self._open_folder.at(parts, enter)

    def _imply(self, folder: int, place: Parts, way: PathWalk) -> int:
        """Make a folder that has no entry, as it is below; `way` leads to where it is, and then into it."""
        name = place[-1]
        found = way.enter(name)
        implied = of_file(found.path, found.stat) if found is not None else IMPLIED
        self._make_folder(folder, place)
        self._giver.give(folder, name, implied, mode=stat.S_IFDIR)
        self._dates[place] = implied.mtime_ns
        return os.open(name, FOLDER, dir_fd=folder)

    def _make_folder(self, folder: int, place: Parts) -> None:
        """A folder at a place. Where another thing of this layer was, nothing of the layers below shines through."""
        name = place[-1]
        replaced = self._form.show(folder, name)
        with suppress(FileNotFoundError):
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                return
            os.unlink(name, dir_fd=folder)
            replaced = True
        os.mkdir(name, 0o700, dir_fd=folder)
        self.inodes += 1
        if replaced:
            inner = os.open(name, FOLDER, dir_fd=folder)
            try:
                self._seal_off(inner)
            finally:
                os.close(inner)

    def _give_folder(self, place: Parts, attributes: Attributes) -> None:
        if place:
            self._giver.give(self._open(place[:-1]), place[-1], attributes, mode=stat.S_IFDIR)
        else:
            self._giver.give(self._root, ".", attributes, mode=stat.S_IFDIR)
        self._dates[place] = attributes.mtime_ns
        self._bare.discard(place)

    def _clear(self, folder: int, name: str) -> None:
        """Make room for something that is not a folder."""
        self._form.show(folder, name)
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return
        if stat.S_ISDIR(found.st_mode):
            self._folders.clear()
            remove_at(folder, name)
        else:
            os.unlink(name, dir_fd=folder)

    def finish(self, stopped: Callable[[], bool]) -> None:
        """What can only be said when all entries are there."""
        self._open_folder.leave()
        if self._whiteouts and self._seals:
            ghosts = WhiteoutPruner(form=self._form, bare=self._bare, step=lambda: _go_on_unless(stopped))
            ghosts.remove(self._root, sealed=self._root_sealed)
        if self._root_sealed:
            for name in self._below.names():
                own = self._own((name,))
                if own is None:
                    self._form.hide(self._root, name)
                elif own.is_folder:
                    self._seal_off(self._open((name,)))
        for place, date in self._dates.items():
            _go_on_unless(stopped)
            with suppress(OSError):  # of a folder that another entry replaced
                os.utime(self._open_folder.inside(place), ns=(date, date))


def _opened(folder: int, name: str) -> int | None:
    """A folder in this layer; None if there is none, or a whiteout."""
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        if not is_whiteout(os.stat(name, dir_fd=folder, follow_symlinks=False)):
            raise
        return None
