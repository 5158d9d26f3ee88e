"""Work that goes on to its end even if its caller goes away.

A client that hangs up in the middle of a CreateContainer must not leave half a container: the operation is a task of
the runtime's own, and the caller only waits for it.
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
        """Run `work` to its end; raises its RpcError, any other error as UNKNOWN or INTERNAL."""
        if self._closed:
            raise RpcError(Code.UNAVAILABLE, "the runtime is shutting down")
        outcome = await asyncio.shield(self._tasks.spawn(_run_to_outcome(name, work), name=name))
        if isinstance(outcome, RpcError):
            raise outcome
        return outcome

    def run_in_background(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Run `work` without a caller: its errors are logged."""
        if not self._closed:
            self._tasks.spawn(_run_logged(name, work), name=name)

    async def run_all(self, name: str, works: Iterable[Callable[[], Awaitable[_T]]]) -> list[_T]:
        """Run all `works` at the same time; raises the first error when all have ended."""
        tasks = [self._tasks.spawn(_run_to_outcome(name, work), name=name) for work in works]
        outcomes = await asyncio.gather(*tasks)
        for outcome in outcomes:
            if isinstance(outcome, RpcError):
                raise outcome
        return [outcome for outcome in outcomes if not isinstance(outcome, RpcError)]

    async def close(self, grace: float) -> None:
        """Begin no new operation; those under way have `grace` seconds to end."""
        self._closed = True
        await self._tasks.wait_finished(grace)
        await self._tasks.cancel()


async def _run_to_outcome(name: str, work: Callable[[], Awaitable[_T]]) -> _T | RpcError:
    """Returns an error as a value: the caller may have gone."""
    try:
        return await work()
    except RpcError as error:
        return error
    except (PartError, OSError) as error:
        return RpcError(Code.UNKNOWN, f"{name}: {error}")
    except Exception as error:
        _log.exception("Operation failed", extra=kv(operation=name))
        return RpcError(Code.INTERNAL, f"{name}: {type(error).__name__}: {error}")


async def _run_logged(name: str, work: Callable[[], Awaitable[object]]) -> None:
    outcome = await _run_to_outcome(name, work)
    if isinstance(outcome, RpcError):
        _log.warning("Operation failed", extra=kv(operation=name, err=outcome.message))
