"""What changed between two messages."""

from interpose.dump.decode.diff import line_diff, yaml_diff


def test_equal_trees_have_no_difference() -> None:
    """Whatever the order of their keys."""
    assert yaml_diff({"a": 1, "b": 2}, {"b": 2, "a": 1}) == []


def test_a_change_is_shown_with_three_lines_around_it() -> None:
    """Old before new."""
    old = {f"k{n}": n for n in range(9)}
    assert yaml_diff(old, old | {"k4": "x"}) == [
        "  k1: 1",
        "  k2: 2",
        "  k3: 3",
        "- k4: 4",
        "+ k4: x",
        "  k5: 5",
        "  k6: 6",
        "  k7: 7",
    ]


def test_lines_between_distant_changes_are_left_out() -> None:
    """A mark stands in their place; near changes share what is between them."""
    old = [str(n) for n in range(20)]
    new = ["x", *old[1:7], "y", *old[8:19], "z"]
    assert line_diff(old, new) == [
        *("- 0", "+ x", "  1", "  2", "  3", "  4", "  5", "  6", "- 7", "+ y"),
        *("  8", "  9", "  10", "@@", "  16", "  17", "  18", "- 19", "+ z"),
    ]


def test_something_can_be_added_or_taken_away_at_either_end() -> None:
    """Also all of it."""
    assert line_diff(["b"], ["a", "b", "c"]) == ["+ a", "  b", "+ c"]
    assert line_diff(["a", "b"], ["b"]) == ["- a", "  b"]
    assert line_diff(["a", "a"], ["a"]) == ["  a", "- a"]
    assert line_diff([], ["a"]) == ["+ a"]
    assert line_diff(["a"], []) == ["- a"]


def test_where_the_shortest_difference_would_take_long_all_is_replaced() -> None:
    """What is the same at both ends is still known."""
    old = ["begin", *["x", "y"] * 1000, "end"]
    new = ["begin", *["y", "x"] * 1000, "end"]
    diff = line_diff(old, new)
    assert diff == ["  begin", *(f"- {line}" for line in old[1:-1]), *(f"+ {line}" for line in new[1:-1]), "  end"]


def test_a_small_change_in_a_very_long_text_is_small() -> None:
    """Nothing is compared but what lies between."""
    old = ["same"] * 100_000
    new = [*old[:50_000], "new", *old[50_000:]]
    assert line_diff(old, new) == ["  same"] * 3 + ["+ new"] + ["  same"] * 3
