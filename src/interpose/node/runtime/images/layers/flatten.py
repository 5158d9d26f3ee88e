"""Copies layers into one plain folder, where overlay cannot be mounted.

The target is written from the lowest layer to the highest, and by no other process. Files are copied with their holes,
links and devices; no link is followed on either side.
"""

import errno
import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from interpose.host.rmtree import remove_at
from interpose.node.runtime.images.layers.attributes import AttributeWriter, of_file, remove_extended
from interpose.node.runtime.images.layers.tar_reader import StoppedError
from interpose.node.runtime.images.layers.whiteouts import MARKED, OVERLAY, WhiteoutFormat

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_STEP: Final = 1 << 27
# Errors of kernels and file systems that cannot copy_file_range.
_NO_COPY_RANGE: Final = frozenset((errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP))


def flatten(
    layers: Sequence[Path],
    target: Path,
    *,
    privileged: bool | None = None,
    stopped: Callable[[], bool] = lambda: False,
) -> None:
    """Make `target` the merged tree of these layers, lowest first. It must not exist, or be empty."""
    target.mkdir(mode=0o755, parents=True, exist_ok=True)
    writer = AttributeWriter(privileged=os.geteuid() == 0 if privileged is None else privileged)
    for layer in layers:
        _Copier(writer, stopped).copy(str(layer), target)


class _Copier:
    """Copies a layer over the layers below it."""

    def __init__(self, writer: AttributeWriter, stopped: Callable[[], bool]) -> None:
        self._writer = writer
        self._stopped = stopped
        self._linked: dict[tuple[int, int], str] = {}  # where files with several names were put

    def copy(self, layer: str, target: Path) -> None:
        descriptor = os.open(target, _FOLDER)
        try:
            remove_extended(descriptor)
            self._folder(layer, descriptor, str(target))
            self._writer.apply(descriptor, ".", of_file(layer, os.lstat(layer)), mode=stat.S_IFDIR)
        finally:
            os.close(descriptor)

    def _folder(self, path: str, target: int, place: str) -> None:
        """Copy the entries of a folder. Whiteouts first: they hide entries of the layers below, not of this one."""
        if self._stopped():
            raise StoppedError
        with os.scandir(path) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        rest = []
        for entry in entries:
            form = _form_of(entry)
            if form is None:
                rest.append(entry)
            elif hidden := form.hidden_name(entry):
                _remove(target, hidden)
        for entry in rest:
            if entry.is_dir(follow_symlinks=False):
                self._enter(entry, target, place)
            else:
                self._file(entry, target, place)

    def _enter(self, entry: "os.DirEntry[str]", target: int, place: str) -> None:
        if OVERLAY.is_opaque(entry.path) or MARKED.is_opaque(entry.path) or not _is_folder(target, entry.name):
            _remove(target, entry.name)
            os.mkdir(entry.name, 0o700, dir_fd=target)
        inner = os.open(entry.name, _FOLDER, dir_fd=target)
        try:
            remove_extended(inner)  # of the folder below only the content stays
            self._folder(entry.path, inner, f"{place}/{entry.name}")
        finally:
            os.close(inner)
        self._writer.apply(
            target, entry.name, of_file(entry.path, entry.stat(follow_symlinks=False)), mode=stat.S_IFDIR
        )

    def _file(self, entry: "os.DirEntry[str]", target: int, place: str) -> None:
        found = entry.stat(follow_symlinks=False)
        _remove(target, entry.name)
        key = (found.st_dev, found.st_ino)
        if found.st_nlink > 1 and key in self._linked:
            os.link(self._linked[key], entry.name, dst_dir_fd=target, follow_symlinks=False)
            return
        try:
            copy_data(entry.path, found, target, entry.name)
        except PermissionError:
            if stat.S_ISREG(found.st_mode):
                raise
            return  # a device that may not be made here
        if stat.S_ISSOCK(found.st_mode):
            return
        self._writer.apply(target, entry.name, of_file(entry.path, found), mode=found.st_mode)
        if found.st_nlink > 1:
            self._linked[key] = f"{place}/{entry.name}"


def _form_of(entry: "os.DirEntry[str]") -> WhiteoutFormat | None:
    return next((form for form in (OVERLAY, MARKED) if form.is_mark(entry)), None)


def _is_folder(folder: int, name: str) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return False


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass
    except (IsADirectoryError, PermissionError) as error:
        if isinstance(error, PermissionError) and error.errno != errno.EPERM:
            raise
        remove_at(folder, name)


def copy_data(path: str, found: os.stat_result, folder: int, name: str) -> int:
    """Create a file of the same type and content; returns its bytes. Owner and mode are not copied."""
    if stat.S_ISREG(found.st_mode):
        return _copy_file(path, folder, name)
    if stat.S_ISLNK(found.st_mode):
        os.symlink(os.readlink(path), name, dir_fd=folder)  # noqa: PTH115 - as it is, not tidied
    elif not stat.S_ISSOCK(found.st_mode):
        os.mknod(name, stat.S_IFMT(found.st_mode) | 0o600, found.st_rdev, dir_fd=folder)
    return 0


def _copy_file(path: str, folder: int, name: str) -> int:
    source = os.open(path, _OLD)
    try:
        target = os.open(name, _NEW, 0o600, dir_fd=folder)
        try:
            size = os.fstat(source).st_size
            copied = 0
            for start, end in _extents(source, size):
                _copy_range(source, target, start, end)
                copied += end - start
            os.ftruncate(target, size)
            return copied
        finally:
            os.close(target)
    finally:
        os.close(source)


def _extents(descriptor: int, size: int) -> list[tuple[int, int]]:
    """The ranges with data; the whole file, where a file system does not support the query."""
    extents = []
    at = 0
    while at < size:
        try:
            start = os.lseek(descriptor, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:
                break  # nothing more
            return [(0, size)]
        at = os.lseek(descriptor, start, os.SEEK_HOLE)
        extents.append((start, min(at, size)))
    return extents


def _copy_range(source: int, target: int, start: int, end: int) -> None:
    at = start
    while at < end:
        try:
            count = os.copy_file_range(source, target, min(end - at, _STEP), at, at)
        except OSError as error:
            if error.errno not in _NO_COPY_RANGE:
                raise
            count = os.pwrite(target, os.pread(source, min(end - at, 1 << 20), at), at)
        if count == 0:
            return  # it became shorter
        at += count
