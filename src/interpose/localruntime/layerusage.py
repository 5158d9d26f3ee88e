"""What containers have written, counted in threads of their own: file by file, which may take long.

A container is counted once at a time, however many ask, and not all the time: what takes long is done less often.
Whoever asks waits a moment for a new count, and has the last one if that is not enough.
"""

import asyncio
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from interpose.localruntime.stats import FsUsage

_FRESH: Final = 10.0
_SHARE: Final = 10  # of the time at most one part in so many is spent on counting the same container
_PATIENCE: Final = 1.0
_THREADS: Final = 2
_BLOCK: Final = 512
_BREATH: Final = 256  # entries; after so many others may have the processor
_PAUSE: Final = 0.001
_MOST_LINKED: Final = 100_000
_LONGEST_STEP: Final = 1000  # characters; one has up to four bytes


@dataclass(slots=True, eq=False)
class Layer:
    """What is known about the files of one container; goes with it."""

    last: FsUsage | None = None
    again_at: float = 0.0
    slow: bool = False
    scan: "asyncio.Future[tuple[int, int]] | None" = None


class LayerUsage:
    """Counts for all containers. Belongs to one event loop."""

    def __init__(
        self,
        folder: Callable[[str], Path],
        *,
        now: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
        patience: float = _PATIENCE,
        count: "Callable[[Path, threading.Event], tuple[int, int]] | None" = None,
    ) -> None:
        """`folder` is what a container of this id writes to; called in a thread."""
        self._folder = folder
        self._now = now
        self._clock = clock
        self._patience = patience
        self._count = count or count_below
        self._threads = ThreadPoolExecutor(_THREADS, "layer-usage")
        self._stop = threading.Event()

    async def of(self, wanted: Sequence[tuple[str, Layer]]) -> list[FsUsage | None]:
        """Of these containers; None where nothing is known yet."""
        waiting = set()
        for container_id, layer in wanted:
            scan = self._scan(container_id, layer)
            if scan is not None and (layer.last is None or not layer.slow):
                waiting.add(scan)
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._patience)
            for _, layer in wanted:
                layer.slow = layer.slow or layer.scan in late
        return [layer.last for _, layer in wanted]

    def close(self) -> None:
        """Nothing is counted any more."""
        self._stop.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _scan(self, container_id: str, layer: Layer) -> "asyncio.Future[tuple[int, int]] | None":
        """The count that is under way; a new one if it is time for that."""
        if layer.scan is None and self._clock() >= layer.again_at and not self._stop.is_set():
            began = self._clock()
            loop = asyncio.get_running_loop()
            layer.scan = loop.run_in_executor(self._threads, self._in_thread, container_id)
            layer.scan.add_done_callback(lambda scan: self._counted(layer, began, scan))
        return layer.scan

    def _in_thread(self, container_id: str) -> tuple[int, int]:
        return self._count(self._folder(container_id), self._stop)

    def _counted(self, layer: Layer, began: float, scan: "asyncio.Future[tuple[int, int]]") -> None:
        took = self._clock() - began
        layer.scan, layer.slow = None, took > self._patience
        layer.again_at = self._clock() + max(_FRESH, took * _SHARE)
        if not scan.cancelled() and scan.exception() is None and not self._stop.is_set():
            size, files = scan.result()
            layer.last = FsUsage(bytes=size, inodes=files, at=self._now())


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
