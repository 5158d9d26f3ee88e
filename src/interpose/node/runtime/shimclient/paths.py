"""The files of a shim, and the identity of its process.

A folder per sandbox, for its owner alone. Its path may be too long for a socket: the socket is opened relative to it.
"""

import json
import os
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SOCKET: Final = "shim.sock"
PROCESS: Final = "shim.json"
LOG: Final = "shim.log"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShimPaths:
    """The folder of one shim, in the state folder of the runtime. It exists before the shim is launched."""

    folder: Path

    @property
    def socket(self) -> Path:
        """The socket that the shim listens at."""
        return self.folder / SOCKET

    @property
    def process(self) -> Path:
        """The identity of the shim: pid, start time, boot id, pause process."""
        return self.folder / PROCESS

    @property
    def log(self) -> Path:
        """The log of the shim itself, which is nearly always empty."""
        return self.folder / LOG


def living_shim(paths: ShimPaths, *, proc: Path = Path("/proc")) -> int | None:
    """The pid of the shim of this folder if that very process lives, else None."""
    try:
        document = json.loads(paths.process.read_bytes())
        pid, started, boot = int(document["pid"]), str(document["started"]), str(document["boot"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if boot != boot_id(proc):
        return None
    return pid if start_time(pid, proc) == started else None


def start_time(pid: int, proc: Path = Path("/proc")) -> str | None:
    """The start time of a process in kernel ticks: with the pid its identity. None if it is gone."""
    try:
        fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if len(fields) < 20 or fields[0] in b"ZX" else fields[19].decode()


def boot_id(proc: Path = Path("/proc")) -> str:
    """The id of the current boot of the machine; empty if unknown."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def kill_shim(paths: ShimPaths) -> bool:
    """Kill the shim of this folder if it lives, and with it its pause process; True if there was one."""
    pid = living_shim(paths)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
