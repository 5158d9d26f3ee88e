"""Waiting for conditions."""

import asyncio

from interpose.testing.changes import Changes


async def test_a_condition_that_holds_does_not_wait() -> None:
    """`until` returns at once when there is nothing to wait for."""
    await Changes().until(lambda: True)


async def test_a_waiter_looks_again_after_each_notice() -> None:
    """A notice that does not make the condition true leaves the waiter waiting; the next one is seen too."""
    changes, values, looked = Changes(), [0], []

    def reached() -> bool:
        looked.append(values[0])
        return values[0] >= 2

    waiter = asyncio.create_task(changes.until(reached))
    await asyncio.sleep(0)
    for value in (1, 2):
        values[0] = value
        changes.notify()
        await asyncio.sleep(0)
    await waiter
    assert looked == [0, 1, 2]


async def test_a_cancelled_waiter_is_forgotten() -> None:
    """A notice after a cancelled wait reaches nobody and harms nobody."""
    changes = Changes()
    waiter = asyncio.create_task(changes.until(lambda: False))
    await asyncio.sleep(0)
    waiter.cancel()
    await asyncio.gather(waiter, return_exceptions=True)
    changes.notify()
    assert not changes._waiters
