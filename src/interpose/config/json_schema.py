"""JSON Schema of settings files, made from the tables: for editors and for checks that have no interpose at hand.

It says what can be said without running code: names, types, ranges of numbers, words. The loader is the judge, and
refuses more: the forms of paths and addresses, and values that exclude each other. Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from interpose.config.check import API_VERSION
from interpose.config.schema import Schema, Setting, value_of
from interpose.config.values import SettingKind

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
_TYPES: Final[Mapping[str, str]] = {
    "bool": "boolean",
    "int": "integer",
    "float": "number",
    "list": "array",
    "str": "string",
}
_ITEM: Final = {"type": ["string", "integer"]}


def settings_schema(schema: Schema) -> dict[str, Any]:
    """The schema of one program's settings files."""
    root = _group(f"Settings of `{schema.program}`.")
    root["properties"] |= {
        "apiVersion": {"const": API_VERSION, "description": "Version of this format."},
        "kind": {"const": schema.file_kind, "description": "Whose settings these are."},
    }
    for setting in schema.table:
        *sections, name = setting.key.split(".")
        group = root
        for depth, section in enumerate(sections, 1):
            title = schema.titles.get(".".join(sections[:depth]), "")
            group = group["properties"].setdefault(section, _group(title, nullable=True))
        group["properties"][name] = _value(setting, schema)
    return document_schema(schema.file_kind, {**root, "required": ["apiVersion", "kind"]})


def document_schema(title: str, form: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that stands alone."""
    return {"$schema": DIALECT, "title": title, **form}


def form_of_kind(kind: SettingKind) -> dict[str, Any]:
    """What is known of a kind of value; at least its types."""
    if kind.form:
        return dict(kind.form)
    types = [word for tag, word in _TYPES.items() if tag in kind.accepts]
    items = {"items": _ITEM} if "list" in kind.accepts else {}
    return {"type": types[0] if len(types) == 1 else types, **items}


def _group(title: str, *, nullable: bool = False) -> dict[str, Any]:
    # A group whose keys are all commented out is null.
    return {
        "type": ["object", "null"] if nullable else "object",
        **({"description": title} if title else {}),
        "properties": {},
        "additionalProperties": False,
    }


def _value(setting: Setting, schema: Schema) -> dict[str, Any]:
    default = value_of(schema.settings(), setting.key)
    if not isinstance(default, bool | int) or setting.kind.accepts - {"bool", "int"}:
        default = setting.kind.show(default)  # as a person would write it
    others = f" Default: {schema.defaults(setting)}." if setting.instead else ""
    about = f"{setting.help} Flag {setting.flag}, variable {setting.env}.{others} Why this default: {setting.why}"
    return {**form_of_kind(setting.kind), "default": default, "description": about}
