"""Waiting for a condition that is not announced: state of another process, or of a library without events.

There is one limit for all tests. It ends a test that hangs and decides nothing else: what comes about passes, however
busy the machine is. A test about time asserts order and state, or moves a clock of its own.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

# Seconds. Many times what anything takes with eight busy processes beside it, and below the limits of pytest-timeout.
WAIT_LIMIT: Final = 300.0


async def eventually(condition: Callable[[], T], what: str, *, within: float = WAIT_LIMIT) -> T:
    """Look until the condition is true and return its value; AssertionError with `what` after the limit.

    `within` is for hook servers' own tests; ours have one limit.
    """
    deadline = time.monotonic() + within
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {within:g} s in vain for {what}")
        await asyncio.sleep(0.002)
    return value


async def meet_deadline(call: Callable[[float], Awaitable[T]], late: Callable[[Exception], bool], first: float) -> T:
    """The outcome of a call that has enough time, and not much more: each has twice as long as the one before.

    `late` recognises the error of one whose time was over. Nobody waits for longer than the limit of all tests.
    """
    timeout = first
    while True:
        try:
            return await call(timeout)
        except Exception as error:
            if not late(error) or timeout > WAIT_LIMIT:
                raise
        timeout *= 2


async def pass_deadline(call: Callable[[float], Awaitable[T]], arrived: Callable[[], object]) -> T:
    """The outcome of a call whose time is over while the other side has it.

    How soon it arrives there is up to the machine, so there is no right deadline: each call has twice as long as the
    one before.
    """
    timeout = 0.1
    while True:
        outcome = await call(timeout)
        if arrived():
            return outcome
        timeout *= 2
