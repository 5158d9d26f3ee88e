"""Waiting for conditions."""

import pytest

from interpose.testing.eventually import WAIT_LIMIT, eventually, meet_deadline, pass_deadline


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


async def test_a_deadline_grows_until_the_call_keeps_it() -> None:
    """Another error ends it, and so does the limit of all tests."""
    given: list[float] = []

    async def call(timeout: float) -> float:
        given.append(timeout)
        if timeout < 4:
            raise TimeoutError
        return timeout

    async def never(timeout: float) -> None:
        raise TimeoutError(timeout)

    assert await meet_deadline(call, lambda error: isinstance(error, TimeoutError), 1.0) == 4.0
    assert given == [1.0, 2.0, 4.0]
    with pytest.raises(TimeoutError):
        await meet_deadline(call, lambda _: False, 1.0)
    with pytest.raises(TimeoutError) as ended:
        await meet_deadline(never, lambda _: True, 1.0)
    assert WAIT_LIMIT < ended.value.args[0] <= 2 * WAIT_LIMIT
