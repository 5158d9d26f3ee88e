"""Steady calls from threads over one channel, with every outcome kept: what a client sees while things break.

Invariant: all threads share ONE connection, and `states` holds each state that connection went through, so a test can
say whether the server ever closed it.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import wait_for

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True, slots=True)
class Sample:
    """One finished call; times are of the monotonic clock."""

    started: float
    ended: float
    code: str
    details: str

    @property
    def ok(self) -> bool:
        return self.code == "OK"


class Load:
    """Threads that call one method again and again until the `with` block ends."""

    def __init__(
        self,
        socket: Path,
        *,
        method: str = "Version",
        request: bytes = b"",
        threads: int = 4,
        timeout: float = WAIT_LIMIT,
    ) -> None:
        # Imported here: the lab's other parts must work without grpcio.
        from tests.support.lab.cri import CriClient

        self._client = CriClient(socket)
        self._start_call = self._client.raw(method)
        self._request = request
        self._timeout = timeout
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._samples: list[Sample] = []
        self.states: list[str] = []
        self._threads = [threading.Thread(target=self._run, name=f"load-{n}", daemon=True) for n in range(threads)]

    def __enter__(self) -> Self:
        self._client.channel.subscribe(self._seen_state)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join(self._timeout + 10)
        self._client.channel.unsubscribe(self._seen_state)
        self._client.channel.close()

    def samples(self, since: float = 0.0) -> list[Sample]:
        """Calls that started at or after this time."""
        with self._lock:
            return [sample for sample in self._samples if sample.started >= since]

    def failures(self, since: float = 0.0) -> list[Sample]:
        return [sample for sample in self.samples(since) if not sample.ok]

    def wait_ok(self, count: int, *, since: float) -> float:
        """Wait until this many calls started after `since` went well; returns when the first of them ended."""

        def enough() -> list[Sample]:
            good = [sample for sample in self.samples(since) if sample.ok]
            return good if len(good) >= count else []

        good = wait_for(enough, what=f"{count} good calls; the last were {self.samples()[-3:]}")
        return min(sample.ended for sample in good)

    def wait_failed(self, count: int, *, since: float) -> None:
        wait_for(lambda: len(self.failures(since)) >= count, what=f"{count} failed calls")

    def _run(self) -> None:
        while not self._stopping.is_set():
            started = time.monotonic()
            call = self._start_call(self._request, timeout=self._timeout, wait_for_ready=False)
            code, details = call.code().name, call.details() or ""
            sample = Sample(started, time.monotonic(), code, details)
            with self._lock:
                self._samples.append(sample)
            if not sample.ok:
                # A client that fails at once must not spin on two cores while the outage lasts.
                self._stopping.wait(0.005)

    def _seen_state(self, state: Any) -> None:
        self.states.append(state.name)
