"""Errors that keep what they passed through, and errors that do not."""

import pytest

from tests.support.lifetimes import lets_go


async def keeps() -> None:
    """The frame holds the error that holds the frame."""
    error = ValueError("x")
    raise error


async def raises() -> None:
    raise ValueError("x")


async def test_cycles_are_found() -> None:
    """A local name of the error is enough."""
    assert not await lets_go(keeps, ValueError)
    assert await lets_go(raises, ValueError)


async def test_nothing_raised_is_no_answer() -> None:
    """Nor is another error."""

    async def nothing() -> None: ...

    with pytest.raises(AssertionError, match="nothing was raised"):
        await lets_go(nothing, ValueError)
    with pytest.raises(ValueError, match="x"):
        await lets_go(raises, KeyError)
