"""JSON that keeps what matters for good messages."""

import pytest

from interpose.config.strict_json import Fraction, Object, Whole, _lines_of_keys, describe, expect, read_object
from interpose.core.model.text import quoted
from interpose.errors import ConfigError


def test_duplicates_and_the_text_of_numbers_survive() -> None:
    """Nothing is decided here: keys may repeat, numbers are as they were written."""
    pairs = read_object('{"a": 1, "a": 1.50, "b": [true, null, {}]}', "file x").pairs
    assert pairs == [("a", "1"), ("a", "1.50"), ("b", [True, None, Object([])])]
    assert [type(value) for _, value in pairs] == [Whole, Fraction, list]


def test_objects_come_in_the_order_of_their_ends() -> None:
    """All of them, the outermost last."""
    assert list(_lines_of_keys('{"a": {},\n"b": [{"c": 1}]}')) == [[], [2], [1, 2]]


def test_lines_of_keys() -> None:
    """Of every object, whatever its strings and blanks look like."""
    text = '{"a": "}\\\\", "b{\\"": [\n{"c":\n{"d"\n:1}, "c": {}}, "e:"],\n"\\u00e4": "x\\\\\\":"}'
    found = read_object(text, "file x", lined=True)
    assert [name for name, _ in found.pairs] == ["a", 'b{"', "ä"]
    assert found.lines == [1, 1, 5]
    inner = found.pairs[1][1][0]
    assert (inner.lines, inner.pairs[0][1].lines, inner.pairs[1][1].lines) == ([2, 4], [3], [])
    assert read_object(text, "file x").lines == ()


@pytest.mark.parametrize("text", ['{"a": {}}}', '{"a": {}, "', '{"a": {"b": 1}, {', '}{"a":1}', '"a":{}'])
def test_lines_of_what_is_no_object(text: str) -> None:
    """Only the message counts."""
    with pytest.raises(ConfigError, match="is not valid JSON"):
        read_object(text, "file x", lined=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "file x: is empty"),
        (" \n", "file x: is empty"),
        ('{\n "a": 1,,\n}', "file x line 2 column 9: is not valid JSON: Expecting property name"),
        ('{"a": 1} {', "file x line 1 column 10: is not valid JSON: Extra data"),
        ('{"a": NaN}', "file x: is not valid JSON: NaN is not a number"),
        ('{"a": -Infinity}', "file x: is not valid JSON: -Infinity is not a number"),
        ("[" * 100_000, "file x: is nested too deeply"),
        ('{"a":' * 100_000, "file x: is nested too deeply"),
        ("[]", "file x: expected a group of keys, found a list"),
        ('"word"', "file x: expected a group of keys, found text ('word')"),
        ("null", "file x: expected a group of keys, found null"),
        ("9" * 10_000, "file x: expected a group of keys, found a whole number ('9999"),
    ],
)
def test_what_is_no_object_is_one_clear_error(text: str, message: str) -> None:
    """Line and column where the text is not JSON, the kind of value where it is."""
    with pytest.raises(ConfigError) as caught:
        read_object(text, "file x")
    assert caught.value.problems[0].startswith(message)
    assert len(caught.value.problems[0]) < 200


def test_kinds_are_exact() -> None:
    """A number is text inside, and true is a number to Python; neither passes for it here."""
    assert expect("a", "k", str) == "a"
    with pytest.raises(ConfigError, match=r"k: expected text, found a whole number \('5'\)"):
        expect(Whole("5"), "k", str)
    with pytest.raises(ConfigError, match="k: expected a whole number, found true"):
        expect(True, "k", Whole)


def test_values_are_shown_in_a_few_words() -> None:
    """A message fits a line, whatever the value."""
    assert describe(False) == "false"
    assert describe([]) == "a list"
    assert quoted("a\n\ud800") == r"'a\n\ud800'"
    assert len(quoted("x" * 1000)) == 82
