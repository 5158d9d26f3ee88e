"""Mounts of the node that belong to pods: tmpfs, huge pages and binds, made and taken away.

Only mounts below the folder of a pod are ever made or removed. A path is what the kernel lists, so it must be a real
one, without links in it.
"""

import ctypes
import errno
import os
import re
from pathlib import Path
from typing import Any, Final, Protocol

_MS_NOSUID: Final = 2
_MS_NODEV: Final = 4
_MS_BIND: Final = 4096
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8
_ESCAPE: Final = re.compile(rb"\\([0-7]{3})")
_POINT: Final = 4  # the field of mountinfo that says where


class Mounter(Protocol):
    """Mounts and unmounts. Failures are OSErrors that name the target."""

    @property
    def possible(self) -> bool:
        """Whether we may mount at all."""

    def tmpfs(self, target: str, options: str) -> None:
        """Mount a tmpfs with these options on the target."""

    def hugetlbfs(self, target: str, options: str) -> None:
        """Mount a hugetlbfs with these options on the target."""

    def bind(self, source: int, target: str) -> None:
        """Show what an open descriptor stands for there, whatever becomes of its path."""

    def unmount(self, target: str) -> None:
        """Take the uppermost mount away, in use or not."""

    def below(self, folder: str) -> list[str]:
        """Where something is mounted, in a folder or on it; the innermost first, once for each mount."""


class SystemMounter:
    """Mounts by system calls. Needs CAP_SYS_ADMIN."""

    def __init__(self, mountinfo: str = "/proc/self/mountinfo") -> None:
        self._mountinfo = Path(mountinfo)
        self._libc: Any = ctypes.CDLL(None, use_errno=True)

    @property
    def possible(self) -> bool:
        """Whether we are root; root without CAP_SYS_ADMIN gets an error of the kernel."""
        return os.geteuid() == 0

    def tmpfs(self, target: str, options: str) -> None:
        """Mount a tmpfs with these options on the target."""
        self._mount("tmpfs", target, "tmpfs", _MS_NOSUID | _MS_NODEV, options)

    def hugetlbfs(self, target: str, options: str) -> None:
        """Mount a hugetlbfs with these options on the target."""
        self._mount("hugetlbfs", target, "hugetlbfs", _MS_NOSUID | _MS_NODEV, options)

    def bind(self, source: int, target: str) -> None:
        """Show what an open descriptor stands for there."""
        self._mount(f"/proc/self/fd/{source}", target, None, _MS_BIND, None)

    def unmount(self, target: str) -> None:
        """Take the uppermost mount away. Containers that see it go on with it."""
        # At once, and gone for good when the last user is: a path that is still mounted could not be removed.
        if self._libc.umount2(os.fsencode(target), _MNT_DETACH | _UMOUNT_NOFOLLOW):
            raise _error(target)

    def below(self, folder: str) -> list[str]:
        """Where something is mounted, in a folder or on it."""
        return mounts_below(self._mountinfo.read_bytes(), folder)

    def _mount(self, source: str, target: str, kind: str | None, flags: int, options: str | None) -> None:
        words = [None if word is None else os.fsencode(word) for word in (source, target, kind, options)]
        if self._libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]):
            raise _error(target)


def mounts_below(mountinfo: bytes, folder: str) -> list[str]:
    """The mounts of a mountinfo in a folder or on it, the last one first."""
    base = os.fsencode(folder)
    found = []
    for line in mountinfo.splitlines():
        fields = line.split(b" ")
        point = _ESCAPE.sub(lambda match: bytes([int(match[1], 8) & 0xFF]), fields[_POINT]) if fields[_POINT:] else b""
        if point == base or point.startswith(base + b"/"):
            found.append(os.fsdecode(point))
    return found[::-1]


def _error(target: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, os.strerror(code), target)


def remove_empty(path: str) -> None:
    """Remove a folder of folders whose leaves are empty. What holds anything stays, and is an OSError.

    For places where something was mounted: the kernel refuses to remove what still is, so nothing behind it can be hit.
    """
    try:
        entries = list(os.scandir(path))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            remove_empty(entry.path)
        elif entry.stat(follow_symlinks=False).st_size:
            raise OSError(errno.EBUSY, "is not the empty file that was made as a place to mount", entry.path)
        else:
            os.unlink(entry.path)  # noqa: PTH108
    os.rmdir(path)  # noqa: PTH106
