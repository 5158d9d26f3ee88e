"""What the schema of settings accepts, the loader accepts: of the kinds of which a schema can say everything."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.config.documents.yaml import parse_document
from interpose.config.hookserver.table import HOOKSERVER
from interpose.config.json_schema import settings_schema
from interpose.config.load import load
from interpose.config.relay.table import RELAY
from interpose.config.schema import Schema, Setting
from interpose.errors import ConfigError
from tests.support.kube.json_schema import schema_problems

SCHEMAS = {schema.file_kind: (schema, settings_schema(schema)) for schema in (RELAY, HOOKSERVER)}
ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 2**40),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
    st.sampled_from(["", "true", "info", "json", "proxy", "30s", "64KiB", "/x", "none"]),
)


def is_simple(setting: Setting) -> bool:
    """Whether every value it can have is known to the schema: numbers in a range, words, yes or no."""
    form = setting.kind.form
    return setting.is_switch or form.get("type") == "integer" or ("enum" in form and setting.key != "backend")


def nested(values: dict[str, Any], schema: Schema) -> dict[str, Any]:
    """Values by key as a file has them."""
    document: dict[str, Any] = {"apiVersion": "interpose/v1", "kind": schema.file_kind}
    for key, value in values.items():
        *sections, name = key.split(".")
        group = document
        for section in sections:
            group = group.setdefault(section, {})
        group[name] = value
    return document


@st.composite
def documents(draw: st.DrawFn) -> tuple[Schema, dict[str, Any]]:
    """Settings files with some keys, most of them with a value that is not a value of theirs."""
    schema, _ = SCHEMAS[draw(st.sampled_from(sorted(SCHEMAS)))]
    simple = [setting.key for setting in schema.table if is_simple(setting)]
    values = draw(st.dictionaries(st.sampled_from(simple), ANYTHING, max_size=3))
    return schema, nested(values, schema)


@given(documents())
def test_what_the_schema_accepts_the_loader_accepts(case: tuple[Schema, dict[str, Any]]) -> None:
    """And what the schema refuses, the loader refuses: neither is laxer about these."""
    schema, document = case
    node = parse_document(json.dumps(document), "test", json_only=True)
    refused: list[str] = []
    try:
        load(schema, flags={}, env={}, path="test.json", read=lambda _path: node)
    except ConfigError as error:
        # What contradicts another value is beyond a schema.
        refused = [one for one in error.problems if "contradicts" not in one and "not yet" not in one]
        refused = [one for one in refused if "is below" not in one]
    found = schema_problems(document, SCHEMAS[schema.file_kind][1])
    assert bool(found) == bool(refused), (found, refused)
