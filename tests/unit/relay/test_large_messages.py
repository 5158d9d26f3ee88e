"""Large messages wait for each other; others wait for nobody."""

import asyncio
import threading

import pytest

from interpose.net.h2.buffered import Buffered, BufferedShare
from interpose.relay.large_messages import LARGE, LargeMessages, LargeMessageTurn
from interpose.testing.eventually import eventually


class Calls:
    """Calls with their messages."""

    def __init__(self) -> None:
        self.messages = LargeMessages()
        self.account = Buffered()

    def turn(self) -> LargeMessageTurn:
        """Of a new call."""
        return self.messages.turn(BufferedShare(self.account))


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def soon(turn: LargeMessageTurn, size: int = LARGE) -> "asyncio.Task[None]":
    """It waits, or had its turn at once."""
    task = asyncio.create_task(turn.come(size))
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def test_one_large_message_after_the_other(calls: Calls) -> None:
    """Until the call with the first has ended."""
    first, second = calls.turn(), calls.turn()
    await first.come(LARGE)
    waiting = await soon(second)
    assert not waiting.done()
    first.end()
    first.end()  # gives nobody else a turn
    await waiting
    third = await soon(calls.turn())
    assert not third.done()
    third.cancel()


async def test_small_messages_wait_for_nobody(calls: Calls) -> None:
    """Nor does anybody for them."""
    await calls.turn().come(LARGE)
    await calls.turn().come(LARGE - 1)


async def test_one_who_leaves_takes_no_turn(calls: Calls) -> None:
    """The next one has it."""
    first, second, third = calls.turn(), calls.turn(), calls.turn()
    await first.come(LARGE)
    leaving, waiting = await soon(second), await soon(third)
    leaving.cancel()
    first.end()
    await waiting
    second.end()


async def test_unpacked_messages_count(calls: Calls) -> None:
    """As large as they are then; a small one makes room at once."""
    first, second = calls.turn(), calls.turn()
    assert await first.unpack(lambda: b"small") == b"small"
    await second.unpack(lambda: bytes(LARGE))
    assert calls.account.size == 5 + LARGE
    assert not (await soon(calls.turn())).done()


async def test_error_of_unpacking_is_the_callers(calls: Calls) -> None:
    """Its turn ends with the call."""
    turn = calls.turn()

    def fail() -> bytes:
        raise ValueError("not gzip")

    with pytest.raises(ValueError, match="not gzip"):
        await turn.unpack(fail)
    turn.end()
    await calls.turn().come(LARGE)


@pytest.mark.parametrize("fails", [True, False])
async def test_who_leaves_while_it_is_unpacked_keeps_the_turn_until_that_ends(calls: Calls, fails: bool) -> None:
    """Memory is taken by threads, whoever waits for them."""
    begun, go_on = threading.Event(), threading.Event()

    def unpack() -> bytes:
        begun.set()
        go_on.wait()
        if fails:
            raise ValueError("not gzip")
        return bytes(LARGE)

    turn = calls.turn()
    leaving = asyncio.create_task(turn.unpack(unpack))
    await eventually(begun.is_set, "the thread to begin")
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    turn.end()
    waiting = await soon(calls.turn())
    assert not waiting.done()
    go_on.set()
    await waiting
    assert calls.account.size == 0
