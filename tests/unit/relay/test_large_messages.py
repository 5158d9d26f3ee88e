"""Calls with large messages take turns, but not for ever; calls with small messages never wait."""

import asyncio
import threading

import pytest

from interpose.net.h2.buffered import Buffered, BufferedShare
from interpose.relay.large_messages import LARGE, LargeMessageQueue, LargeMessageTurn
from interpose.testing.eventually import WAIT_LIMIT, eventually


class Calls:
    """A queue, and turns of new calls in it."""

    def __init__(self) -> None:
        self.queue = LargeMessageQueue()
        self.account = Buffered()

    def turn(self) -> LargeMessageTurn:
        return self.queue.turn(BufferedShare(self.account))


@pytest.fixture
def calls() -> Calls:
    return Calls()


async def soon(turn: LargeMessageTurn, size: int = LARGE) -> "asyncio.Task[None]":
    """A task that waits for the turn, or has it already."""
    task = asyncio.create_task(turn.wait_for_turn(size))
    for _ in range(5):
        await asyncio.sleep(0)
    return task


async def test_one_large_message_after_the_other(calls: Calls) -> None:
    """The second call has its turn when the first has ended; releasing twice gives no further turn."""
    first, second = calls.turn(), calls.turn()
    await first.wait_for_turn(LARGE)
    waiting = await soon(second)
    assert not waiting.done()
    first.release()
    first.release()
    await waiting
    third = await soon(calls.turn())
    assert not third.done()
    third.cancel()


async def test_small_messages_do_not_wait(calls: Calls) -> None:
    """A message below the limit is read beside a large one."""
    await calls.turn().wait_for_turn(LARGE)
    await calls.turn().wait_for_turn(LARGE - 1)


async def test_cancelled_call_takes_no_turn(calls: Calls) -> None:
    """The turn goes to the call that waits behind the cancelled one."""
    first, second, third = calls.turn(), calls.turn(), calls.turn()
    await first.wait_for_turn(LARGE)
    leaving, waiting = await soon(second), await soon(third)
    leaving.cancel()
    first.release()
    await waiting
    second.release()


async def test_unpacked_messages_count(calls: Calls) -> None:
    """The unpacked size is added to the account; a message that turns out small releases its turn at once."""
    first, second = calls.turn(), calls.turn()
    assert await first.unpack(lambda: b"small") == b"small"
    await second.unpack(lambda: bytes(LARGE))
    assert calls.account.size == 5 + LARGE
    assert not (await soon(calls.turn())).done()


async def test_error_of_unpacking_is_raised(calls: Calls) -> None:
    """The caller sees the error; afterwards other messages can be read and unpacked."""
    turn = calls.turn()

    def fail() -> bytes:
        raise ValueError("not gzip")

    with pytest.raises(ValueError, match="not gzip"):
        await turn.unpack(fail)
    turn.release()
    assert await calls.turn().unpack(lambda: bytes(LARGE)) == bytes(LARGE)


@pytest.mark.parametrize("fails", [True, False])
async def test_call_cancelled_while_it_unpacks_keeps_the_turn_until_the_thread_ends(calls: Calls, fails: bool) -> None:
    """The thread uses memory, although its call is gone."""
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
    turn.release()
    waiting = await soon(calls.turn())
    assert not waiting.done()
    go_on.set()
    await waiting
    assert calls.account.size == 0


@pytest.fixture
def short_wait(calls: Calls) -> None:
    """The wait for a turn ends at once."""
    calls.queue.turn_wait = 0.001


@pytest.mark.usefixtures("short_wait")
async def test_call_that_never_ends_holds_up_no_other(calls: Calls, caplog: pytest.LogCaptureFixture) -> None:
    """Other calls go on without a turn after a while, logged once; their end gives nobody the turn of the first."""
    first, second = calls.turn(), calls.turn()
    await first.wait_for_turn(LARGE)
    await asyncio.wait_for(second.wait_for_turn(LARGE), WAIT_LIMIT)
    assert await asyncio.wait_for(calls.turn().unpack(lambda: bytes(LARGE)), WAIT_LIMIT) == bytes(LARGE)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    second.release()
    assert calls.queue.turns.locked()
    first.release()
    assert not calls.queue.turns.locked()


@pytest.mark.usefixtures("short_wait")
@pytest.mark.parametrize("cancelled", [True, False])
async def test_messages_are_unpacked_one_at_a_time_without_a_turn(calls: Calls, cancelled: bool) -> None:
    """Many calls that waited for too long do not unpack together: each is counted before the next begins."""
    await calls.turn().wait_for_turn(LARGE)
    begun, go_on = threading.Event(), threading.Event()
    sizes: list[int] = []

    def unpack() -> bytes:
        begun.set()
        go_on.wait()
        return bytes(LARGE)

    def note() -> bytes:
        sizes.append(calls.account.size)
        return b""

    first = asyncio.create_task(calls.turn().unpack(unpack))
    await eventually(begun.is_set, "the thread to begin")
    second = asyncio.create_task(calls.turn().unpack(note))
    done, _ = await asyncio.wait([second], timeout=0.05)
    assert not done
    if cancelled:
        first.cancel()
    go_on.set()
    await asyncio.wait_for(second, WAIT_LIMIT)
    await asyncio.gather(first, return_exceptions=True)
    assert sizes == [0 if cancelled else LARGE]
