"""Waiting for a condition nobody announces: state of another process, or of a library without events."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def eventually(condition: Callable[[], T], what: str, *, within: float = 5.0) -> T:
    """Look until the condition is true and return its value; AssertionError with `what` after the deadline."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while not (value := condition()):
        if loop.time() > deadline:
            raise AssertionError(f"waited {within:g} s in vain for {what}")
        await asyncio.sleep(0.002)
    return value
