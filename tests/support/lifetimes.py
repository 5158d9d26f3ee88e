"""Whether what a caller held is let go of with its last reference, not when the collector of cycles comes by."""

import gc
import weakref
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager


class _Held:
    """Something that a caller has."""


async def lets_go(fail: Callable[[], Awaitable[object]], error: type[Exception]) -> bool:
    """Whether an error leaves nothing of the frames it passed through. `fail` must raise it."""
    seen: list[weakref.ref[_Held]] = []

    async def caller() -> None:
        held = _Held()
        seen.append(weakref.ref(held))
        try:
            await fail()
        except error:
            return
        raise AssertionError("nothing was raised")

    with _without_collector():
        await caller()
        return seen[0]() is None


@contextmanager
def _without_collector() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
