"""Disk usage of containers, counted file by file, which may take long: for a sampler's threads."""

import os
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from interpose.node.runtime.cgroups.cri_stats import FsUsage
from interpose.node.runtime.metrics.sampler import Sampler

_BLOCK: Final = 512
_BATCH: Final = 256  # entries; after each batch other threads may run
_PAUSE: Final = 0.001
_MAX_LINKED: Final = 100_000
_MAX_STEP: Final = 1000  # characters; one has up to four bytes


def layer_sampler(folder: Callable[[str], Path], *, now: Callable[[], int] = time.time_ns) -> Sampler[str, FsUsage]:
    """A sampler of disk usage by container id; `folder`, called in a thread, is the writable layer of an id."""

    def measure(container_id: str, stop: threading.Event) -> FsUsage:
        size, files = count_below(folder(container_id), stop)
        return FsUsage(bytes=size, inodes=files, at=now())

    return Sampler(measure, "layer-usage")


def count_below(folder: Path, stop: threading.Event) -> tuple[int, int]:
    """Bytes on the disk and files below a folder; files with several names count once, vanished files not at all.

    Only files with several names are remembered, until all their names were found.
    """
    size, files, entries = 0, 0, 0
    linked: dict[int, int] = {}
    waiting = [str(folder)]
    while waiting and not stop.is_set():
        path = waiting.pop()
        with suppress(OSError), _open_folder(path) as fd, os.scandir(fd) as found:
            for entry in found:
                entries += 1
                if entries % _BATCH == 0 and stop.wait(_PAUSE):
                    break
                with suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(facts.st_mode):
                        waiting.append(f"{path}/{entry.name}")
                    elif facts.st_nlink > 1 and _is_counted(linked, facts):
                        continue
                    size += facts.st_blocks * _BLOCK
                    files += 1
    return size, files


def _is_counted(linked: dict[int, int], facts: os.stat_result) -> bool:
    left = linked.pop(facts.st_ino, facts.st_nlink)
    if left > 1 and len(linked) < _MAX_LINKED:
        linked[facts.st_ino] = left - 1
    return left < facts.st_nlink


@contextmanager
def _open_folder(path: str) -> Iterator[int]:
    """Open a folder however deep it is: the kernel takes paths of one page only, so it is opened in steps."""
    fd, rest = -1, path
    while rest:
        step, rest = rest, ""
        if len(step) > _MAX_STEP:
            cut = step.rindex("/", 0, _MAX_STEP)
            step, rest = step[:cut], step[cut + 1 :]
        above, flags = fd, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            fd = os.open(step, flags, dir_fd=above if above >= 0 else None)
        finally:
            if above >= 0:
                os.close(above)
    try:
        yield fd
    finally:
        os.close(fd)
