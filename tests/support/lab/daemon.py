"""What the daemons of the lab share: a scratch folder, a child, and leaving nothing behind."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import ClassVar, Self

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import wait_for
from tests.support.lab.service import Service


class LabDaemon(Service):
    """A container daemon with all its state in one folder; the socket path stays the same over restarts."""

    state: ClassVar[tuple[str, ...]]
    """Folders below `folder` that are removed at the end."""

    def __init__(self, folder: Path, socket: str) -> None:
        super().__init__(folder / f"{self.name}.log")
        self.folder = folder
        self.socket = folder / socket

    @property
    def containerd_socket(self) -> Path:
        """The socket by which its shims know their containerd."""
        return self.socket

    def __enter__(self) -> Self:
        self.folder.mkdir(parents=True, exist_ok=True)
        return super().__enter__()

    def __exit__(self, failure: type[BaseException] | None = None, *more: object) -> None:
        super().__exit__(failure, *more)
        end_shims(str(self.containerd_socket))
        unmount_below(self.folder)
        for name in self.state:
            shutil.rmtree(self.folder / name, ignore_errors=True)

    def shown(self) -> tuple[Path, ...]:
        """Nothing: `Child.error` has the end of its log, all of it is long."""
        return ()

    def stop(self) -> None:
        """However it ends."""
        self.child.stop()


def end_shims(socket: str) -> None:
    """End the shims of the containerd on this socket and all they run, in case a test did not remove its pods."""
    shims = _shims_of(socket)
    for pid in [*shims, *(below for shim in shims for below in _descendants(shim))]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if shims:
        wait_for(lambda: not _shims_of(socket), what="the shims to end")


def unmount_below(folder: Path) -> None:
    """Detach every mount under the folder, deepest first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in sorted((p for p in points if Path(p).is_relative_to(folder)), key=len, reverse=True):
        subprocess.run(["umount", "--lazy", point], capture_output=True, timeout=WAIT_LIMIT, check=False)


def _shims_of(socket: str) -> list[int]:
    """Pids of the shims that name this socket as an argument of theirs."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            argv = (entry / "cmdline").read_bytes().split(b"\0")
            if b"containerd-shim" in argv[0] and socket.encode() in argv:
                found.append(int(entry.name))
    return found


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            found += [int(child), *_descendants(int(child))]
    return found
