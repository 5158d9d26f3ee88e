"""The process at the other end of a unix socket.

The kernel records credentials when a socket is connected, and for a listening one when listen() was called last: that
is how a live owner is named. They are for checks and messages; file permissions stay the real guard.
"""

import errno
import os
import socket
import struct
from collections.abc import Callable, Collection
from typing import NamedTuple

from interpose.errors import SocketInUseError

_CREDENTIALS = struct.Struct("iII")
_TIMEVAL = struct.Struct("ll")
# A healthy server accepts within microseconds; only one with a full queue makes us wait at all.
_PROBE_MICROSECONDS = 200_000


class PeerCredentials(NamedTuple):
    """Process, user and group of a peer, as seen from our namespaces; a PID of 0 is one that we cannot see."""

    pid: int
    uid: int
    gid: int


def peer_credentials(sock: socket.socket) -> PeerCredentials:
    """The credentials of the process at the other end of a connected unix socket."""
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return PeerCredentials(*_CREDENTIALS.unpack(raw))


def require_uids(uids: Collection[int] | None = None) -> Callable[[socket.socket], None]:
    """A check that a socket we have connected to is served by one of these users: root and ourselves by default.

    The check raises PermissionError that names the user. The kernel vouches for the connection itself: no other
    socket can take its place.
    """
    allowed = frozenset({0, os.getuid()} if uids is None else uids)

    def check(sock: socket.socket) -> None:
        uid = peer_credentials(sock).uid
        if uid not in allowed:
            names = " or ".join(map(str, sorted(allowed)))
            raise PermissionError(errno.EACCES, f"it belongs to uid {uid}, it must belong to uid {names}")

    return check


def check_unowned(path: str) -> None:
    """Raise SocketInUseError if a process serves the socket at `path`; return if it is dead or not there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        # A blocking connect with a kernel timeout: a non-blocking one fails at once when the owner's queue is full,
        # and poll() does not wait for a unix socket's queue.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _TIMEVAL.pack(0, _PROBE_MICROSECONDS))
        code = sock.connect_ex(path)
        if code in (errno.ECONNREFUSED, errno.ENOENT):
            return
        if code == 0:
            raise SocketInUseError(path, peer_credentials(sock).pid or None)
        if code in (errno.EAGAIN, errno.EPROTOTYPE, errno.EINPROGRESS):
            # Bound by someone who does not accept, or by a datagram socket: alive, but its process has no name.
            raise SocketInUseError(path, None)
        raise OSError(code, f"cannot tell whether socket {path} is in use: {os.strerror(code)}")
