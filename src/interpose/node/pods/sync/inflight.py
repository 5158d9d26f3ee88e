"""Work on a pod that goes on when nobody waits for it any more: a sandbox that is being made appears, whoever has hung
up, and a thread that writes files writes them. Who removes the pod waits until that is over, or it comes back.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from interpose.tasks import TaskBag

_T = TypeVar("_T")


class InflightWork:
    """What is under way, by the uid of its pod."""

    def __init__(self) -> None:
        self._bag = TaskBag()
        self._tasks: dict[str, set[asyncio.Task[Any]]] = {}

    async def run(self, uid: str, work: Coroutine[Any, Any, _T]) -> _T:
        """Do it; who is cancelled while he waits leaves it to its end."""
        task = self._bag.spawn(_outcome(work), name=f"work on pod {uid}")
        mine = self._tasks.setdefault(uid, set())
        mine.add(task)
        task.add_done_callback(lambda _task: self._ended(uid, task))
        found, error = await asyncio.shield(task)
        if error is not None:
            raise error
        return found[0]

    async def over(self, uid: str) -> None:
        """Wait until nothing is under way for this pod. Everything has a time limit of its own."""
        while tasks := self._tasks.get(uid):
            await asyncio.wait(tasks)

    def _ended(self, uid: str, task: asyncio.Task[Any]) -> None:
        left = self._tasks[uid]
        left.discard(task)
        if not left:
            del self._tasks[uid]


async def _outcome(work: Coroutine[Any, Any, _T]) -> tuple[tuple[_T, ...], Exception | None]:
    """An error that nobody waits for any more is no news."""
    try:
        return (await work,), None
    except Exception as error:
        return (), error
