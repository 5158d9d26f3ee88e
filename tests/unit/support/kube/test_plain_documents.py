"""Cluster files as plain values."""

import pytest

from interpose.errors import ConfigError
from tests.support.kube.plain_documents import documents, value_of, whole


def test_documents_are_split_at_lines_of_dashes() -> None:
    """Also the first and the last may have such a line; those with comments only are none."""
    text = "---\na: 1\n---\n# nothing\n---\nb: [x, 2.5, true, null]\n---\n"

    assert documents(text, "here") == [{"a": 1}, {"b": ["x", 2.5, True, None]}]


def test_dashes_inside_a_text_do_not_split() -> None:
    """Only those at the beginning of a line, followed by nothing or a blank, count."""
    assert documents("a: |\n  ---\n  x\nb: ---y\n", "here") == [{"a": "---\nx\n", "b": "---y"}]


def test_a_key_may_be_there_only_once() -> None:
    """The second would win without a word elsewhere."""
    with pytest.raises(ConfigError, match="here document 0 line 2: a is given twice"):
        documents("a: 1\na: 2\n", "here")


def test_a_document_is_a_map() -> None:
    """Nothing else is an object of a cluster."""
    with pytest.raises(ConfigError, match="here document 0: is not a map"):
        documents("- a\n", "here")


@pytest.mark.parametrize(("text", "number"), [("0440", 288), ("10", 10), ("0x10", 16), ("1_000", 1000), ("-012", -10)])
def test_numbers_are_those_of_kubectl(text: str, number: int) -> None:
    """A mode with a leading zero is octal."""
    assert whole(text) == number


def test_a_text_in_quotes_stays_one() -> None:
    """As for any reader of YAML."""
    assert value_of('"10"', "here") == "10"
