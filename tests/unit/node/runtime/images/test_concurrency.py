"""Long work in threads."""

import asyncio
import threading
from collections.abc import Callable

import pytest

from interpose.node.runtime.images.concurrency import Threads
from interpose.testing.eventually import WAIT_LIMIT


async def test_work_gives_its_result_or_its_error() -> None:
    """As if it were called."""
    threads = Threads(1)
    assert await threads.run(lambda stopped: stopped()) is False

    def fail(_: object) -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await threads.run(fail)
    threads.close()


async def test_cancelled_work_has_ended_before_its_caller_goes_on() -> None:
    """It is told to stop, and waited for, however often it is cancelled."""
    threads = Threads(1)
    begun, ended = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    go_on = threading.Event()

    def work(stopped: Callable[[], bool]) -> None:
        loop.call_soon_threadsafe(begun.set)
        go_on.wait(WAIT_LIMIT)
        assert stopped()
        ended.set()
        raise ValueError("nobody hears this")

    task = asyncio.create_task(threads.run(work))
    await begun.wait()
    task.cancel()
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.sleep(0)
    assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()
    threads.close()
