"""YAML of annotations as plain values, and what is wrong with it."""

import pytest

from interpose.core.policy.topology_aware.yaml_values import MAX_TEXT, Value, read_yaml


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{duration: 60s}", {"duration": "60s"}),
        ("a: [b, 1, true]", {"a": ("b", "1", "true")}),  # numbers and truth values keep their text
        ("a:\n- x: null\n  y: ''", {"a": ({"x": None, "y": ""},)}),
        ("", None),
        ("word", "word"),
    ],
)
def test_values(text: str, expected: Value) -> None:
    """Maps, lists, texts and nothing."""
    assert read_yaml(text, "here") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{a: [", r"here: '\{a: \[' is not YAML"),
        ("a: &x [1]\nb: *x", "here: aliases are not allowed"),
        ("{a: 1, a: 2}", "here: 'a' is given twice"),
        ("{[1]: 2}", "is given twice or is no name"),
        ("[" * 9 + "]" * 9, "levels deep"),
        ("x" * (MAX_TEXT + 1), f"more than {MAX_TEXT}"),
        ("\x00", "is not YAML"),
    ],
)
def test_what_cannot_be_read_is_told(text: str, expected: str) -> None:
    """With the place where it is."""
    with pytest.raises(ValueError, match=expected):
        read_yaml(text, "here")
