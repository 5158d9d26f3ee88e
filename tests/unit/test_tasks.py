"""Tasks with a name and an owner."""

import asyncio
import logging

import pytest

from interpose.tasks import TaskBag


async def test_task_is_held_until_it_ends() -> None:
    """The bag forgets it afterwards."""
    bag = TaskBag()
    gate = asyncio.Event()
    task = bag.spawn(gate.wait(), name="waiter")
    assert (len(bag), task.get_name()) == (1, "waiter")
    gate.set()
    await task
    await asyncio.sleep(0)
    assert len(bag) == 0


async def test_cancel_ends_everything_and_waits() -> None:
    """A task that needs time to clean up gets it."""
    bag = TaskBag()
    cleaned = []

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    for _ in range(3):
        bag.spawn(stubborn(), name="stubborn")
    await asyncio.sleep(0)
    await bag.cancel()
    assert (cleaned, len(bag)) == ([True] * 3, 0)


async def test_exception_is_logged_with_the_name(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody awaits it, somebody reads it."""

    async def fail() -> None:
        raise ZeroDivisionError

    bag = TaskBag()
    with caplog.at_level(logging.ERROR):
        await asyncio.wait([bag.spawn(fail(), name="failing")])
        await asyncio.sleep(0)
    (record,) = caplog.records
    assert record.exc_info is not None
    assert record.__dict__["kv"] == {"task": "failing"}


async def test_finished_waits_for_tasks_that_begin_meanwhile() -> None:
    """A task that spawns another one before it ends is not the last."""
    bag = TaskBag()
    ended: list[str] = []

    async def second() -> None:
        await asyncio.sleep(0)
        ended.append("second")

    async def first() -> None:
        await asyncio.sleep(0)
        bag.spawn(second(), name="second")
        ended.append("first")

    bag.spawn(first(), name="first")
    assert await bag.wait_finished(5.0)
    assert ended == ["first", "second"]


async def test_finished_gives_up_in_time() -> None:
    """What does not end is left running, and said."""
    bag = TaskBag()
    task = bag.spawn(asyncio.Event().wait(), name="for ever")
    assert not await bag.wait_finished(0.01)
    assert not task.done()
    await bag.cancel()
