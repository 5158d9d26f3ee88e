"""Values that take long to measure, measured in threads of their own.

A value is measured once at a time, however many callers ask, and the longer it takes the less often. A caller waits a
moment for a new value, and gets the last one if that is not enough.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

_FRESH: Final = 10.0
_SHARE: Final = 10  # at most a tenth of the time is spent on the same value
_TIMEOUT: Final = 1.0
_THREADS: Final = 2

K = TypeVar("K")
V = TypeVar("V")


@dataclass(slots=True, eq=False)
class SampledValue(Generic[V]):
    """The sampled value of an object; belongs to its entry."""

    last: V | None = None
    again_at: float = 0.0
    slow: bool = False
    scan: "asyncio.Future[V] | None" = None


class Sampler(Generic[K, V]):
    """Samples values of all objects of one kind. Belongs to one event loop."""

    def __init__(
        self,
        measure: Callable[[K, threading.Event], V],
        name: str,
        *,
        clock: Callable[[], float] = time.monotonic,
        timeout: float = _TIMEOUT,
    ) -> None:
        """`measure` is called in a thread with the key of an object; it returns early once the event is set."""
        self._measure = measure
        self._clock = clock
        self._timeout = timeout
        self._threads = ThreadPoolExecutor(_THREADS, name)
        self._stop = threading.Event()

    async def sample(self, wanted: Sequence[tuple[K, SampledValue[V]]]) -> list[V | None]:
        """The values of these objects; None where none is known yet."""
        waiting = set()
        for key, value in wanted:
            scan = self._scan(key, value)
            if scan is not None and (value.last is None or not value.slow):
                waiting.add(scan)
        if waiting:
            _, late = await asyncio.wait(waiting, timeout=self._timeout)
            for _, value in wanted:
                value.slow = value.slow or value.scan in late
        return [value.last for _, value in wanted]

    def close(self) -> None:
        """Stop measuring; values stay as they are."""
        self._stop.set()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _scan(self, key: K, value: SampledValue[V]) -> "asyncio.Future[V] | None":
        """The measurement that is under way, or a new one if it is due."""
        if value.scan is None and self._clock() >= value.again_at and not self._stop.is_set():
            began = self._clock()
            loop = asyncio.get_running_loop()
            value.scan = loop.run_in_executor(self._threads, self._measure, key, self._stop)
            value.scan.add_done_callback(lambda scan: self._finish_scan(value, began, scan))
        return value.scan

    def _finish_scan(self, value: SampledValue[V], began: float, scan: "asyncio.Future[V]") -> None:
        took = self._clock() - began
        value.scan, value.slow = None, took > self._timeout
        value.again_at = self._clock() + max(_FRESH, took * _SHARE)
        if not scan.cancelled() and scan.exception() is None and not self._stop.is_set():
            value.last = scan.result()
