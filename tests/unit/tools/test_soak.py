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
