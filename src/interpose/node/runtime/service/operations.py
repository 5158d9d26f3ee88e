"""Work that goes on to its end even if whoever asked for it goes away.

A client that hangs up in the middle of a create must not leave half a container: the operation is a task of the
runtime's own, and the caller only waits for it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from interpose.log import kv
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.service.interfaces import PartError
from interpose.tasks import TaskBag

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


class OperationRunner:
    """The operations of one runtime."""

    def __init__(self) -> None:
        self._tasks = TaskBag()
        self._closed = False

    def __len__(self) -> int:
        return len(self._tasks)

    async def run(self, name: str, work: Callable[[], Awaitable[_T]]) -> _T:
        """Carry out `work`; its RpcError is the caller's, anything else that goes wrong is INTERNAL."""
        if self._closed:
            raise RpcError(Code.UNAVAILABLE, "the runtime is shutting down")
        outcome = await asyncio.shield(self._tasks.spawn(_outcome(name, work), name=name))
        if isinstance(outcome, RpcError):
            raise outcome
        return outcome

    def later(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Carry out `work` for nobody: its errors are logged."""
        if not self._closed:
            self._tasks.spawn(_logged(name, work), name=name)

    async def together(self, name: str, works: Iterable[Callable[[], Awaitable[_T]]]) -> list[_T]:
        """Carry out all of them at the same time; the first error, when all have ended."""
        tasks = [self._tasks.spawn(_outcome(name, work), name=name) for work in works]
        outcomes = await asyncio.gather(*tasks)
        for outcome in outcomes:
            if isinstance(outcome, RpcError):
                raise outcome
        return [one for one in outcomes if not isinstance(one, RpcError)]

    async def close(self, grace: float) -> None:
        """Nothing new is begun; what is under way has this many seconds to come to its end."""
        self._closed = True
        await self._tasks.finished(grace)
        await self._tasks.cancel()


async def _outcome(name: str, work: Callable[[], Awaitable[_T]]) -> _T | RpcError:
    """An error as a value: it belongs to whoever waits, and perhaps nobody does any more."""
    try:
        return await work()
    except RpcError as error:
        return error
    except (PartError, OSError) as error:
        return RpcError(Code.UNKNOWN, f"{name}: {error}")
    except Exception as error:
        _log.exception("Operation failed", extra=kv(operation=name))
        return RpcError(Code.INTERNAL, f"{name}: {type(error).__name__}: {error}")


async def _logged(name: str, work: Callable[[], Awaitable[object]]) -> None:
    outcome = await _outcome(name, work)
    if isinstance(outcome, RpcError):
        _log.warning("Operation failed", extra=kv(operation=name, err=outcome.message))
