"""Manifests held against Kubernetes' own schemas, as far as the classes of `lightkube-models` carry them.

Their source is read, not imported: the package that they need at run time is not installed. Strict: a field that a
schema does not have is a problem, and so are a wrong type and a required field that is missing. What values of maps
are, the classes do not say; `_TEXT_MAPS` does for those that matter.
"""

import ast
import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.support.kube.plain_documents import Document

# Fields whose values must be text; a number there is the mistake everybody makes once.
_TEXT_MAPS: Final = frozenset(
    ("labels", "annotations", "matchLabels", "nodeSelector", "data", "stringData", "selector")
)
_SCALARS: Final[Mapping[str, tuple[type, ...]]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "datetime": (str,),
    "Quantity": (str, int, float),
}
_MAPS: Final = ("dict", "Dict")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    type: ast.expr
    required: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Module:
    """Classes by name, and names that stand for other types."""

    name: str
    classes: Mapping[str, Mapping[str, _Field]]
    aliases: Mapping[str, ast.expr]
    kinds: Mapping[tuple[str, str], str]  # (apiVersion, kind) -> class


class UnknownKindError(Exception):
    """Kubernetes itself has no such kind; somebody else's definition would be needed."""


def manifest_problems(document: Document) -> list[str]:
    """What is wrong with an object of a built-in kind, each with its path; UnknownKindError for others."""
    identity = str(document.get("apiVersion")), str(document.get("kind"))
    for module in _all_modules():
        if identity in module.kinds:
            return list(_of_class(module, module.kinds[identity], document, ""))
    raise UnknownKindError(" ".join(identity))


def field_names(module: str, name: str) -> frozenset[str]:
    """The fields of a class, such as `PodSpec` of `core_v1`."""
    return frozenset(_module(module).classes[name])


@cache
def _all_modules() -> tuple[_Module, ...]:
    return tuple(_module(path.stem) for path in sorted(_folder().glob("*_v1*.py")))


def _folder() -> Path:
    spec = importlib.util.find_spec("lightkube.models")
    if spec is None or not spec.origin:
        raise ModuleNotFoundError("lightkube-models is not installed")
    return Path(spec.origin).parent


@cache
def _module(name: str) -> _Module:
    tree = ast.parse((_folder() / f"{name}.py").read_text(encoding="utf-8"))
    classes, aliases, kinds = {}, {}, {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = dict(_fields(node))
            if identity := _identity(node):
                kinds[identity] = node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            aliases[node.targets[0].id] = node.value
    return _Module(name=name, classes=classes, aliases=aliases, kinds=kinds)


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, _Field]]:
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
            written = ast.literal_eval(item.annotation)  # types stand in quotes
            name = item.target.id
            if isinstance(item.value, ast.Call):
                for keyword in item.value.keywords:
                    if keyword.arg == "metadata":
                        name = ast.literal_eval(keyword.value)["json"]
            yield name, _Field(type=ast.parse(written, mode="eval").body, required=item.value is None)


def _identity(node: ast.ClassDef) -> tuple[str, str] | None:
    """What the class says of itself in `__post_init__`."""
    said = {}
    for item in ast.walk(node):
        if isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Attribute):
            said[item.targets[0].attr] = ast.literal_eval(item.value)
    return (said["apiVersion"], said["kind"]) if said.keys() >= {"apiVersion", "kind"} else None


def _of_class(module: _Module, name: str, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: is not a map"
        return
    fields = module.classes[name]
    for key, field in fields.items():
        if key in value:
            yield from _of_type(module, field.type, value[key], f"{path}.{key}", key)
        elif field.required:
            yield f"{path}.{key}: is missing"
    for key in value.keys() - fields.keys():
        yield f"{path}.{key}: {name} has no such field"


def _of_type(module: _Module, kind: ast.expr, value: Any, path: str, key: str) -> Iterator[str]:
    if isinstance(kind, ast.Subscript):
        yield from _of_generic(module, kind, value, path, key)
    elif isinstance(kind, ast.Attribute):
        assert isinstance(kind.value, ast.Name)
        yield from _of_name(_module(kind.value.id), kind.attr, value, path, key)
    else:
        assert isinstance(kind, ast.Name)
        yield from _of_name(module, kind.id, value, path, key)


def _of_generic(module: _Module, kind: ast.Subscript, value: Any, path: str, key: str) -> Iterator[str]:
    assert isinstance(kind.value, ast.Name)
    if kind.value.id == "List":
        if not isinstance(value, list):
            yield f"{path}: is not a list"
            return
        for index, item in enumerate(value):
            yield from _of_type(module, kind.slice, item, f"{path}[{index}]", key)
    elif kind.value.id == "Optional":
        yield from _of_type(module, kind.slice, value, path, key)
    else:  # Union[int, str]
        assert kind.value.id == "Union"
        if isinstance(value, bool) or not isinstance(value, int | str):
            yield f"{path}: is neither a number nor text"


def _of_name(module: _Module, name: str, value: Any, path: str, key: str) -> Iterator[str]:
    if name in module.classes:
        yield from _of_class(module, name, value, path)
    elif name in _SCALARS:
        if not isinstance(value, _SCALARS[name]) or (isinstance(value, bool) and name != "bool"):
            yield f"{path}: {value!r} is not of the type {name}"
    elif name in _MAPS:
        yield from _of_map(value, path, key)
    elif name in module.aliases:
        yield from _of_type(module, module.aliases[name], value, path, key)
    else:
        assert name == "Any", name


def _of_map(value: Any, path: str, key: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: is not a map"
    elif key in _TEXT_MAPS:
        for name, item in value.items():
            if not isinstance(item, str):
                yield f"{path}.{name}: {item!r} is not text"
