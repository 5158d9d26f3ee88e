"""Programs that a process before us started and that outlived it: found by what they were told to do, and ended.

They are ended before the opposite is asked for: a network plugin that still connects a pod, or an OCI runtime that
still starts a container, would finish after its work was undone. Blocking; for threads.
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
    """Processes that have a variable with one of these values; programs that they started have it, too."""
    wanted = {f"{name}={value}".encode() for value in values}
    return [pid for pid, words in _words(proc, "environ") if not wanted.isdisjoint(words)]


def with_words(needed: Collection[str], *, proc: Path = PROC) -> list[int]:
    """Processes that have all of these words on their command line."""
    wanted = {one.encode() for one in needed}
    return [pid for pid, words in command_lines(proc) if wanted.issubset(words)]


def command_lines(proc: Path = PROC) -> Iterator[tuple[int, list[bytes]]]:
    """Processes with the words of their command lines."""
    return _words(proc, "cmdline")


def end(
    find: Callable[[], list[int]],
    *,
    patience: float = 5.0,
    kill: Callable[[int, int], None] = os.kill,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Kill whoever is found until nobody is; how many there were. OSError if some do not go in so many seconds."""
    seen: set[int] = set()
    deadline = clock() + patience
    while pids := find():
        if seen and clock() >= deadline:
            raise OSError(f"processes {sorted(seen)} were killed and do not end")
        for pid in pids:
            seen.add(pid)
            try:
                kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        sleep(_PAUSE)
    return len(seen)


def _words(proc: Path, file: str) -> Iterator[tuple[int, list[bytes]]]:
    """Of every process but us. One that has ended has none, also if nobody has taken notice of its end yet."""
    own = str(os.getpid())
    for name in os.listdir(proc):  # noqa: PTH208
        if name.isdigit() and name != own:
            try:
                yield int(name), (proc / name / file).read_bytes().split(b"\0")
            except OSError:
                continue
