"""The protocol between a service and systemd: sockets passed in (LISTEN_FDS), states sent out (NOTIFY_SOCKET).

The protocol is two environment variables and datagrams of KEY=VALUE lines; no library is needed. Bad sockets stop the
start, a failing notification never does.
"""

import os
import socket
import time
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

from interpose.errors import ConfigError

_FIRST_FD = 3
_VARIABLES = ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PIDFDID")
# systemd reads at once; a notification may not hold up the event loop if it does not.
_SEND_SECONDS = 0.1


class ActivatedSocket(NamedTuple):
    """A listening socket from systemd; `name` is FileDescriptorName= of the .socket unit ("unknown" if unset)."""

    name: str
    sock: socket.socket


def listen_fds(environ: MutableMapping[str, str], *, first_fd: int = _FIRST_FD) -> list[socket.socket]:
    """The listening unix sockets systemd passed to this process; see `named_listen_fds`."""
    return [activated.sock for activated in named_listen_fds(environ, first_fd=first_fd)]


def named_listen_fds(environ: MutableMapping[str, str], *, first_fd: int = _FIRST_FD) -> list[ActivatedSocket]:
    """Take the sockets meant for our PID.

    The variables are removed from `environ` in any case, so that no child mistakes them for its own.
    """
    values = {name: environ.pop(name, "") for name in _VARIABLES}
    if values["LISTEN_PID"] != str(os.getpid()):
        return []
    count = values["LISTEN_FDS"]
    if not (count.isascii() and count.isdecimal() and len(count) <= 4):
        raise ConfigError(f"LISTEN_FDS: {count!r} is not a number of descriptors")
    names = values["LISTEN_FDNAMES"].split(":") if values["LISTEN_FDNAMES"] else []
    sockets: list[ActivatedSocket] = []
    try:
        for index in range(int(count)):
            name = names[index] if index < len(names) else "unknown"
            sockets.append(ActivatedSocket(name, _wrap_listener(first_fd + index, name)))
    except BaseException:
        for activated in sockets:
            activated.sock.close()
        raise
    return sockets


def _wrap_listener(fd: int, name: str) -> socket.socket:
    """Wrap one descriptor, or say what is wrong with its unit."""
    try:
        os.set_inheritable(fd, False)
        sock = socket.socket(fileno=fd)
    except OSError as exc:
        raise ConfigError(f"LISTEN_FDS: descriptor {fd} ({name}) is not an open socket: {exc.strerror}") from exc
    if sock.family != socket.AF_UNIX or sock.type != socket.SOCK_STREAM:
        problem = "is not a unix stream socket, use ListenStream= with an absolute path in the .socket unit"
    elif not sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        problem = "does not listen, set Accept=no in the .socket unit"
    else:
        sock.setblocking(False)
        return sock
    sock.close()
    raise ConfigError(f"LISTEN_FDS: descriptor {fd} ({name}) {problem}")


class Notifier:
    """Sends the state of the service to systemd. Never raises; without NOTIFY_SOCKET every call returns False."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = _notify_address(environ.get("NOTIFY_SOCKET", ""))
        self.watchdog_interval = _watchdog_interval(environ) if self._address else None

    @property
    def enabled(self) -> bool:
        """Whether systemd listens for notifications."""
        return self._address is not None

    def ready(self, status: str = "", *, mainpid: int | None = None) -> bool:
        """Started, or finished reloading. A successor adds its own PID: there is no moment without a main process."""
        return self._send("READY=1", *_mainpid(mainpid), *_status(status))

    def stopping(self, status: str = "") -> bool:
        """Shutting down, in-flight calls are being finished."""
        return self._send("STOPPING=1", *_status(status))

    def reloading(self, status: str = "") -> bool:
        """A reload has begun; `ready` ends it. The time stamp is what Type=notify-reload asks for."""
        return self._send("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}", *_status(status))

    def status(self, text: str) -> bool:
        """The line that `systemctl status` shows."""
        return self._send(*_status(text or " "))

    def watchdog(self) -> bool:
        """Still alive; False unless systemd watches (`watchdog_interval`), so that any tick of a second may call it."""
        return self.watchdog_interval is not None and self._send("WATCHDOG=1")

    def mainpid(self, pid: int, status: str = "") -> bool:
        """Another process is the main one from now on (the unit needs NotifyAccess=all)."""
        return self._send(*_mainpid(pid), *_status(status))

    def _send(self, *lines: str) -> bool:
        if self._address is None:
            return False
        try:
            # A new socket each time: systemd may have re-executed itself since. Connected, because only then does the
            # wait for room in systemd's queue work.
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
                sock.settimeout(_SEND_SECONDS)
                sock.connect(self._address)
                sock.send("\n".join(lines).encode("utf-8", "replace"))
        except (OSError, ValueError):
            return False
        return True


def _notify_address(text: str) -> str | bytes | None:
    if text.startswith("/"):
        return text
    return b"\0" + os.fsencode(text[1:]) if text.startswith("@") else None


def _watchdog_interval(environ: Mapping[str, str]) -> float | None:
    """Half of WATCHDOG_USEC in seconds, as systemd advises; None when off or meant for another process."""
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    text = environ.get("WATCHDOG_USEC", "")
    if not (text.isascii() and text.isdecimal()) or int(text) == 0:
        return None
    return int(text) / 2_000_000


def _status(text: str) -> list[str]:
    """A line break in the text would start another variable."""
    return [f"STATUS={' '.join(text.splitlines())}"] if text else []


def _mainpid(pid: int | None) -> list[str]:
    return [] if pid is None else [f"MAINPID={pid}"]
