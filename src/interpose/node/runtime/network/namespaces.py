"""Work in another network namespace.

A thread that has entered one is never used for anything else: it ends with its work.
"""

import asyncio
import ctypes
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

_T = TypeVar("_T")
CLONE_NEWNET: Final = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def enter(path: str, kind: int) -> None:
    """Put this thread into the namespace at a path; OSError with the path."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, kind) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(descriptor)


async def in_network(path: str, work: Callable[[], _T]) -> _T:
    """Do something in a network namespace, in a thread of its own; an empty path is where we are."""

    def job() -> _T:
        if path:
            enter(path, CLONE_NEWNET)
        return work()

    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="netns")
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, job)
    finally:
        pool.shutdown(wait=False)
