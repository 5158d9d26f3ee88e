"""Waiting for conditions."""

import pytest

from interpose.testing.eventually import eventually, pass_deadline


async def test_the_first_true_value_comes_back() -> None:
    """However often the condition was false before."""
    values = iter([0, 0, 7])
    assert await eventually(lambda: next(values), "seven") == 7


async def test_a_wait_in_vain_names_what_was_waited_for() -> None:
    """And for how long."""
    with pytest.raises(AssertionError, match=r"waited 0\.01 s in vain for a wonder"):
        await eventually(lambda: False, "a wonder", within=0.01)


async def test_a_deadline_grows_until_the_call_arrives() -> None:
    """The outcome is that of the call which did."""
    given: list[float] = []

    async def call(timeout: float) -> float:
        given.append(timeout)
        return timeout

    assert await pass_deadline(call, lambda: len(given) == 3) == 0.4
    assert given == [0.1, 0.2, 0.4]
