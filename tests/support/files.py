"""Small helpers for tests about files."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def file_at(path: str) -> tuple[int, int, int]:
    """Which file stands there, links not followed; times are left out, connecting touches them."""
    found = os.lstat(path)
    return found.st_dev, found.st_ino, found.st_mode


@contextmanager
def umask(value: int) -> Iterator[None]:
    """Run with another umask."""
    before = os.umask(value)
    try:
        yield
    finally:
        os.umask(before)
