"""A fake runtime with a clock that stands still."""

import pytest

from interpose.testing.clock import ManualClock
from interpose.testing.fakeruntime import FakeRuntime


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the runtime."""
    return ManualClock()


@pytest.fixture
def runtime(clock: ManualClock) -> FakeRuntime:
    """An empty node."""
    return FakeRuntime(clock=clock)
