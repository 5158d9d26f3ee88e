"""The static table of HPACK."""

from interpose.net.h2.static_table import STATIC_TABLE
from tests.support.net import hpack


def test_same_as_the_other_table() -> None:
    """All 61 entries, written down twice, agree."""
    assert len(STATIC_TABLE) == 61
    assert list(STATIC_TABLE) == hpack.STATIC
