"""Whether a file or directory may be believed: it belongs to a trusted user, and no other user can write to it.

Looking never hangs and has no effects, whatever stands there under the name.
"""

import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from interpose.host.unix_sockets import kind_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """The users whose files count, as long as no other user can write to them."""

    uids: Collection[int] = field(default_factory=lambda: {0, os.getuid()})
    gids: Collection[int] = field(default_factory=lambda: {0, os.getgid()})

    def doubts(self, found: os.stat_result) -> str | None:
        """Why a file or directory does not count; None if it does."""
        mode = f"mode {stat.S_IMODE(found.st_mode):04o}"
        if found.st_uid not in self.uids:
            allowed = " or ".join(map(str, sorted(self.uids)))
            return f"belongs to uid {found.st_uid}, it must belong to uid {allowed}"
        if found.st_mode & stat.S_IWOTH:
            return f"has {mode}, everybody may write to it (chmod o-w)"
        if found.st_mode & stat.S_IWGRP and found.st_gid not in self.gids:
            return f"has {mode}, group {found.st_gid} may write to it (chmod g-w)"
        return None


class Stamp(NamedTuple):
    """What tells one version of a file from another, as far as the file system says it."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int


class ExaminedFile(NamedTuple):
    """A file as it was found, and why it does not count."""

    stamp: Stamp
    doubts: tuple[str, ...]


def examine(path: str, trust: Trust) -> ExaminedFile:
    """Look at a file; FileNotFoundError if there is none, or only a link to nothing.

    Of a link the folder it leads to counts too: a user who may write there may put another file in its place.
    """
    found = os.stat(path)  # noqa: PTH116 - of whatever the name leads to
    stamp = Stamp(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    if not stat.S_ISREG(found.st_mode):
        kind = "a socket" if stat.S_ISSOCK(found.st_mode) else kind_of(found.st_mode)
        return ExaminedFile(stamp, (f"is {kind}, not a regular file",))
    return ExaminedFile(stamp, _all_doubts(path, found, trust))


def examine_directory(path: str, trust: Trust) -> tuple[str, ...]:
    """Why a directory does not count: a user who may write there decides what is in it. OSError if there is none."""
    found = os.stat(path)  # noqa: PTH116
    if not stat.S_ISDIR(found.st_mode):
        return ("is not a directory",)
    return _all_doubts(path, found, trust)


def _all_doubts(path: str, found: os.stat_result, trust: Trust) -> tuple[str, ...]:
    doubts = [trust.doubts(found)]
    if stat.S_ISLNK(os.lstat(path).st_mode):
        folder = os.path.dirname(os.path.realpath(path))  # noqa: PTH120 - a real path
        if about := trust.doubts(os.stat(folder)):  # noqa: PTH116
            doubts.append(f"leads to {folder}, which {about}")
    return tuple(filter(None, doubts))
