"""Values against schemas."""

from typing import Any

import pytest

from tests.support.kube.open_api import Schema, UnknownKeywordError, not_structural, problems

EITHER: Schema = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, 1, True),
        ({"type": ["integer", "string"]}, "1", 1.5),
        ({"type": "number"}, 1.5, "1"),
        ({"type": "integer", "minimum": -1, "maximum": 2}, -1, 3),
        ({"type": "string", "minLength": 1}, "a", ""),
        ({"type": "string", "maxLength": 1}, "a", "ab"),
        ({"type": "string", "pattern": "^/"}, "/a", "a"),
        ({"type": "string", "enum": ["a", ""]}, "", "b"),
        ({"type": "array", "items": {"type": "string"}}, ["a"], ["a", 1]),
        ({"type": "object", "properties": {"a": {"type": "boolean"}}}, {"a": True}, {"a": 1}),
        ({"type": "object", "properties": {"a": {}}}, {}, {"b": 1}),
        ({"type": "object", "additionalProperties": {"type": "string"}}, {"b": "x"}, {"b": 1}),
        ({"type": "object", "properties": {"a": {}}, "additionalProperties": False}, {"a": 1}, {"b": 1}),
        ({"type": "object", "required": ["a"]}, {"a": 1}, {}),
        (EITHER, "1Mi", True),
        ({"type": "integer", "nullable": True}, None, "x"),
        ({"type": "null"}, None, 0),
    ],
)
def test_a_schema_tells_good_from_bad(schema: Schema, good: Any, bad: Any) -> None:
    """One value that it allows and one that it does not."""
    assert problems(schema, good) == []
    assert problems(schema, bad) != []


def test_what_is_free_may_hold_anything() -> None:
    """But what is described is checked all the same."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}}

    assert problems(schema, {"a": "x", "b": [1]}) == []
    assert problems(schema, {"a": 1}) == [".a: 1 is not of the type string"]
    assert problems({"type": "object", "additionalProperties": True}, {"b": 1}) == []


def test_keywords_of_other_types_say_nothing() -> None:
    """As JSON Schema has it: a length is about texts."""
    assert problems({"minLength": 3, "minimum": 3, "pattern": "a", "items": {}, "properties": {}}, None) == []
    assert problems({"additionalProperties": False}, 1) == []


def test_an_unknown_keyword_is_an_error() -> None:
    """Nothing is taken for checked that was not."""
    with pytest.raises(UnknownKeywordError, match="oneOf"):
        problems({"oneOf": []}, 1)


@pytest.mark.parametrize(
    ("schema", "problem"),
    [
        ({}, ": has no type"),
        ({"type": "object", "properties": {"a": {}}}, ".a: has no type"),
        ({"type": "array"}, ": an array has no items"),
        ({"type": "array", "items": {}}, "[]: has no type"),
        ({"type": "object", "additionalProperties": False}, ": additionalProperties may not be false"),
        (
            {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
            ": properties and additionalProperties exclude each other",
        ),
        ({**EITHER, "type": "string"}, ": int-or-string goes with anyOf of both and without a type"),
        ({"type": "string", "anyOf": []}, ": anyOf is for int-or-string only"),
        ({"type": "object", "required": ["a"]}, ": a is required but not described"),
        (
            {"type": "object", "properties": {"metadata": {"type": "object", "required": []}}},
            ".metadata: may not be described",
        ),
    ],
)
def test_what_api_servers_refuse_is_not_structural(schema: Schema, problem: str) -> None:
    """Each rule by itself."""
    assert problem in not_structural(schema)


def test_a_structural_schema_is_recognised() -> None:
    """With everything that is allowed."""
    inner = {"type": "array", "items": EITHER}
    schema = {"type": "object", "required": ["a"], "properties": {"a": inner, "metadata": {"type": "object"}}}

    assert not_structural(schema) == []
