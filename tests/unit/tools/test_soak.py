"""The soak's arithmetic."""

from collections.abc import Callable
from typing import Any

import pytest


def test_slope_of_a_line(tool: Callable[[str], Any]) -> None:
    """Points on a line give its slope, noise around a level gives none."""
    slope = tool("soak").slope

    assert slope([(0, 5), (1, 7), (2, 9)]) == pytest.approx(2.0)
    assert slope([(0, 5), (1, 6), (2, 6), (3, 5)]) == pytest.approx(0.0)


def test_slope_of_too_few_points(tool: Callable[[str], Any]) -> None:
    """Nothing can be said, and nothing fails."""
    slope = tool("soak").slope

    assert (slope([]), slope([(1, 5)])) == (0.0, 0.0)


def test_growth_is_between_the_middle_and_the_last_third(tool: Callable[[str], Any]) -> None:
    """What happened in the first third does not count, and single peaks do not either."""
    growth = tool("soak").growth_of_thirds

    assert growth([(n, value) for n, value in enumerate([1, 5, 9, 10, 10, 10, 10, 99, 10])]) == 0
    assert growth([(n, float(n)) for n in range(9)]) == 3.0
    assert growth([(0, 1.0), (1, 9.0)]) == 0.0
