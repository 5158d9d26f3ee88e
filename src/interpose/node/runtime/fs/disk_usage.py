"""What containers have written, counted file by file, which may take long: for a sampler's threads."""

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
_BREATH: Final = 256  # entries; after so many others may have the processor
_PAUSE: Final = 0.001
_MOST_LINKED: Final = 100_000
_LONGEST_STEP: Final = 1000  # characters; one has up to four bytes


def layer_sampler(folder: Callable[[str], Path], *, now: Callable[[], int] = time.time_ns) -> Sampler[str, FsUsage]:
    """Counts for all containers by id; `folder` is what a container of this id writes to, called in a thread."""

    def look(container_id: str, stop: threading.Event) -> FsUsage:
        size, files = count_below(folder(container_id), stop)
        return FsUsage(bytes=size, inodes=files, at=now())

    return Sampler(look, "layer-usage")


def count_below(folder: Path, stop: threading.Event) -> tuple[int, int]:
    """Bytes on the disk and files below a folder; what has several names counts once. What goes away is passed over.

    Only files with several names are remembered, until all their names were seen.
    """
    size, files, entries = 0, 0, 0
    linked: dict[int, int] = {}
    waiting = [str(folder)]
    while waiting and not stop.is_set():
        place = waiting.pop()
        with suppress(OSError), _opened(place) as fd, os.scandir(fd) as found:
            for entry in found:
                entries += 1
                if entries % _BREATH == 0 and stop.wait(_PAUSE):
                    break
                with suppress(OSError):
                    facts = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(facts.st_mode):
                        waiting.append(f"{place}/{entry.name}")
                    elif facts.st_nlink > 1 and _seen(linked, facts):
                        continue
                    size += facts.st_blocks * _BLOCK
                    files += 1
    return size, files


def _seen(linked: dict[int, int], facts: os.stat_result) -> bool:
    left = linked.pop(facts.st_ino, facts.st_nlink)
    if left > 1 and len(linked) < _MOST_LINKED:
        linked[facts.st_ino] = left - 1
    return left < facts.st_nlink


@contextmanager
def _opened(place: str) -> Iterator[int]:
    """A folder however deep it is: the kernel takes paths of one page only, so it is gone to in several steps."""
    fd, rest = -1, place
    while rest:
        step, rest = rest, ""
        if len(step) > _LONGEST_STEP:
            cut = step.rindex("/", 0, _LONGEST_STEP)
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
