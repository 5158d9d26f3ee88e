"""Child processes by pid: start, stop, pause, and what they cost according to /proc.

Invariant: a `Child` only ever signals the process it started itself, and that process is gone after `stop`, `kill` or
the end of the `with` block. Waiting is always for a condition, with a deadline, and says what it waited for.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from interpose.testing.eventually import WAIT_LIMIT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

T = TypeVar("T")

LOG_TAIL = 4000


class LabError(Exception):
    """A real program did not do what the lab needs of it; the text carries the end of its log."""


def wait_for(condition: Callable[[], T], *, what: str, every: float = 0.005) -> T:
    """Poll until the condition is true and return its value; a bounded wait, named in the error."""
    deadline = time.monotonic() + WAIT_LIMIT
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise LabError(f"waited {WAIT_LIMIT:g} s in vain for {what}")
        time.sleep(every)
    return value


def accepts(path: Path) -> bool:
    """True when something listens on this unix socket: the file alone says nothing."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(path))
        except OSError:
            return False
    return True


def missing_programs(*names: str, root: bool = False) -> str | None:
    """Why the lab can not run these programs here, or None when it can."""
    if root and os.geteuid() != 0:
        return "needs root"
    absent = [name for name in names if shutil.which(name) is None]
    return f"not installed: {', '.join(absent)}" if absent else None


def closed_to(uid: int) -> str | None:
    """Why another user cannot run our code on this machine, or None when it can: interpreter or sources may be in
    somebody's home."""
    if os.geteuid() != 0:
        return "needs root, to become somebody else"
    try:
        subprocess.run([sys.executable, "-c", "import interpose"], user=uid, capture_output=True, check=True, cwd="/")
    except (OSError, subprocess.CalledProcessError):
        return f"interpreter or sources cannot be read by user {uid}"
    return None


class Child:
    """One program started by the lab, with its output in a log file."""

    def __init__(
        self, argv: Sequence[str], *, log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> None:
        self.argv = list(argv)
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                self.argv,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=None if env is None else {**os.environ, **env},
                cwd=cwd,
                # Own session: Ctrl-C in the terminal reaches the lab, which then stops its children in order.
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def name(self) -> str:
        return Path(self.argv[0]).name

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has already been reaped (its pid may belong to another by then)."""
        if self.running:
            self._process.send_signal(number)

    def pause(self) -> None:
        """Make it hang: alive, sockets open, not running."""
        self.signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.signal(signal.SIGCONT)

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        self._process.wait(WAIT_LIMIT)

    def stop(self, patience: float = WAIT_LIMIT) -> int:
        """SIGTERM, then SIGKILL for a process that does not end; returns the exit code."""
        self.resume()
        self.signal(signal.SIGTERM)
        try:
            return self._process.wait(patience)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._process.wait(WAIT_LIMIT)

    def wait(self) -> int:
        """Wait until it ends by itself."""
        try:
            return self._process.wait(WAIT_LIMIT)
        except subprocess.TimeoutExpired:
            raise self.error(f"still runs after {WAIT_LIMIT:g} s") from None

    def wait_until(self, condition: Callable[[], T], *, what: str, every: float = 0.005) -> T:
        """`wait_for` that gives up at once when the process ends, and shows its log."""

        def check() -> tuple[T] | None:
            value = condition()
            if not value and not self.running:
                raise self.error(f"ended with {self.exit_code} before {what}")
            return (value,) if value else None

        try:
            return wait_for(check, what=what, every=every)[0]  # type: ignore[index]
        except LabError as error:
            raise (error if self.log_tail() in str(error) else self.error(str(error))) from None

    def wait_listening(self, path: Path) -> None:
        self.wait_until(lambda: accepts(path), what=f"{path} to accept")

    def log_tail(self, size: int = LOG_TAIL) -> str:
        return self.log.read_bytes()[-size:].decode(errors="replace") if self.log.exists() else ""

    def error(self, text: str) -> LabError:
        return LabError(f"{self.name} (pid {self.pid}): {text}\n--- end of {self.log} ---\n{self.log_tail()}")

    def cpu_seconds(self) -> float:
        return cpu_seconds(self.pid)

    def rss_bytes(self) -> int:
        return rss_bytes(self.pid)


def cpu_seconds(pid: int, proc: Path = Path("/proc")) -> float:
    """CPU time of all threads, plus that of children already reaped.

    schedstat counts nanoseconds where stat counts ticks of 10 ms; only the children's share comes from stat.
    """
    base = proc / str(pid)
    own = 0
    for task in (base / "task").iterdir():
        own += int((task / "schedstat").read_text().split()[0])
    # The command name may hold spaces and brackets: count the fields after its last bracket.
    fields = (base / "stat").read_text().rpartition(")")[2].split()
    reaped = int(fields[13]) + int(fields[14])
    return own / 1e9 + reaped / os.sysconf("SC_CLK_TCK")


def rss_bytes(pid: int, proc: Path = Path("/proc")) -> int:
    """Resident memory; smaps_rollup is exact where the counters in status lag behind per CPU."""
    for name, key in (("smaps_rollup", "Rss:"), ("status", "VmRSS:")):
        try:
            lines = (proc / str(pid) / name).read_text().splitlines()
        except PermissionError:
            continue
        for line in lines:
            if line.startswith(key):
                return int(line.split()[1]) * 1024
    raise LabError(f"no resident memory of pid {pid} in {proc}")


def children(pid: int, proc: Path = Path("/proc")) -> list[int]:
    """The pids of the direct children."""
    text = (proc / str(pid) / "task" / str(pid) / "children").read_text()
    return [int(child) for child in text.split()]
