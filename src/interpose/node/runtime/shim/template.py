"""The template process: it has all the code of a shim in memory and forks shims.

Its memory is shared by all shims, which is most of a shim's memory, and no shim has to start an interpreter. It belongs
to one runtime: requests come over its standard input, a socket, and it ends with that socket. Shims do not: they are no
children of it.
"""

import ctypes
import gc
import json
import os
import socket
import sys

from interpose.node.runtime.shim.main import MAX_FD, run_detached

REQUEST_LIMIT = 1 << 16
_FDS = 2  # for the ready line of a shim, and for its log
_ARG_START = 45  # in /proc/self/stat, counted from the state of the process


def main() -> None:
    """Fork shims until the runtime is gone."""
    os.closerange(3, MAX_FD)  # not every event loop closes descriptors for its children
    # The garbage collector does not touch these pages any more, so that they stay shared.
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=0)
    while True:
        request_data, fds, _, _ = socket.recv_fds(requests, REQUEST_LIMIT, _FDS)
        if not request_data:
            return
        if len(fds) == _FDS:
            child = os.fork()
            if child == 0:
                requests.detach()
                _shim(request_data, fds)
            os.waitpid(child, 0)
        for fd in fds:
            os.close(fd)


def _shim(request_data: bytes, fds: list[int]) -> None:
    """In the child: set up streams, session and command line, then run the shim."""
    try:
        request = json.loads(request_data)
        null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
        for number, fd in enumerate((null, *fds)):
            os.dup2(fd, number)
        os.setsid()
        replace_argument(sys.argv[-1], request["folder"])
        run_detached(request["folder"], request["options"])
    finally:
        os._exit(1)


def replace_argument(old: str, new: str) -> None:
    """Replace a word of our command line, for `ps`; cut if it is longer."""
    with open("/proc/self/cmdline", "rb") as file:  # noqa: PTH123
        words = file.read()
    with open("/proc/self/stat", "rb") as file:  # noqa: PTH123
        begin = int(file.read().rpartition(b")")[2].split()[_ARG_START])
    place, room = words.rfind(os.fsencode(old)), len(os.fsencode(old))
    if begin > 0 and place >= 0:
        ctypes.memmove(begin + place, os.fsencode(new)[:room].ljust(room, b"\0"), room)
