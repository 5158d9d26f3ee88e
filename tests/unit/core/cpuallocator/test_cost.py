"""Costs and their words."""

from typing import Any

import pytest

from interpose.core.cpuallocator.cost import Cost

BEST = Cost(spans=(1, 2), classes=(0, 4), distance=1200, split=1, left=(2, 8), places=(0,))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"misfit": 1}, "the one taken was idle and has just the size"),
        ({"spans": (1, 3)}, "needs 3 L3 caches, not 2"),
        ({"spans": (2, 2)}, "needs 2 NUMA nodes, not 1"),
        ({"classes": (1, -3)}, "its CPUs are less of the wished priority"),
        ({"distance": 2100}, "its NUMA nodes are farther from each other"),
        ({"split": 2}, "more cores would be shared with others"),
        ({"broken": 1}, "an idle core would be broken up"),
        ({"left": (2, 9)}, "more CPUs would be left over in it or around it"),
        ({"places": (1,)}, "just as good, but its CPUs have higher numbers"),
    ],
)
def test_the_first_difference_decides(change: dict[str, Any], said: str) -> None:
    """And is what people are told, whatever the later fields say."""
    other = BEST._replace(**change)
    assert other > BEST
    assert other.explain_difference(BEST, ("NUMA nodes", "L3 caches")) == said


def test_a_cost_is_a_line_of_text() -> None:
    """What matters to people, in order."""
    assert (
        BEST.text(("NUMA nodes", "L3 caches")) == "NUMA nodes 1, L3 caches 2, distance 12, split cores 1, CPUs left 2/8"
    )
    assert Cost(left=(0,)).text(()) == "split cores 0, CPUs left 0"
