"""One timer for the calls of a hook server: which of them end when, and when it runs."""

import asyncio

import pytest

from interpose.hooks.dispatch.deadlines import Deadlines
from interpose.net.grpc.exchange import Exchange
from interpose.testing.eventually import WAIT_LIMIT

LATE = 3600.0


async def test_calls_end_at_their_own_deadlines() -> None:
    """An earlier one moves the timer; those that are not due go on waiting."""
    deadlines, now = Deadlines(), asyncio.get_running_loop().time()
    late, early, next_ = Exchange(1), Exchange(1), Exchange(1)
    deadlines.add(late, now + LATE)
    deadlines.add(early, now - 1.0)
    deadlines.add(next_, now + 0.001)
    for exchange in (early, next_):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(exchange.reply, WAIT_LIMIT)
    assert not late.reply.done()
    deadlines.close()


async def test_answered_call_does_not_end() -> None:
    """And the timer may find nothing to do."""
    deadlines, now = Deadlines(), asyncio.get_running_loop().time()
    answered, other = Exchange(1), Exchange(1)
    deadlines.add(answered, now)
    deadlines.remove(answered)
    deadlines.remove(answered)
    deadlines.add(other, now)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(other.reply, WAIT_LIMIT)
    assert not answered.reply.done()
    again = Exchange(1)
    deadlines.add(again, now)  # the timer has run: there is a new one
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(again.reply, WAIT_LIMIT)


async def test_nothing_ends_after_the_end() -> None:
    """Closing twice is as good as once."""
    deadlines, now = Deadlines(), asyncio.get_running_loop().time()
    exchange, later = Exchange(1), asyncio.Event()
    deadlines.add(exchange, now)
    deadlines.close()
    deadlines.close()
    asyncio.get_running_loop().call_at(now + 0.01, later.set)
    await asyncio.wait_for(later.wait(), WAIT_LIMIT)
    assert not exchange.reply.done()
