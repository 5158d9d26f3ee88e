"""A process that has all the code of a shim in memory and makes shims by forking.

What was loaded here once is shared by all shims, which is most of what a shim has in memory, and no shim has to start
an interpreter. It belongs to one runtime: requests come over its standard input, a socket, and it ends with that
socket. Shims do not: they are nobody's children.
"""

import ctypes
import gc
import json
import os
import socket
import sys

from interpose.node.runtime.shim.main import MANY, become

REQUEST_LIMIT = 1 << 16
_FDS = 2  # where a shim says that it is ready, and its log
_ARG_START = 45  # in /proc/self/stat, counted from the state of the process


def main() -> None:
    """Until the runtime is gone."""
    os.closerange(3, MANY)  # not every event loop closes what is none of a child's business
    # Not touched by the collector any more, so that these pages stay shared.
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=0)
    while True:
        said, fds, _, _ = socket.recv_fds(requests, REQUEST_LIMIT, _FDS)
        if not said:
            return
        if len(fds) == _FDS:
            child = os.fork()
            if child == 0:
                requests.detach()
                _shim(said, fds)
            os.waitpid(child, 0)
        for fd in fds:
            os.close(fd)


def _shim(said: bytes, fds: list[int]) -> None:
    """In a child: what whoever starts a shim as a command would have seen to."""
    try:
        request = json.loads(said)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for number, fd in enumerate((null, *fds)):
            os.dup2(fd, number)
        os.setsid()
        show_as(sys.argv[-1], request["folder"])
        become(request["folder"], request["options"])
    finally:
        os._exit(1)


def show_as(old: str, new: str) -> None:
    """Put another word in the place of one of our command line, for whoever looks with `ps`; cut if it is longer."""
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
        words = file.read()
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        begin = int(file.read().rpartition(b")")[2].split()[_ARG_START])
    place, room = words.rfind(os.fsencode(old)), len(os.fsencode(old))
    if begin > 0 and place >= 0:
        ctypes.memmove(begin + place, os.fsencode(new)[:room].ljust(room, b"\0"), room)
