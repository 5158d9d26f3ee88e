"""The judge of JSON Schema finds what is wrong, and refuses to judge what it does not know."""

from typing import Any

import pytest

from interpose.config.documents.yaml import parse_document
from tests.support.kube.schema_check import plain, problems

CLOSED = {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("value", "schema", "count"),
    [
        (1, {"type": "integer"}, 0),
        (True, {"type": "integer"}, 1),
        (1, {"type": ["string", "null"]}, 1),
        (None, {"type": ["string", "null"]}, 0),
        (11, {"minimum": 1, "maximum": 10}, 1),
        (10, {"minimum": 1, "maximum": 10}, 0),
        (10, {"minimum": 1}, 0),
        ("text", {"minimum": 1}, 0),
        ("b", {"enum": ["a"]}, 1),
        ("a", {"const": "a"}, 0),
        ("b", {"pattern": "^a"}, 1),
        ({"a": 1}, CLOSED, 0),
        ({"a": "x", "b": 1}, CLOSED, 2),
        ([], {"properties": {}}, 0),
        ({"AB": 1}, {"properties": {}, "patternProperties": {"^[Aa]": {"type": "string"}}}, 1),
        ({"b": 1}, {"properties": {}}, 0),
        ({"b": 1}, {"additionalProperties": {"type": "string"}}, 1),
        ({}, {"required": ["a"]}, 1),
        ("x", {"required": ["a"]}, 0),
        ([1, "x"], {"items": {"type": "integer"}}, 1),
        ("x", {"items": {"type": "integer"}}, 0),
        ("x", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 1),
        (None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 0),
    ],
)
def test_values_are_judged(value: Any, schema: dict[str, Any], count: int) -> None:
    """Each word of a schema, for a value that fits and for one that does not."""
    assert len(problems(value, schema)) == count


def test_a_word_that_is_not_known_is_an_error() -> None:
    """A schema that says more than the judge understands does not pass for it."""
    with pytest.raises(ValueError, match="does not know minLength"):
        problems("x", {"minLength": 3})


def test_documents_become_plain_values() -> None:
    """With the types that an editor sees."""
    text = "{a: [1, 0660, 1.5], b: yes, c: null, d: '1'}"
    assert plain(parse_document(text, "test")) == {"a": [1, 0o660, 1.5], "b": True, "c": None, "d": "1"}
