"""Clocks of a manager."""

from interpose.node.pods.clock import Clocks
from tests.support.clock import ManualClock


def test_the_time_of_day_in_seconds() -> None:
    """From the nanoseconds that runtimes use."""
    assert Clocks(now=ManualClock(5.5)).seconds == 5.5


def test_the_usual_clocks_run() -> None:
    """Forwards."""
    clocks = Clocks()
    first = clocks.elapsed()
    assert clocks.elapsed() >= first
