"""Waiting."""

import asyncio

from interpose.tasks import idle


async def test_idle_ends_with_the_time_or_the_call() -> None:
    """Whichever is first."""
    wake = asyncio.Event()
    await idle(wake, 0.001)
    wake.set()
    await idle(wake, None)
