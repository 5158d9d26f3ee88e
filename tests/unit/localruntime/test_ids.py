"""Ids and their starts."""

import pytest

from interpose.localruntime.ids import full_id, is_id, wanted_id

A, B = "a" * 64, "ab" * 32


@pytest.mark.parametrize(
    ("asked", "found"), [(A, A), ("aa", A), ("ab", B), ("a", None), ("", None), ("f", None), (A + "a", None)]
)
def test_a_unique_start_is_enough(asked: str, found: str | None) -> None:
    """One that several or none have is not."""
    assert full_id({A, B}, asked) == found


def test_a_filter_keeps_what_it_cannot_resolve() -> None:
    """It matches nothing then; an empty one matches everything."""
    assert wanted_id({A}, "aa") == A
    assert wanted_id({A}, "ff") == "ff"
    assert wanted_id({A}, "") == ""


def test_whole_ids() -> None:
    """Anything else is no name of a file of ours."""
    assert is_id(A)
    assert not is_id("A" * 64)
    assert not is_id("a" * 63)
    assert not is_id("a" * 64 + "\n")
