"""Files that survive a crash: whenever the process or the machine stops, the old file is there or the new one.

A new one is written beside the old one, brought to the disk, and put in its place in one step. What a file under the
name turns out not to be is set aside for people, and only the last few such files are kept.
"""

import errno
import os
import re
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final

from interpose.host.trust import Trust

KEPT: Final = 3  # damaged files, so that a disk is not filled by whatever damages them
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


def replace_file(path: str, data: bytes) -> None:
    """Put a file with this content in the place of the one that is there; OSError if that cannot be done.

    It is for its owner alone, and so is its directory if there was none.
    """
    target = Path(path)
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # With our number: a process that takes over from another one has a file of its own.
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        _write(temporary, data)
        os.replace(temporary, path)  # noqa: PTH105 - one of a row of steps of the same kind
    except OSError:
        with suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise
    _sync_directory(str(target.parent))


def read_own(path: str, limit: int) -> bytes:
    """What a file holds that only its owner can write; FileNotFoundError if there is none.

    ValueError if it is not a file, is somebody else's, others may write to it, or it is larger than `limit`; OSError if
    it cannot be read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | _FLAGS)
    except NotADirectoryError as error:
        raise FileNotFoundError(error.errno, error.strerror, path) from None
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            raise ValueError("is not a regular file") from None
        raise
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("is not a regular file")
        if doubts := Trust(gids=()).doubts(found):
            raise ValueError(doubts)
        with open(fd, "rb", closefd=False) as file:
            data = file.read(limit + 1)
    finally:
        os.close(fd)
    if len(data) > limit:
        raise ValueError(f"is larger than {limit} bytes")
    return data


def set_aside(path: str) -> str:
    """Give a damaged file another name, and return that; OSError if it cannot be moved. The oldest of these go."""
    taken = sorted(_numbers(path, r"damaged-([0-9]{1,9})"))
    last = taken[-1] if taken else 0
    aside = f"{path}.damaged-{last + 1}"
    os.rename(path, aside)  # noqa: PTH104
    for old in taken[: max(0, len(taken) + 1 - KEPT)]:
        with suppress(OSError):
            os.unlink(f"{path}.damaged-{old}")  # noqa: PTH108
    return aside


def remove_leftovers(path: str) -> None:
    """Remove what processes that were killed while writing left behind."""
    for pid in _numbers(path, r"([0-9]{1,9})\.tmp"):
        if not Path(f"/proc/{pid}").exists():
            with suppress(OSError):
                os.unlink(f"{path}.{pid}.tmp")  # noqa: PTH108


def _write(path: str, data: bytes) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _FLAGS, 0o600)
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_directory(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _numbers(path: str, form: str) -> list[int]:
    """The numbers in the names of files beside this one: NAME.FORM."""
    folder, name = os.path.split(path)
    pattern = re.compile(re.escape(f"{name}.") + form, re.ASCII)
    try:
        names = os.listdir(folder or ".")  # noqa: PTH208
    except OSError:
        return []
    return [int(match[1]) for one in names if (match := pattern.fullmatch(one))]
