"""Values held against JSON Schemas: of settings, of a chart's values, of custom resources (OpenAPI v3, structural).

`jsonschema` judges; what is ours is the translation of a structural schema, and Kubernetes' rules for what is one.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from jsonschema import Draft202012Validator

Schema = Mapping[str, Any]

_PRESERVE_UNKNOWN_FIELDS: Final = "x-kubernetes-preserve-unknown-fields"
_INT_OR_STRING: Final = "x-kubernetes-int-or-string"


def schema_problems(value: Any, schema: Schema) -> list[str]:
    """What a value has that its schema does not allow, each with its path; SchemaError if the schema is none itself."""
    Draft202012Validator.check_schema(schema)
    return [f"{error.json_path}: {error.message}" for error in Draft202012Validator(schema).iter_errors(value)]


def strict_schema(schema: Schema) -> dict[str, Any]:
    """A structural schema as JSON Schema that refuses fields an API server would drop: those it does not describe."""
    strict = dict(schema)
    if "properties" in schema:
        strict["properties"] = {name: strict_schema(inner) for name, inner in schema["properties"].items()}
        if not schema.get(_PRESERVE_UNKNOWN_FIELDS):
            strict.setdefault("additionalProperties", False)
    if isinstance(schema.get("additionalProperties"), Mapping):
        strict["additionalProperties"] = strict_schema(schema["additionalProperties"])
    if "items" in schema:
        strict["items"] = strict_schema(schema["items"])
    if schema.get("nullable"):
        strict["type"] = [schema["type"], "null"]
    return strict


def not_structural(schema: Schema, path: str = "") -> list[str]:
    """Why API servers would not take a schema for a structural one; they refuse definitions whose schema is not."""
    return list(_structure(schema, path))


def _structure(schema: Schema, path: str) -> Iterator[str]:
    if schema.get(_INT_OR_STRING):
        if "type" in schema or schema.get("anyOf") != [{"type": "integer"}, {"type": "string"}]:
            yield f"{path}: int-or-string goes with anyOf of both and without a type"
    elif not isinstance(schema.get("type"), str):
        yield f"{path}: has no type"
    elif "anyOf" in schema:
        yield f"{path}: anyOf is for int-or-string only"
    if schema.get("additionalProperties") is False:
        yield f"{path}: additionalProperties may not be false"
    if "properties" in schema and "additionalProperties" in schema:
        yield f"{path}: properties and additionalProperties exclude each other"
    if schema.get("type") == "array" and "items" not in schema:
        yield f"{path}: an array has no items"
    for name in set(schema.get("required", ())) - schema.get("properties", {}).keys():
        yield f"{path}: {name} is required but not described"
    for name, inner in schema.get("properties", {}).items():
        if path == "" and name == "metadata" and inner != {"type": "object"}:
            yield f"{path}.metadata: may not be described"
        yield from _structure(inner, f"{path}.{name}")
    if "items" in schema:
        yield from _structure(schema["items"], f"{path}[]")
