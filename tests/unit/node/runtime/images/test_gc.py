"""Collections run on their own."""

import asyncio
import logging
import threading

import pytest

from interpose.node.runtime.images.gc import ImageCollector
from interpose.testing.eventually import WAIT_LIMIT


class Work:
    """A collection that waits until it may go on."""

    def __init__(self) -> None:
        self.go_on = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.ended = 0

    def __call__(self) -> None:
        self.begun.release()
        assert self.go_on.acquire(timeout=WAIT_LIMIT)
        self.ended += 1


async def test_wishes_that_come_meanwhile_are_one_more_collection() -> None:
    """What runs already may have overlooked what they are about."""
    work = Work()
    collector = ImageCollector(work)
    first = collector.request()
    assert await asyncio.to_thread(work.begun.acquire, True, 20)
    second, third = collector.request(), collector.request()
    assert second is third
    assert second is not first
    work.go_on.release()
    await first
    assert not second.done()
    work.go_on.release()
    await third
    assert work.ended == 2
    work.go_on.release()
    await collector.run()
    assert work.ended == 3
    await collector.close()


async def test_closing_waits_for_what_was_asked_for() -> None:
    """Nothing is left for the next process."""
    work = Work()
    collector = ImageCollector(work)
    collector.request()
    work.go_on.release()
    await collector.close()
    assert work.ended == 1


async def test_a_collection_that_fails_is_logged_and_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody fails because of it."""
    outcomes = [OSError("the disk is tired"), None]

    def collect() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    collector = ImageCollector(collect)
    with caplog.at_level(logging.WARNING):
        await collector.run()
    assert "Failed to remove" in caplog.text
    await collector.run()
    assert outcomes == []
    await collector.close()


async def test_a_collection_goes_on_without_its_caller() -> None:
    """Who waited for it may leave."""
    work = Work()
    collector = ImageCollector(work)
    waiting = asyncio.create_task(collector.run())
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    work.go_on.release()
    await collector.close()
    assert work.ended == 1
