"""A FakeRuntime behind a socket, served from a thread: for commands that run a loop of their own."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Self, TypeVar

from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.serve import serve_runtime

_T = TypeVar("_T")


class ServedRuntime:
    """`socket` answers inside the block. The runtime belongs to the thread: `do` changes and reads it there."""

    def __init__(self, folder: Path) -> None:
        self.socket = folder / "fake.sock"
        self.runtime = FakeRuntime()
        self._stop = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread
        self._served: Future[None]

    def __enter__(self) -> Self:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="served runtime")
        self._thread.start()
        up = threading.Event()
        self._served = asyncio.run_coroutine_threadsafe(self._serve(up), self._loop)
        if not up.wait(WAIT_LIMIT):
            raise TimeoutError("the fake runtime does not listen")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._served.result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_LIMIT)
        self._loop.close()

    def do(self, work: Callable[[FakeRuntime], _T]) -> _T:
        """Do something with the runtime, where nobody else does at the same time."""

        async def run() -> _T:
            return work(self.runtime)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(10)

    async def _serve(self, up: threading.Event) -> None:
        async with serve_runtime(self.socket, self.runtime):
            up.set()
            await self._stop.wait()
