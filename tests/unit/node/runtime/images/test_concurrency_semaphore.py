"""So many at a time for each key."""

import asyncio

from interpose.node.runtime.images.concurrency import KeyedSemaphore


async def test_only_so_many_have_a_turn_for_one_key() -> None:
    """Others wait; other keys do not; and nothing is remembered in the end."""
    turns = KeyedSemaphore(2)
    leave = asyncio.Event()
    inside: list[str] = []

    async def visit(key: str) -> None:
        async with turns.hold(key):
            inside.append(key)
            await leave.wait()

    async with asyncio.TaskGroup() as group:
        for key in ("a", "a", "a", "b"):
            group.create_task(visit(key))
        for _ in range(5):
            await asyncio.sleep(0)
        assert inside == ["a", "a", "b"]
        leave.set()
    assert inside == ["a", "a", "b", "a"]
    assert len(turns) == 0


async def test_who_gives_up_waiting_is_forgotten() -> None:
    """The turn of the other is not touched."""
    turns = KeyedSemaphore(1)
    async with turns.hold("a"):
        waiting = asyncio.create_task(turns.hold("a").__aenter__())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert len(turns) == 1
    assert len(turns) == 0
