"""Ids and their starts."""

import pytest

from interpose.node.runtime.state.ids import ids_with_prefix, is_id, resolve_id

A, B = "a" * 64, "ab" * 32


@pytest.mark.parametrize(
    ("asked", "found"),
    [(A, [A]), ("aa", [A]), ("ab", [B]), ("a", [A, B]), ("", []), ("f", []), (A + "a", [])],
)
def test_all_that_start_like_this(asked: str, found: list[str]) -> None:
    """One, several or none; nothing is the start of none."""
    assert ids_with_prefix([A, B], asked) == found


def test_a_whole_id_is_itself() -> None:
    """Whatever else starts like it."""
    assert ids_with_prefix(["a", "ab"], "a") == ["a"]


def test_a_filter_keeps_what_it_cannot_resolve() -> None:
    """It matches nothing then; an empty one matches everything."""
    assert resolve_id({A}, "aa") == A
    assert resolve_id({A}, "ff") == "ff"
    assert resolve_id({A, B}, "a") == "a"
    assert resolve_id({A}, "") == ""


def test_whole_ids() -> None:
    """Anything else is not a name of a file of ours."""
    assert is_id(A)
    assert not is_id("A" * 64)
    assert not is_id("a" * 63)
    assert not is_id("a" * 64 + "\n")
