"""Files of ours that are found at a start: believed only if nobody else can have written them.

What a file under the name turns out not to be is set aside for people, and only the last few such files are kept.
"""

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from interpose.host.atomic_file import numbers_beside
from interpose.host.file_trust import Trust

KEPT: Final = 3  # damaged files, so that a disk is not filled by whatever damages them
_FLAGS: Final = os.O_CLOEXEC | os.O_NOFOLLOW


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
    taken = sorted(numbers_beside(path, r"damaged-([0-9]{1,9})"))
    last = taken[-1] if taken else 0
    aside = f"{path}.damaged-{last + 1}"
    os.rename(path, aside)  # noqa: PTH104
    for old in taken[: max(0, len(taken) + 1 - KEPT)]:
        with suppress(OSError):
            os.unlink(f"{path}.damaged-{old}")  # noqa: PTH108
    return aside
