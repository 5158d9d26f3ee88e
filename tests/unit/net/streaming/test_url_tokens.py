"""Tokens: once, for a while, and not too many."""

from collections.abc import Iterator

import pytest

from interpose.net.streaming.handler import TooManyRequestsError
from interpose.net.streaming.url_tokens import Tokens


def numbered() -> Iterator[str]:
    """Each number twice, as if chance repeated itself."""
    for number in range(10_000):
        yield f"t{number // 2}"


def tokens(limit: int = 1000) -> Tokens[str]:
    numbers = numbered()
    return Tokens(lambda: next(numbers), limit=limit)


def test_a_token_is_taken_once() -> None:
    """Looking at it does not use it up."""
    issued = tokens()
    token = issued.issue("exec", 0.0)
    assert issued.peek(token, 1.0) == "exec"
    assert issued.take(token, 1.0) == "exec"
    assert issued.take(token, 1.0) is None
    assert issued.peek(token, 1.0) is None


def test_tokens_that_wait_are_all_different() -> None:
    """Also if chance repeats itself."""
    issued = tokens()
    assert len({issued.issue("exec", 0.0) for _ in range(100)}) == 100


def test_a_token_is_good_for_a_minute() -> None:
    """Not for a moment longer."""
    issued = tokens()
    early, late = issued.issue("early", 0.0), issued.issue("late", 30.0)
    assert issued.peek(early, 59.9) == "early"
    assert issued.take(early, 60.0) is None
    assert issued.take(late, 60.0) == "late"
    assert len(issued) == 0


def test_too_many_are_refused() -> None:
    """Until some were taken or are too old."""
    issued = tokens(limit=3)
    first = [issued.issue("exec", float(number)) for number in range(3)]
    with pytest.raises(TooManyRequestsError, match="maximum number of in-flight requests exceeded"):
        issued.issue("exec", 10.0)
    issued.take(first[1], 10.0)
    issued.issue("exec", 10.0)
    issued.issue("exec", 60.0)
    assert len(issued) == 3
