"""The last words of a container: what it wrote into its message file, or the end of its log. Reads files, never waits.

Paths come from the runtime and what is behind them from a container: only plain files are read, and little of them.
"""

import os
import stat
from typing import Any, Final

from interpose.node.pods.logs.format import last_content
from interpose.node.pods.status.annotations import ContainerAnnotations
from interpose.node.pods.status.container_values import TerminationMessagePolicy

_LARGEST_MESSAGE: Final = 4096
_LARGEST_LOG: Final = 2048
_LOG_LINES: Final = 80
_LOG_READ: Final = 256 << 10
_CANNOT_RUN: Final = "ContainerCannotRun"


def read_termination_message(status: Any, notes: ContainerAnnotations) -> str:
    """The message of a container that has ended, from its CRI status; empty if it left none."""
    message = _from_file(status, notes.termination_message_path)
    fallback = notes.termination_message_policy == TerminationMessagePolicy.FALLBACK_TO_LOGS
    if message or not fallback or status.exit_code == 0 or status.reason == _CANNOT_RUN:
        return message
    return last_content(read_tail(status.log_path, _LOG_READ), lines=_LOG_LINES, size=_LARGEST_LOG)


def _from_file(status: Any, path: str) -> str:
    host_path = next((mount.host_path for mount in status.mounts if path and mount.container_path == path), "")
    return read_tail(host_path, _LARGEST_MESSAGE).decode("utf-8", "replace")


def read_tail(path: str, size: int) -> bytes:
    """The last bytes of a plain file; nothing if it cannot be read."""
    if not path:
        return b""
    try:
        # Without waiting: the other end of a pipe may never come.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return b""
        return os.pread(fd, size, max(found.st_size - size, 0))
    except OSError:
        return b""
    finally:
        os.close(fd)
