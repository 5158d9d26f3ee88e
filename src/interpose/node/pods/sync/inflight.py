"""Work on a pod that continues after its caller was cancelled: a runtime finishes a sandbox that it began to create,
and a thread finishes its files. The removal of a pod waits for such work, or parts of the pod would come back.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from interpose.tasks import TaskBag

_T = TypeVar("_T")


class InflightWork:
    """Work in flight, by the uid of its pod."""

    def __init__(self) -> None:
        self._bag = TaskBag()
        self._tasks: dict[str, set[asyncio.Task[Any]]] = {}

    async def run(self, uid: str, work: Coroutine[Any, Any, _T]) -> _T:
        """Await the work. If the caller is cancelled, the work runs to its end all the same."""
        task = self._bag.spawn(_outcome(work), name=f"work on pod {uid}")
        tasks = self._tasks.setdefault(uid, set())
        tasks.add(task)
        task.add_done_callback(lambda _task: self._on_done(uid, task))
        found, error = await asyncio.shield(task)
        if error is not None:
            raise error
        return found[0]

    async def wait_idle(self, uid: str) -> None:
        """Wait until no work on this pod is in flight. All work has time limits of its own."""
        while tasks := self._tasks.get(uid):
            await asyncio.wait(tasks)

    def _on_done(self, uid: str, task: asyncio.Task[Any]) -> None:
        left = self._tasks[uid]
        left.discard(task)
        if not left:
            del self._tasks[uid]


async def _outcome(work: Coroutine[Any, Any, _T]) -> tuple[tuple[_T, ...], Exception | None]:
    """The result or the error as a value: an error without a waiter is not logged."""
    try:
        return (await work,), None
    except Exception as error:
        return (), error
