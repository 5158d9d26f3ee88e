"""Passing open descriptors to another process over a connected unix stream socket (SCM_RIGHTS).

The payload is opaque: descriptors travel with its first byte, the receiver gets them with the first chunk it reads.
The mode of the socket (blocking or not) neither matters nor changes. A receiver never keeps a part of the descriptors.
"""

import array
import math
import os
import select
import socket
import time
from collections.abc import Sequence

_TIMEOUT = 5.0
_CHUNK = 65536


def send_descriptors(sock: socket.socket, payload: bytes, fds: Sequence[int], *, timeout: float = _TIMEOUT) -> None:
    """Send all of `payload`, with copies of `fds` attached to its first byte. Ours stay open."""
    if not payload:
        raise ValueError("descriptors need at least one byte of payload to travel with")
    deadline = time.monotonic() + timeout
    rest = memoryview(payload)
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    while rest:
        try:
            sent = sock.sendmsg([rest], ancillary, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except BlockingIOError:
            _wait(sock, select.POLLOUT, deadline, "peer does not read")
            continue
        # A short send took the descriptors along: once is enough.
        ancillary = []
        rest = rest[sent:]


def receive_descriptors(
    sock: socket.socket, max_fds: int = 8, timeout: float = _TIMEOUT, *, max_bytes: int = _CHUNK
) -> tuple[bytes, list[int]]:
    """The next chunk of payload and the descriptors that came with it; `(b"", [])` when the peer has closed.

    The caller owns the descriptors, which are not inherited by programs it starts, and reads on for more payload.
    """
    deadline = time.monotonic() + timeout
    # Exactly max_fds fit: CMSG_SPACE would round up and let one more in.
    room = socket.CMSG_LEN(max_fds * array.array("i").itemsize)
    while True:
        try:
            payload, ancillary, flags, _ = sock.recvmsg(max_bytes, room, socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC)
            break
        except BlockingIOError:
            _wait(sock, select.POLLIN, deadline, "nothing was received")
    fds = array.array("i")
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    if flags & socket.MSG_CTRUNC:
        for fd in fds:
            os.close(fd)
        raise OSError(
            f"descriptors were lost on the way: more than {max_fds} were sent, or our limit of open files is reached"
        )
    return payload, fds.tolist()


def _wait(sock: socket.socket, event: int, deadline: float, problem: str) -> None:
    poller = select.poll()
    poller.register(sock, event)
    left = deadline - time.monotonic()
    # Rounded up, so that the last wait does not end as a busy loop; a hang-up wakes us too and the call then says why.
    if left <= 0 or not poller.poll(math.ceil(left * 1000)):
        raise TimeoutError(f"passing descriptors timed out: {problem}")
