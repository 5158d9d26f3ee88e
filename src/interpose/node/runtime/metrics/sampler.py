"""Values that take long to find out, found out in threads of their own.

A value is looked for once at a time, however many ask, and not all the time: what takes long is done less often.
Whoever asks waits a moment for a new value, and has the last one if that is not enough.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_FRESH: Final = 10.0
_SHARE: Final = 10  # of the time at most one part in so many is spent on the same value
_PATIENCE: Final = 1.0
_THREADS: Final = 2

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class SampledValue(Generic[V]):
    """What is known about one object; belongs to it, and goes with it."""

    last: V | None = None
    again_at: float = 0.0
    slow: bool = False
    scan: "asyncio.Future[V] | None" = None


class Sampler(Generic[K, V]):
    """Looks for values of all objects of one kind. Belongs to one event loop."""

    def __init__(
        self,
        look: Callable[[K, threading.Event], V],
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        patience: float = _PATIENCE,
    ) -> None:
        """`look` is called in a thread with the key of an object; it ends early once the event is set."""
        self._look = look
        self._clock = clock
        self._patience = patience
        self._threads = ThreadPoolExecutor(_THREADS, name)
        self._stop = threading.Event()

    async def of(self, wanted: Sequence[tuple[K, SampledValue[V]]]) -> list[V | None]:
        """Of these objects; None where nothing is known yet."""
        waiting = set()
        for key, value in wanted:
            scan = self._scan(key, value)
            if scan is not None and (value.last is None or not value.slow):
                waiting.add(scan)
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._patience)
            for _, value in wanted:
                value.slow = value.slow or value.scan in late
        return [value.last for _, value in wanted]

    def close(self) -> None:
        """Nothing is looked for any more."""
        self._stop.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _scan(self, key: K, value: SampledValue[V]) -> "asyncio.Future[V] | None":
        """The look that is under way; a new one if it is time for that."""
        if value.scan is None and self._clock() >= value.again_at and not self._stop.is_set():
            began = self._clock()
            loop = asyncio.get_running_loop()
            value.scan = loop.run_in_executor(self._threads, self._look, key, self._stop)
            value.scan.add_done_callback(lambda scan: self._found(value, began, scan))
        return value.scan

    def _found(self, value: SampledValue[V], began: float, scan: "asyncio.Future[V]") -> None:
        took = self._clock() - began
        value.scan, value.slow = None, took > self._patience
        value.again_at = self._clock() + max(_FRESH, took * _SHARE)
        if not scan.cancelled() and scan.exception() is None and not self._stop.is_set():
            value.last = scan.result()
