"""How loops of the agent wait: until somebody wakes them, or the time is over."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

Idle = Callable[[asyncio.Event, float | None], Awaitable[None]]

# A moment that has come between two looks at the clock still lets others run.
LEAST_PAUSE: Final = 0.001


async def idle(wake: asyncio.Event, seconds: float | None) -> None:
    """Without seconds: until somebody wakes us."""
    try:
        async with asyncio.timeout(seconds):
            await wake.wait()
    except TimeoutError:
        pass
