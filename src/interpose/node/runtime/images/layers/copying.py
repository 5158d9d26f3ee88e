"""One file of a layer, made again in an open folder: data with its holes, links, devices. No link is followed."""

import errno
import os
import stat
from typing import Final

_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OLD: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_STEP: Final = 1 << 27
# What kernels and file systems say that cannot copy by themselves.
_BY_HAND: Final = frozenset((errno.ENOSYS, errno.EXDEV, errno.EINVAL, errno.EOPNOTSUPP))


def copy_data(path: str, found: os.stat_result, folder: int, name: str) -> int:
    """Make a file of the same kind with the same content; how many bytes it has. Owner and mode are not copied."""
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
    """Where there is data; all of it, where a file system does not tell."""
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
            if error.errno not in _BY_HAND:
                raise
            count = os.pwrite(target, os.pread(source, min(end - at, 1 << 20), at), at)
        if count == 0:
            return  # it became shorter
        at += count
