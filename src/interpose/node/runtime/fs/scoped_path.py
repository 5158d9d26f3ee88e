"""Paths inside a root file system: links in it are resolved inside of it.

Each part of a path is opened by itself and no link is followed by the kernel, so that an image cannot lead us to the
host's files, not even while it is being changed.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_PART: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS: Final = 40
_LIMIT: Final = 1 << 20


@contextmanager
def open_inside(root: str, path: str) -> Iterator[int]:
    """An O_PATH descriptor of a path in the root; OSError (ENOENT, ENOTDIR, ELOOP) if there is no file."""
    stack = [os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)]
    try:
        _descend(stack, deque(path.split("/")), path)
        yield stack[-1]
    finally:
        for descriptor in stack:
            os.close(descriptor)


def read_inside(root: str, path: str, *, limit: int = _LIMIT) -> str | None:
    """The text of a small regular file, cut at the limit; None if there is no such file."""
    try:
        with open_inside(root, path) as place:
            if not stat.S_ISREG(os.fstat(place).st_mode):
                return None
            descriptor = os.open(f"/proc/self/fd/{place}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise
    with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
        return file.read(limit).decode("utf-8", "surrogateescape")


def _descend(stack: list[int], parts: deque[str], path: str) -> None:
    links = 0
    while parts:
        name = parts.popleft()
        if name in ("", "."):
            continue
        if name == "..":
            if len(stack) > 1:
                os.close(stack.pop())
            continue
        descriptor = os.open(name, _PART, dir_fd=stack[-1])
        if not stat.S_ISLNK(os.fstat(descriptor).st_mode):
            stack.append(descriptor)
            continue
        try:
            target = os.readlink("", dir_fd=descriptor)
        finally:
            os.close(descriptor)
        links += 1
        if links > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            while len(stack) > 1:
                os.close(stack.pop())
        parts.extendleft(reversed(target.split("/")))
