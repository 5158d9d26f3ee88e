"""The manual clock."""

import pytest

from tests.support.clock import ManualClock


def test_time_moves_only_when_told() -> None:
    """Two readings are equal until the clock is advanced, in nanoseconds."""
    clock = ManualClock(start=10)
    assert clock() == clock() == 10_000_000_000
    clock.advance(0.5)
    assert clock() == 10_500_000_000


def test_time_never_goes_back() -> None:
    """A negative step is refused."""
    with pytest.raises(ValueError, match="-1"):
        ManualClock().advance(-1)
