"""One relay takes over from another: the listening descriptors change hands, no call fails.

The successor starts fully and connects to the admin socket of the one that runs. The answer to its request carries the
descriptors of both sockets and of their locks, of the one for metrics if there is one, and of the lock on the state of
a policy. From then on both accept. When the successor says that it does, the predecessor drains and ends; one that dies
before that changes nothing.
"""

import json
import logging
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from interpose.errors import ConfigError
from interpose.host.fd_passing import receive_descriptors, send_descriptors
from interpose.host.unix_sockets import BoundSocket, adopt

_log = logging.getLogger(__name__)

PATH: Final = "/v1/take-over"
READY: Final = b"ready\n"
_VERSION: Final = 1
_TIMEOUT: Final = 10.0
_MOST: Final = 64 << 20


class HeldLock(NamedTuple):
    """A lock as it is handed over: which file it is, and the descriptor that holds it."""

    path: str
    descriptor: int


@dataclass(frozen=True, slots=True)
class TakeoverState:
    """What the previous instance hands over: its sockets, those of systemd, and its state."""

    listen: BoundSocket
    admin: BoundSocket
    watchdog_interval: float | None
    memory: Mapping[str, Any]  # what parts of it knew and no runtime remembers
    metrics: socket.socket | None = None
    metrics_listen: str = ""  # where that listens, as it was said; a relay that says the same goes on with it
    lock: HeldLock | None = None  # on what a policy remembers


class PreviousRelay:
    """The connection to the relay that runs; it drains after the message `ready`, and only then."""

    def __init__(self, sock: socket.socket, pid: int, estate: TakeoverState) -> None:
        self._sock = sock
        self.pid = pid
        self.estate = estate

    def ready(self) -> None:
        """We accept: the predecessor may go."""
        try:
            self._sock.sendall(READY)
        except OSError as error:
            _log.warning("Previous relay has already exited", extra={"kv": {"pid": self.pid, "err": str(error)}})
        finally:
            self._sock.close()


def hand_over(
    sock: socket.socket,
    listen: BoundSocket,
    admin: BoundSocket,
    watchdog: float | None,
    memory: Mapping[str, Any] | None = None,
    metrics: tuple[str, socket.socket] | None = None,
    lock: HeldLock | None = None,
) -> None:
    """Answer a successor: the state as an HTTP response, the descriptors attached to it.

    `metrics` is the address of that listener, as it was said, and its socket; `lock` that on a policy's state.
    """
    body = json.dumps(
        {
            "version": _VERSION,
            "pid": os.getpid(),
            "listen": {"path": listen.path, "owned": listen.identity is not None, "fds": len(listen.descriptors)},
            "admin": {"path": admin.path, "owned": admin.identity is not None, "fds": len(admin.descriptors)},
            "watchdog_interval": watchdog,
            "memory": dict(memory or {}),
            **({} if metrics is None else {"metrics": {"listen": metrics[0]}}),
            **({} if lock is None else {"lock": {"path": lock.path}}),
        }
    ).encode()
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    last = [] if metrics is None else [metrics[1].fileno()]
    if lock is not None:
        # The last of all: a successor of an older version does not look for it, and holds it while it lives.
        last.append(lock.descriptor)
    send_descriptors(sock, head + body, [*listen.descriptors, *admin.descriptors, *last])


def request_takeover(admin_path: str) -> PreviousRelay | None:
    """Ask the relay behind this admin socket to hand over; None if none is running."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.settimeout(_TIMEOUT)
    try:
        sock.connect(admin_path)
    except (FileNotFoundError, ConnectionRefusedError):
        sock.close()
        return None
    try:
        sock.sendall(f"POST {PATH} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n".encode())
        answer, fds = receive_descriptors(sock, timeout=_TIMEOUT)
        return PreviousRelay(sock, *_read_estate(admin_path, _read_on(sock, answer), fds))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        sock.close()
        raise ConfigError(f"--take-over: the relay behind {admin_path} cannot hand over: {error}") from error


def _read_on(sock: socket.socket, answer: bytes) -> bytes:
    """The rest of the answer: what a predecessor remembers may be more than one read brings."""
    head, _, body = answer.partition(b"\r\n\r\n")
    length = next(
        (int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0
    )
    if length > _MOST:
        raise ValueError(f"its answer has {length} bytes")
    missing = length - len(body)
    while missing > 0:
        more = sock.recv(min(missing, 1 << 16))
        if not more:
            raise ValueError("its answer was cut short")
        answer += more
        missing -= len(more)
    return answer


def _read_estate(admin_path: str, answer: bytes, fds: list[int]) -> tuple[int, TakeoverState]:
    head, _, body = answer.partition(b"\r\n\r\n")
    status = head.split(b"\r\n", 1)[0]
    if b" 200" not in status:
        raise ValueError(f"it answered {status.decode('latin-1')!r} {body.decode('utf-8', 'replace').strip()}")
    state = json.loads(body)
    if state["version"] != _VERSION:
        raise ValueError(f"it speaks version {state['version']} of the take-over, we speak {_VERSION}")
    sockets = []
    for key in ("listen", "admin"):
        count = state[key]["fds"]
        mine, fds = fds[:count], fds[count:]
        sock = socket.socket(fileno=mine[0])
        lock = mine[1] if len(mine) > 1 else None
        sockets.append(adopt(sock, lock, state[key]["path"], owned=state[key]["owned"]))
    if sockets[1].path != admin_path:
        raise ValueError(f"its admin socket is {sockets[1].path}")
    memory = state.get("memory")
    metrics, lock = state.get("metrics"), state.get("lock")  # one of an older version has none
    return state["pid"], TakeoverState(
        sockets[0],
        sockets[1],
        state["watchdog_interval"],
        memory if isinstance(memory, dict) else {},
        None if metrics is None else socket.socket(fileno=fds.pop(0)),
        "" if metrics is None else metrics["listen"],
        None if lock is None else HeldLock(lock["path"], fds.pop(0)),
    )
