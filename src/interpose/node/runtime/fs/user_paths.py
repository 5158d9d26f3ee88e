"""Work on paths that users choose: host folders, devices, profiles, log folders. Such a path may hang for ever.

Each piece of work has a thread of its own, so that a path that hangs affects only the pod that named it: a pod has
a few threads at a time, all pods together have a bound, and a call fails after a timeout with the name of the path.
A thread that hangs is left alone. It ends by itself when the path responds again, and does not keep the process from
exiting.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from interpose.net.grpc.status import Code, RpcError

_T = TypeVar("_T")
# Called with the path that is accessed next.
OnPath = Callable[[str], None]
TIMEOUT: Final = 20.0  # seconds
_PER_POD: Final = 4
_TOTAL: Final = 256


class UserPaths:
    """Threads for the paths of all pods. Belongs to one event loop."""

    def __init__(self, *, timeout: float = TIMEOUT, per_pod: int = _PER_POD, total: int = _TOTAL) -> None:
        self._timeout = timeout
        self._per_pod = per_pod
        self._total = total
        self._busy: Counter[str] = Counter()
        self._waiting: list[asyncio.Future[None]] = []

    async def run(self, pod: str, path: str, work: Callable[[OnPath], _T]) -> _T:
        """The result of `work`; it begins with `path`, and calls its argument before each further path.

        DEADLINE_EXCEEDED names the path if it takes too long, or if it cannot begin because others hang.
        """
        job = _Job(path, work)
        try:
            async with asyncio.timeout(self._timeout):
                await self._acquire(pod)
                return await job.begin(lambda: self._release(pod))
        except TimeoutError:
            problem = "did not answer" if job.begun else "was not looked at, for others do not answer,"
            raise RpcError(Code.DEADLINE_EXCEEDED, f"{job.path!r} {problem} within {self._timeout:g} s") from None
        finally:
            job.abandoned = True

    async def _acquire(self, pod: str) -> None:
        """Wait for a free thread of the pod, first come first served, and take it."""
        while self._busy[pod] >= self._per_pod or self._busy.total() >= self._total:
            waiter = asyncio.get_running_loop().create_future()
            self._waiting.append(waiter)
            try:
                await waiter
            finally:
                if waiter in self._waiting:
                    self._waiting.remove(waiter)
        self._busy[pod] += 1

    def _release(self, pod: str) -> None:
        self._busy[pod] -= 1
        if not self._busy[pod]:
            del self._busy[pod]
        for waiter in self._waiting:  # all of them: the first may be of a pod that has no free thread
            if not waiter.done():
                waiter.set_result(None)


class _AbandonedError(Exception):
    """The caller of this work has gone."""


class _Job(Generic[_T]):
    """A piece of work and its thread."""

    def __init__(self, path: str, work: Callable[[OnPath], _T]) -> None:
        self.path = path
        self.begun = self.abandoned = False
        self._work = work

    async def begin(self, on_end: Callable[[], None]) -> _T:
        """Run it; `on_end` is called on the loop when the thread ends, which may be long after the caller left."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[_T] = loop.create_future()

        def finish(value: _T | None, error: BaseException | None) -> None:
            on_end()
            if not result.done():
                if error is None:
                    result.set_result(value)  # type: ignore[arg-type]
                else:
                    result.set_exception(error)

        def thread() -> None:
            value, error = None, None
            try:
                value = self._work(self._on_path)
            except Exception as raised:  # raised for the caller
                error = raised
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(finish, value, error)

        self.begun = True
        try:
            threading.Thread(target=thread, name="path of a pod", daemon=True).start()
        except RuntimeError as error:  # no more threads available
            on_end()
            raise OSError(str(error)) from None
        return await result

    def _on_path(self, path: str) -> None:
        if self.abandoned:
            raise _AbandonedError
        self.path = path
