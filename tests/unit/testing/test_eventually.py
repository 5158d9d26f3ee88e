"""Waiting for conditions."""

import pytest

from interpose.testing.eventually import eventually


async def test_the_first_true_value_comes_back() -> None:
    """However often the condition was false before."""
    values = iter([0, 0, 7])
    assert await eventually(lambda: next(values), "seven") == 7


async def test_a_wait_in_vain_names_what_was_waited_for() -> None:
    """And for how long."""
    with pytest.raises(AssertionError, match=r"waited 0\.01 s in vain for a wonder"):
        await eventually(lambda: False, "a wonder", within=0.01)
