"""Where a shim keeps its few files, and who it is when it does not answer.

A folder per sandbox, for its owner alone. Its path may be longer than a socket's may be: nobody uses it in full.
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
        """Where it listens."""
        return self.folder / SOCKET

    @property
    def process(self) -> Path:
        """Who it is: pid, start time, boot, holder."""
        return self.folder / PROCESS

    @property
    def log(self) -> Path:
        """What it had to say; nearly always empty."""
        return self.folder / LOG


def living_shim(paths: ShimPaths, *, proc: Path = Path("/proc")) -> int | None:
    """The pid of the shim that was started for this folder if that very process lives, else None."""
    try:
        said = json.loads(paths.process.read_bytes())
        pid, started, boot = int(said["pid"]), str(said["started"]), str(said["boot"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    if boot != boot_id(proc):
        return None
    return pid if start_time(pid, proc) == started else None


def start_time(pid: int, proc: Path = Path("/proc")) -> str | None:
    """When a process started, in the kernel's ticks: with its pid the identity of a process. None if it is gone."""
    try:
        fields = (proc / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if len(fields) < 20 or fields[0] in b"ZX" else fields[19].decode()


def boot_id(proc: Path = Path("/proc")) -> str:
    """Which boot of the machine this is."""
    try:
        return (proc / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def kill_shim(paths: ShimPaths) -> bool:
    """Kill the shim of this folder if it lives, and with it its holder; True if there was one."""
    pid = living_shim(paths)
    if pid is None:
        return False
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
