"""Connections to a port of a pod from inside of its network namespace, for port forwarding.

A thread that has entered a namespace is never used for anything else: it ends with its work.
"""

import asyncio
import ctypes
import os
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, TypeVar

from interpose.node.runtime.network.types import NetworkError

_T = TypeVar("_T")
TIMEOUT: Final = 10.0
_LOCAL: Final = ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1"))
CLONE_NEWNET: Final = 0x40000000
_libc = ctypes.CDLL(None, use_errno=True)


def enter(path: str, kind: int) -> None:
    """Move this thread into the namespace at a path; OSError names the path."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _libc.setns(descriptor, kind) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), path)
    finally:
        os.close(descriptor)


async def in_network(path: str, work: Callable[[], _T]) -> _T:
    """Run `work` in a network namespace, in a thread of its own; an empty path is our own namespace."""

    def job() -> _T:
        if path:
            enter(path, CLONE_NEWNET)
        return work()

    pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="netns")
    try:
        return await asyncio.get_running_loop().run_in_executor(pool, job)
    finally:
        pool.shutdown(wait=False)


async def connect(
    netns: str, port: int, *, timeout: float = TIMEOUT
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to localhost in a network namespace (empty: ours); NetworkError names the port."""
    try:
        connected = await in_network(netns, lambda: _connect(port, timeout))
    except OSError as error:
        raise NetworkError(f"port {port} of the pod: {error.strerror or error}") from None
    try:
        return await asyncio.open_connection(sock=connected)
    except BaseException:
        connected.close()
        raise


def _connect(port: int, timeout: float) -> socket.socket:
    problem: OSError | None = None
    for family, address in _LOCAL:
        try:
            made = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:  # no IPv6 here
            problem = problem or error
            continue
        try:
            made.settimeout(timeout)
            made.connect((address, port))
        except OSError as error:
            made.close()
            problem = problem or error
            continue
        made.setblocking(False)
        return made
    assert problem is not None  # noqa: S101 - one of the two was tried
    raise problem
