"""Work that goes on when nobody waits for it."""

import asyncio

import pytest

from interpose.node.pods.sync.inflight import InflightWork
from interpose.tasks import TaskBag


async def test_results_and_errors_are_those_of_the_work() -> None:
    """As if it were awaited itself."""

    async def right() -> int:
        return 3

    async def wrong() -> int:
        raise ValueError("no")

    inflight = InflightWork()
    assert await inflight.run("a", right()) == 3
    with pytest.raises(ValueError, match="no"):
        await inflight.run("a", wrong())
    await inflight.wait_idle("a")


async def test_who_hangs_up_leaves_it_to_its_end() -> None:
    """And whoever asks waits for that, of this pod only."""
    inflight, tasks, go = InflightWork(), TaskBag(), asyncio.Event()
    ended: list[str] = []

    async def slow() -> None:
        await go.wait()
        ended.append("work")

    async def waits() -> None:
        await inflight.wait_idle("a")
        ended.append("wait")

    await asyncio.wait([tasks.spawn(inflight.run("a", slow()), name="one")], timeout=0.01)
    await tasks.cancel()
    await inflight.wait_idle("b")
    waiting = tasks.spawn(waits(), name="two")
    await asyncio.sleep(0)
    assert not ended
    go.set()
    await waiting
    assert ended == ["work", "wait"]
