"""Unpacks a layer's tar file into a folder that overlay can mount, or that can be copied.

The tar file is not trusted. Invariant: nothing is created outside of the folder. Names have no "..", links in a path
are followed by us and not by the kernel, folders are opened part by part without following any, and everything is
created relative to an open folder. Size and number of entries have limits, and the digest is checked before the layer
is used.

Entries are applied one after the other, as if the layers below were there: a path through a link of a layer below is
resolved, and a folder without an entry of its own gets the attributes of the folder below.
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
    decompress,
    entries,
)
from interpose.node.runtime.images.layers.whiteouts import WhiteoutFormat, is_whiteout
from interpose.node.runtime.images.saving.tar_split import TarSplitWriter
from interpose.node.runtime.images.types import UnpackLimits, UnpackResult

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_BLOCK: Final = 4096
# Errors that are not the layer's fault.
_DISK_ERRORS: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE, errno.ENFILE))
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

    `split` records the tar file without its contents. ValueError for a bad layer, StoppedError if `stopped` returned
    True. Files that were created until then stay.
    """
    limits = limits or UnpackLimits()
    root = os.geteuid() == 0 if privileged is None else privileged
    target.mkdir(mode=0o755)
    try:
        record = None if split is None else split.raw
        source = TarBytes(decompress(file), limit=limits.size, stopped=stopped, record=record)
        with _Layer(target, below, form, AttributeWriter(privileged=root), limits, split) as layer:
            for member in entries(source, most=limits.entries):  # polls `stopped` for each
                layer.add(member, source)
            layer.finish(stopped)
            return UnpackResult(diff_id=source.digest, size=layer.size, inodes=layer.inodes, skipped=layer.skipped)
    except BROKEN as error:
        raise ValueError(f"it is not a whole tar file: {str(error) or type(error).__name__}") from None


def _check_stopped(stopped: Callable[[], bool]) -> None:
    if stopped():
        raise StoppedError


class _Layer:
    """A layer that is being unpacked."""

    def __init__(
        self,
        target: Path,
        below: Sequence[Path],
        form: WhiteoutFormat,
        writer: AttributeWriter,
        limits: UnpackLimits,
        split: TarSplitWriter | None,
    ) -> None:
        lower = [str(path) for path in reversed(below)]
        self._path = str(target)
        self._below = MergedView(lower, form)
        self._all = MergedView([self._path, *lower], form)
        self._form = form
        self._writer = writer
        self._limits = limits
        self._split = split
        self._open_folder = OpenFolder(target)
        self._root = self._open_folder.root
        self._folders: set[Parts] = set()  # known folders of this layer, without links in their paths
        self._dates: dict[Parts, int] = {}  # of folders, set at the end
        self._root_opaque = False
        self._has_whiteouts = self._has_opaque = False  # whether there are any
        self._bare: set[Parts] = set()  # folders that exist only for whiteouts
        self.size = 0
        self.inodes = 1
        self.skipped = 0

    def __enter__(self) -> "_Layer":
        found = self._below.find(())
        implied = of_file(found.path, found.stat) if found else IMPLIED
        self._apply_to_folder((), implied)
        return self

    def __exit__(self, *_: object) -> None:
        self._open_folder.close()

    # -- entries

    def add(self, member: tarfile.TarInfo, source: TarBytes) -> None:
        """Apply an entry of the tar file; ValueError names it."""
        name = read_name(member.name)
        if self.inodes > self._limits.entries:  # folders without entries of their own count, too
            raise ValueError(f"it has more than {self._limits.entries} files and folders")
        try:
            match name.kind:
                case EntryKind.PATH:
                    self._add_path(name.parts, member, source)
                case EntryKind.WHITEOUT:
                    self._hide(name.parts)
                case EntryKind.OPAQUE:
                    self._make_opaque(name.parts)
                case EntryKind.NOTHING:
                    pass
        except ValueError as error:
            raise ValueError(f"entry {member.name[:200]!a}: {error}") from None
        except OSError as error:
            if error.errno in _DISK_ERRORS:
                raise
            raise ValueError(f"entry {member.name[:200]!a}: {error.strerror or error}") from None

    def _add_path(self, parts: Parts, member: tarfile.TarInfo, source: TarBytes) -> None:
        attributes = of_member(member)
        if not parts:
            if not member.isdir():
                raise ValueError("the root is not a folder")
            self._apply_to_folder((), attributes)
            return
        parent = self._resolve(parts[:-1])
        place = (*parent, parts[-1])
        if self._bare:  # these are now there for more than whiteouts
            self._bare.difference_update(parent[:depth] for depth in range(1, len(parent) + 1))
        folder = self._open(parent)
        if member.isdir():
            self._make_folder(folder, place)
            self._apply_to_folder(place, attributes)
        elif member.ischr() and (member.devmajor, member.devminor) == (0, 0):
            self._hide(place)  # overlay takes it for a whiteout in any case
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
        self._writer.apply(folder, name, attributes, mode=mode)

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
        """Create a hard link to a file of this layer, or to a copy of one below."""
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
        kept = os.dup(source)  # the next line may close it
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
        self._writer.apply(folder, place[-1], of_file(found.path, found.stat), mode=found.stat.st_mode)

    # -- whiteouts

    def _hide(self, parts: Parts) -> None:
        place = (*self._resolve(parts[:-1]), parts[-1])
        own = self._own(place)
        if own is not None:
            if own.is_folder:
                self._make_folder_opaque(self._open(place))
            return  # it covers the entry below
        if self._all.find(place) is not None:
            self._expect_bare(place[:-1])
            self._form.hide(self._open(place[:-1]), place[-1])
            self._has_whiteouts = True

    def _make_opaque(self, parts: Parts) -> None:
        place = self._resolve(parts)
        if not place:
            # Overlay ignores an opaque root: each name gets a whiteout at the end.
            self._root_opaque = self._has_opaque = True
            self._all = MergedView([self._path], self._form)
        elif (found := self._all.find(place)) is not None and not self._is_opaque(found):
            self._bare.discard(place)
            self._make_folder_opaque(self._open(place))

    def _expect_bare(self, parts: Parts) -> None:
        while parts and self._own(parts) is None:
            self._bare.add(parts)
            parts = parts[:-1]

    def _make_folder_opaque(self, folder: int) -> None:
        self._form.make_opaque(folder)
        self._has_opaque = True

    def _is_opaque(self, found: MergedEntry) -> bool:
        """Whether it is a folder of this layer that is opaque already."""
        return found.path.startswith(self._path + "/") and self._form.is_opaque(found.path)

    def _own(self, place: Parts) -> MergedEntry | None:
        """The entry of this layer itself at a path; None without one."""
        return MergedView([self._path], self._form).find(place)

    # -- folders

    def _resolve(self, parts: Parts) -> Parts:
        """The path of a folder with links followed. Folders of this layer are cached until one is removed."""
        if parts in self._folders:
            return parts
        place = self._all.resolve(parts)
        # Not for links: one of a layer below is replaced by an entry of this layer.
        if place == parts and self._own(place) is not None:
            self._folders.add(place)
        return place

    def _open(self, parts: Parts) -> int:
        """Open a folder of this layer; missing folders are created. Valid until the next one is opened."""
        walk: PathWalk | None = None  # from the first missing folder on

        def enter(folder: int, place: Parts) -> int:
            nonlocal walk
            inner = _open_or_none(folder, place[-1])
            if inner is None:
                walk = walk or self._all.walk(place[:-1])
                inner = self._imply(folder, place, walk)
            return inner

        return self._open_folder.at(parts, enter)

    def _imply(self, folder: int, place: Parts, walk: PathWalk) -> int:
        """Create a folder without an entry, with the attributes from below; `walk` is at its parent, and enters it."""
        name = place[-1]
        found = walk.enter(name)
        implied = of_file(found.path, found.stat) if found is not None else IMPLIED
        self._make_folder(folder, place)
        self._writer.apply(folder, name, implied, mode=stat.S_IFDIR)
        self._dates[place] = implied.mtime_ns
        return os.open(name, FOLDER, dir_fd=folder)

    def _make_folder(self, folder: int, place: Parts) -> None:
        """Create a folder. One that replaces a file or whiteout of this layer is opaque."""
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
                self._make_folder_opaque(inner)
            finally:
                os.close(inner)

    def _apply_to_folder(self, place: Parts, attributes: Attributes) -> None:
        if place:
            self._writer.apply(self._open(place[:-1]), place[-1], attributes, mode=stat.S_IFDIR)
        else:
            self._writer.apply(self._root, ".", attributes, mode=stat.S_IFDIR)
        self._dates[place] = attributes.mtime_ns
        self._bare.discard(place)

    def _clear(self, folder: int, name: str) -> None:
        """Remove what is in the place of a new file."""
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
        """After the last entry: prune whiteouts, and set the times of folders."""
        self._open_folder.leave()
        if self._has_whiteouts and self._has_opaque:
            pruner = WhiteoutPruner(form=self._form, bare=self._bare, step=lambda: _check_stopped(stopped))
            pruner.remove(self._root, opaque=self._root_opaque)
        if self._root_opaque:
            for name in self._below.names():
                own = self._own((name,))
                if own is None:
                    self._form.hide(self._root, name)
                elif own.is_folder:
                    self._make_folder_opaque(self._open((name,)))
        for place, date in self._dates.items():
            _check_stopped(stopped)
            with suppress(OSError):  # of a folder that another entry replaced
                os.utime(self._open_folder.inside(place), ns=(date, date))


def _open_or_none(folder: int, name: str) -> int | None:
    """Open a folder; None if there is none, or a whiteout."""
    try:
        return os.open(name, FOLDER, dir_fd=folder)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        if not is_whiteout(os.stat(name, dir_fd=folder, follow_symlinks=False)):
            raise
        return None
