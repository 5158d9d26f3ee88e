"""Orphaned programs, which outlived the runtime process that started them: found by command line or environment,
killed.

They are killed before their work is undone: a network plugin that still connects a pod, or an OCI runtime that still
starts a container, would finish after that. Blocking; for threads.
"""

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_PAUSE: Final = 0.01


def with_environment(name: str, values: Collection[str], *, proc: Path = PROC) -> list[int]:
    """Processes that have a variable with one of these values; their children have it, too."""
    wanted = {f"{name}={value}".encode() for value in values}
    return [pid for pid, words in _words(proc, "environ") if not wanted.isdisjoint(words)]


def with_words(needed: Collection[str], *, proc: Path = PROC) -> list[int]:
    """Processes that have all of these arguments on their command line."""
    wanted = {word.encode() for word in needed}
    return [pid for pid, words in command_lines(proc) if wanted.issubset(words)]


def command_lines(proc: Path = PROC) -> Iterator[tuple[int, list[bytes]]]:
    """All processes with their command line arguments."""
    return _words(proc, "cmdline")


def kill_all(
    find: Callable[[], list[int]],
    *,
    timeout: float = 5.0,
    kill: Callable[[int, int], None] = os.kill,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Kill processes until `find` finds none; returns their number. OSError if some do not exit in time."""
    killed: set[int] = set()
    deadline = clock() + timeout
    while pids := find():
        if killed and clock() >= deadline:
            raise OSError(f"processes {sorted(killed)} were killed and do not end")
        for pid in pids:
            killed.add(pid)
            try:
                kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        sleep(_PAUSE)
    return len(killed)


def _words(proc: Path, file: str) -> Iterator[tuple[int, list[bytes]]]:
    """The words of a file in /proc of every process but us; a zombie has none."""
    own = str(os.getpid())
    for name in os.listdir(proc):  # noqa: PTH208
        if name.isdigit() and name != own:
            try:
                yield int(name), (proc / name / file).read_bytes().split(b"\0")
            except OSError:
                continue
