"""Named tasks with an owner, and the wait of a loop for an event or a timeout.

Raw `asyncio.create_task` is banned by the linter: a task without a reference may vanish in the garbage collector, and a
task without a name cannot be found in a stack dump. A TaskBag holds its tasks until they end and cancels what is left.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


class TaskBag:
    """Owns the tasks of one component. An exception that no caller awaits is logged once, never lost."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def spawn(self, coro: Coroutine[Any, Any, _T], *, name: str) -> asyncio.Task[_T]:
        """Start a task that lives until it ends or the bag is cancelled."""
        task = asyncio.get_running_loop().create_task(coro, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("Task failed", extra={"kv": {"task": task.get_name()}}, exc_info=error)

    async def wait_finished(self, timeout: float) -> bool:
        """Wait until no task runs, new ones included; False if `timeout` seconds are not enough."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while self._tasks and (left := deadline - loop.time()) > 0:
            await asyncio.wait(self._tasks, timeout=left)
        return not self._tasks

    async def cancel(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.gather(*tasks, return_exceptions=True)


Idle = Callable[[asyncio.Event, float | None], Awaitable[None]]
# A time that has passed between two looks at the clock still lets other tasks run.
LEAST_PAUSE: Final = 0.001


async def idle(wake: asyncio.Event, seconds: float | None) -> None:
    """Wait until `wake` is set, or for `seconds` if they are not None."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        pass
