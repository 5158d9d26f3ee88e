"""How long others stayed on CPUs of a container."""

import asyncio

from interpose.core.policy.request import Key
from interpose.resmgr.control.overlaps import CpuOverlaps
from interpose.testing.eventually import eventually

A, B = Key("pod", "a"), Key("pod", "b")


class Clock:
    """Stands still unless it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_lengths_are_known_when_they_have_ended() -> None:
    """Two at the same time; one of them is said twice."""
    clock, lasting = Clock(), {A, B}
    overlaps = CpuOverlaps(lasting.__contains__, clock)
    overlaps.begin(A)
    clock.now = 1.0
    overlaps.begin(B)
    overlaps.begin(A)
    assert (sum(overlaps.seconds.counts), overlaps.seconds.sum) == (0, 0.0)
    clock.now = 3.0
    lasting.discard(A)
    await eventually(lambda: sum(overlaps.seconds.counts) == 1, "the end of the first")
    assert overlaps.seconds.sum == 3.0
    clock.now = 101.0
    lasting.discard(B)
    await eventually(lambda: sum(overlaps.seconds.counts) == 2, "the end of the second")
    assert (overlaps.seconds.counts[-1], overlaps.seconds.sum) == (1, 103.0)
    lasting.add(A)
    overlaps.begin(A)
    clock.now = 102.0
    lasting.discard(A)
    await eventually(lambda: sum(overlaps.seconds.counts) == 3, "the end of another one")
    overlaps.close()


async def test_one_that_is_over_already_has_no_length() -> None:
    """Nobody looks at it again."""
    overlaps = CpuOverlaps(lambda _: False, Clock())
    overlaps.begin(A)
    assert (overlaps.seconds.counts[0], overlaps.seconds.sum) == (1, 0.0)
    overlaps.close()


async def test_nothing_is_left_behind() -> None:
    """Whoever closes it does not hear of it again."""
    asked: list[Key] = []

    def lasts(key: Key) -> bool:
        asked.append(key)
        return True

    overlaps = CpuOverlaps(lasts, Clock())
    overlaps.begin(A)
    overlaps.close()
    await asyncio.sleep(0.1)
    assert asked == [A]
