"""Owners, modes, times and extended attributes of files in layers: read from a tar entry, applied to a file.

Without root as much as possible is applied: files belong to the user, who can always read and remove them.
"""

import errno
import os
import stat
import tarfile
from dataclasses import dataclass
from typing import Final

_PAX: Final = "SCHILY.xattr."
_CAPABILITY: Final = "security.capability"
_USER: Final = "user."
_MOST_ID: Final = (1 << 32) - 2
# Errors of file systems without extended attributes, or without access to them.
_NO_ATTRIBUTES: Final = frozenset((errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.ENODATA))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attributes:
    """The attributes of a file. Of the extended ones only capabilities and `user.*`: overlay interprets others."""

    mode: int
    uid: int
    gid: int
    mtime_ns: int
    extended: tuple[tuple[str, bytes], ...] = ()


# Attributes of folders without an entry.
IMPLIED: Final = Attributes(mode=0o755, uid=0, gid=0, mtime_ns=0)


def of_member(member: tarfile.TarInfo) -> Attributes:
    """The attributes of a tar entry; ValueError for numbers out of range."""
    for name, number in (("uid", member.uid), ("gid", member.gid)):
        if not 0 <= number <= _MOST_ID:
            raise ValueError(f"its {name} {number} is none")
    extended = tuple(
        (name, value.encode("utf-8", "surrogateescape"))
        for key, value in member.pax_headers.items()
        if _is_wanted(name := key.removeprefix(_PAX)) and key.startswith(_PAX)
    )
    try:
        mtime = int(member.mtime * 1_000_000_000)
    except (ValueError, OverflowError):
        raise ValueError(f"its time {member.mtime} is none") from None
    return Attributes(
        mode=member.mode & 0o7777,
        uid=member.uid,
        gid=member.gid,
        mtime_ns=max(0, min(mtime, (1 << 63) - 1)),
        extended=extended,
    )


def of_file(path: str, found: os.stat_result) -> Attributes:
    """The attributes of a file on disk."""
    return Attributes(
        mode=stat.S_IMODE(found.st_mode),
        uid=found.st_uid,
        gid=found.st_gid,
        mtime_ns=found.st_mtime_ns,
        extended=_read_extended(path),
    )


def _read_extended(path: str) -> tuple[tuple[str, bytes], ...]:
    try:
        names = os.listxattr(path, follow_symlinks=False)
        return tuple((name, os.getxattr(path, name, follow_symlinks=False)) for name in names if _is_wanted(name))
    except OSError as error:
        if error.errno in _NO_ATTRIBUTES:
            return ()
        raise


def remove_extended(descriptor: int) -> None:
    """Remove the extended attributes of a file, before others are applied."""
    try:
        for name in filter(_is_wanted, os.listxattr(descriptor)):
            os.removexattr(descriptor, name)
    except OSError as error:
        if error.errno not in _NO_ATTRIBUTES:
            raise


def _is_wanted(name: str) -> bool:
    return name == _CAPABILITY or name.startswith(_USER)


class AttributeWriter:
    """Applies attributes to files in an open folder."""

    def __init__(self, *, privileged: bool) -> None:
        self.privileged = privileged

    def apply(self, folder: int, name: str, attributes: Attributes, *, mode: int) -> None:
        """Apply all attributes; `mode` has the file type. A link is never followed, and has only an owner."""
        if self.privileged:
            os.chown(name, attributes.uid, attributes.gid, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISLNK(mode):
            least = 0 if self.privileged else 0o700 if stat.S_ISDIR(mode) else 0o600
            os.chmod(name, attributes.mode | least, dir_fd=folder)  # a new owner takes bits away
            self._extend(f"/proc/self/fd/{folder}/{name}", attributes)
        os.utime(name, ns=(attributes.mtime_ns, attributes.mtime_ns), dir_fd=folder, follow_symlinks=False)

    def _extend(self, path: str, attributes: Attributes) -> None:
        for name, value in attributes.extended:
            if not self.privileged and name == _CAPABILITY:
                continue
            try:
                os.setxattr(path, name, value, follow_symlinks=False)
            except OSError as error:
                if error.errno not in _NO_ATTRIBUTES:
                    raise
