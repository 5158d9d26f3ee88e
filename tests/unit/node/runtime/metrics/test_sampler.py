"""Values that take long to find out, and who looks for them when."""

import asyncio
import threading
from collections.abc import AsyncIterator

import pytest

from interpose.node.runtime.metrics.sampler import SampledValue, Sampler
from interpose.testing.eventually import WAIT_LIMIT, eventually


class Counting:
    """Counts are as long as they are told to be."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.go.set()
        self.counted: list[str] = []
        self.time = 100.0
        self.takes = 0.0

    def look(self, key: str, _stop: threading.Event) -> int:
        self.counted.append(key)
        self.go.wait(WAIT_LIMIT)
        self.time += self.takes
        return len(self.counted)


@pytest.fixture
def counting() -> Counting:
    """With counts that end at once."""
    return Counting()


@pytest.fixture
async def sampler(counting: Counting) -> AsyncIterator[Sampler[str, int]]:
    """Somebody waits two hundredths of a second for a count."""
    made = Sampler(counting.look, "test", clock=lambda: counting.time, timeout=0.02)
    yield made
    counting.go.set()
    made.close()


async def test_all_who_ask_share_one_count(sampler: Sampler[str, int], counting: Counting) -> None:
    """And nobody waits for it longer than a moment: at first nothing is known."""
    counting.go.clear()
    value = SampledValue[int]()
    answers = await asyncio.gather(*(sampler.sample([("c", value)]) for _ in range(12)))
    assert answers == [[None]] * 12
    assert counting.counted == ["c"]
    counting.go.set()
    await eventually(lambda: value.last, "the count")
    (found,) = await sampler.sample([("c", value)])
    assert found == 1


async def test_a_count_is_good_for_a_while(sampler: Sampler[str, int], counting: Counting) -> None:
    """Ten seconds; then it is counted again, and the answer is the new one if that is quick."""
    value = SampledValue[int]()
    await sampler.sample([("c", value)])
    await eventually(lambda: value.last, "the count")
    counting.time += 9.9
    await sampler.sample([("c", value)])
    assert counting.counted == ["c"]
    counting.time += 0.1
    await sampler.sample([("c", value)])
    await eventually(lambda: value.last == 2, "the second count")


async def test_the_last_value_is_served_while_a_long_count_runs(sampler: Sampler[str, int], counting: Counting) -> None:
    """A count of a minute is good for ten, and whoever asks in the meantime has the old one at once."""
    value = SampledValue[int]()
    counting.takes = 60.0
    await sampler.sample([("c", value)])
    await eventually(lambda: value.last, "the count")
    counting.time += 599.0
    await sampler.sample([("c", value)])
    assert counting.counted == ["c"]
    counting.time += 1.0
    counting.go.clear()
    (found,) = await sampler.sample([("c", value)])
    assert found == 1


async def test_a_long_count_does_not_keep_others(sampler: Sampler[str, int], counting: Counting) -> None:
    """There is a second thread; and none of them is one that records or other files need."""
    counting.go.clear()
    await sampler.sample([("big", SampledValue[int]())])
    await eventually(lambda: counting.counted, "the first count to begin")
    assert await asyncio.to_thread(lambda: "free") == "free"
    await sampler.sample([("small", SampledValue[int]())])
    await eventually(lambda: counting.counted == ["big", "small"], "the second count to begin")


async def test_nothing_is_counted_after_the_end(sampler: Sampler[str, int], counting: Counting) -> None:
    """What was known is still said."""
    sampler.close()
    assert await sampler.sample([("c", SampledValue[int]())]) == [None]
    assert counting.counted == []
