"""Work on paths that users choose: host folders, devices, profiles, log folders. Such a path may hang for ever.

Each piece of work has a thread of its own, so that a path that hangs costs those who named it and nobody else: a pod
has a few threads at a time, all pods together have a bound, and whoever waits is told after a while which path it was.
A thread that hangs is left alone. It ends by itself when the path comes back, and it does not keep us from ending.
"""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from interpose.net.grpc.status import Code, RpcError

_T = TypeVar("_T")
# Says which path is looked at next.
At = Callable[[str], None]
PATIENCE: Final = 20.0
_PER_POD: Final = 4
_IN_ALL: Final = 256


class UserPaths:
    """Threads for the paths of all pods. Belongs to one event loop."""

    def __init__(self, *, patience: float = PATIENCE, per_pod: int = _PER_POD, in_all: int = _IN_ALL) -> None:
        self._patience = patience
        self._per_pod = per_pod
        self._in_all = in_all
        self._busy: Counter[str] = Counter()
        self._waiting: list[asyncio.Future[None]] = []

    async def run(self, pod: str, path: str, work: Callable[[At], _T]) -> _T:
        """What `work` gives; it begins with `path`, and says before each further one that it comes to it.

        DEADLINE_EXCEEDED names the path if it takes too long, or if it cannot begin because others hang.
        """
        mine = _Work(path, work)
        try:
            async with asyncio.timeout(self._patience):
                await self._room(pod)
                return await mine.begin(lambda: self._ended(pod))
        except TimeoutError:
            what = "did not answer" if mine.begun else "was not looked at, for others do not answer,"
            raise RpcError(Code.DEADLINE_EXCEEDED, f"{mine.path!r} {what} within {self._patience:g} s") from None
        finally:
            mine.left = True

    async def _room(self, pod: str) -> None:
        """Wait for a place, and take it. Who came first is asked first."""
        while self._busy[pod] >= self._per_pod or self._busy.total() >= self._in_all:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            finally:
                if turn in self._waiting:
                    self._waiting.remove(turn)
        self._busy[pod] += 1

    def _ended(self, pod: str) -> None:
        self._busy[pod] -= 1
        if not self._busy[pod]:
            del self._busy[pod]
        for turn in self._waiting:  # all of them: the first may be of a pod that has no place
            if not turn.done():
                turn.set_result(None)


class _LeftError(Exception):
    """Nobody waits for this work any more."""


class _Work(Generic[_T]):
    """One piece of work, and its thread."""

    def __init__(self, path: str, work: Callable[[At], _T]) -> None:
        self.path = path
        self.begun = self.left = False
        self._work = work

    async def begin(self, ended: Callable[[], None]) -> _T:
        """Do it; `ended` is called on the loop when the thread ends, which may be long after everybody left."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[_T] = loop.create_future()

        def tell(value: _T | None, error: BaseException | None) -> None:
            ended()
            if not result.done():
                if error is None:
                    result.set_result(value)  # type: ignore[arg-type]
                else:
                    result.set_exception(error)

        def thread() -> None:
            value, error = None, None
            try:
                value = self._work(self._at)
            except Exception as raised:  # whoever waits gets it
                error = raised
            with suppress(RuntimeError):  # the loop is closed, and nobody is left to be told
                loop.call_soon_threadsafe(tell, value, error)

        self.begun = True
        try:
            threading.Thread(target=thread, name="path of a pod", daemon=True).start()
        except RuntimeError as error:  # no more threads to be had
            ended()
            raise OSError(str(error)) from None
        return await result

    def _at(self, path: str) -> None:
        if self.left:
            raise _LeftError
        self.path = path
