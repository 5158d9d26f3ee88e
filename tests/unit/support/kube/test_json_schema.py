"""Structural schemas become strict JSON Schemas, and what is not structural is found."""

from typing import Any

import pytest
from jsonschema.exceptions import SchemaError

from tests.support.kube.json_schema import Schema, not_structural, schema_problems, strict_schema

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
    assert schema_problems(good, strict_schema(schema)) == []
    assert schema_problems(bad, strict_schema(schema)) != []


def test_unknown_fields_may_be_preserved() -> None:
    """An object that preserves unknown fields takes any, but fields that its schema describes are checked."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"a": {"type": "string"}}}

    assert schema_problems({"a": "x", "b": [1]}, strict_schema(schema)) == []
    assert schema_problems({"a": 1}, strict_schema(schema)) == ["$.a: 1 is not of type 'string'"]


def test_strictness_reaches_every_level() -> None:
    """Fields that are not described are refused within items and within values of maps too."""
    inner = {"type": "object", "properties": {"a": {"type": "string"}}}
    assert schema_problems([{"b": 1}], strict_schema({"type": "array", "items": inner})) != []
    assert schema_problems({"x": {"b": 1}}, strict_schema({"type": "object", "additionalProperties": inner})) != []


def test_a_schema_that_is_none_is_an_error() -> None:
    """A misspelt type does not pass for a schema that allows everything."""
    with pytest.raises(SchemaError, match="integr"):
        schema_problems(1, {"type": "integr"})


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
