"""A fake runtime with a clock that stands still."""

import pytest

from interpose.testing.fakeruntime import FakeRuntime
from tests.support.clock import ManualClock


@pytest.fixture
def clock() -> ManualClock:
    """The clock of the runtime."""
    return ManualClock()


@pytest.fixture
def runtime(clock: ManualClock) -> FakeRuntime:
    """An empty node."""
    return FakeRuntime(clock=clock)
