"""Starts in flight, updates that wait for them, and what they hear who own values there."""

import asyncio
from collections.abc import Awaitable

import pytest

from interpose.cri.store.starts import StartTracker

C, OTHER = "c1", "c2"


class Listener:
    """Starts, and what was told of them."""

    def __init__(self) -> None:
        self.starts = StartTracker()
        self.lost: list[str] = []
        self.doubted: list[str] = []
        self.starts.on_lost = self.lost.append
        self.starts.on_doubt = self.doubted.append


async def waits(wait: Awaitable[None]) -> "asyncio.Task[None]":
    """A wait that does not end by itself."""

    async def run() -> None:
        await wait

    task = asyncio.create_task(run())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_without_a_start_nobody_waits() -> None:
    """Nor for the start of another container."""
    starts = StartTracker()
    with starts.starting(OTHER), starts.updating(OTHER):
        await starts.wait_for_start(C)
        await starts.wait_for_updates(C)
        assert not starts.in_flight(C)


async def test_an_update_waits_until_the_last_start_has_ended() -> None:
    """A kubelet may try twice."""
    starts = StartTracker()
    with starts.starting(C):
        with starts.starting(C):
            task = await waits(starts.wait_for_start(C))
        await asyncio.sleep(0)
        assert not task.done()
    await task


async def test_a_start_waits_for_updates_that_were_sent() -> None:
    """Two of them here."""
    starts = StartTracker()
    with starts.updating(C):
        with starts.updating(C):
            task = await waits(starts.wait_for_updates(C))
        await asyncio.sleep(0)
        assert not task.done()
    await task


async def test_who_waits_may_leave() -> None:
    """The others stay."""
    starts = StartTracker()
    with starts.starting(C):
        first, second = await waits(starts.wait_for_start(C)), await waits(starts.wait_for_start(C))
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        assert not second.done()
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
    await starts.wait_for_start(C)


@pytest.mark.parametrize("first", ["update", "start"])
def test_what_meets_is_told_once_when_both_have_ended(first: str) -> None:
    """Whichever came first, and ends first."""
    it = Listener()
    if first == "update":
        with it.starts.starting(C):
            with it.starts.updating(C):
                it.starts.on_sent(C)
            assert it.lost == []
    else:
        with it.starts.updating(C):
            with it.starts.starting(C):
                it.starts.on_sent(C)
            assert it.lost == []
    assert it.lost == [C]
    with it.starts.updating(C), it.starts.updating(OTHER):
        pass
    with it.starts.starting(C):
        it.starts.on_sent(C)
    assert it.lost == [C]


def test_an_update_during_a_start_is_lost() -> None:
    """It did not wait any longer."""
    it = Listener()
    with it.starts.starting(C):
        it.starts.on_sent(C)
        with it.starts.updating(C):
            pass
        assert it.lost == []
    assert it.lost == [C]


async def test_a_start_in_doubt_is_in_flight_until_it_is_settled() -> None:
    """Somebody is told once to find out."""
    it = Listener()
    for _ in range(2):
        it.starts.doubt(C)
    assert (it.doubted, it.starts.in_flight(C), it.starts.in_doubt(C)) == ([C], True, True)
    task = await waits(it.starts.wait_for_start(C))
    it.starts.settle(C, runs=False)
    await task
    assert (it.lost, it.starts.in_doubt(C)) == ([], False)
    it.starts.doubt(C)
    it.starts.settle(C, runs=True)
    it.starts.settle(C, runs=True)
    assert it.lost == [C]


def test_where_nobody_can_find_out_there_is_no_doubt() -> None:
    """Updates would wait for ever."""
    starts = StartTracker()
    starts.doubt(C)
    assert not starts.in_flight(C)


def test_one_that_runs_without_anybody_having_seen_a_start() -> None:
    """With values of a time that nobody knows; one whose start is in flight is none of these."""
    it = Listener()
    with it.starts.starting(C):
        it.starts.on_running(C)
    assert it.lost == []
    it.starts.on_running(C)
    assert it.lost == [C]
    StartTracker().on_running(C)
