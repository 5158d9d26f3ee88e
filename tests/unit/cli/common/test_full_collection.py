"""When the garbage collector walks over everything."""

import gc
from collections.abc import Iterator

import pytest

from interpose.cli.common.full_collection import FullCollection, due


class Passes:
    """A collector that counts, for a relay with so many calls."""

    def __init__(self) -> None:
        self.calls = 0
        self.due = True
        self.count = 0
        self.collection = FullCollection(lambda: self.calls, due=lambda: self.due, collect=self._collect)

    def _collect(self) -> None:
        self.count += 1

    def after(self, seconds: int) -> int:
        """How many there were in so much time."""
        before = self.count
        for _ in range(seconds):
            self.collection.tick()
        return self.count - before


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector is as it was, afterwards."""
    thresholds = gc.get_threshold()
    yield
    gc.set_threshold(*thresholds)
    gc.unfreeze()


def test_once_a_minute_with_few_calls() -> None:
    """And only if there is something to expect of it."""
    passes = Passes()
    assert [passes.after(59), passes.after(1), passes.after(59), passes.after(1)] == [0, 1, 0, 1]
    passes.due = False
    assert passes.after(1000) == 0


def test_many_calls_put_it_off() -> None:
    """Until they have ended, or for ten minutes."""
    passes = Passes()
    passes.calls = 1000
    assert [passes.after(599), passes.after(1)] == [0, 1]
    assert passes.after(100) == 0
    passes.calls = 0
    assert passes.after(1) == 1


def test_the_interpreter_begins_none(collector: None) -> None:
    """However many smaller passes there were; these go on."""
    young, middle, _ = gc.get_threshold()
    FullCollection(lambda: 0).start()
    full = gc.get_stats()[2]["collections"]
    for _ in range(20):
        gc.collect(1)
    assert due()
    kept = [[number] for number in range(30 * young * middle)]
    assert gc.get_stats()[2]["collections"] == full
    assert gc.get_threshold()[:2] == (young, middle)
    assert len(kept) > 0
    gc.collect()
    assert not due()
