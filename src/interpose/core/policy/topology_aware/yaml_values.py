"""YAML in annotations of pods, as plain values. Authors of pods can write anything there: it is bounded, and a
ValueError says what is wrong.
"""

from collections.abc import Mapping
from typing import Any, Final

from interpose.core.model.text import quoted

Value = str | tuple["Value", ...] | Mapping[str, "Value"] | None

MAX_TEXT: Final = 16 * 1024
_MAX_DEPTH: Final = 8
_NULL: Final = "tag:yaml.org,2002:null"


def read_yaml(text: str, where: str) -> Value:
    """Maps, lists and texts; numbers and truth values keep their text. ValueError that begins with `where`."""
    # Most nodes never see such an annotation.
    import yaml

    if len(text) > MAX_TEXT:
        raise ValueError(f"{where}: has {len(text)} characters, more than {MAX_TEXT}")
    try:
        loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, Loader=loader)):
            raise ValueError(f"{where}: aliases are not allowed")
        node = yaml.compose(text, Loader=loader)
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(f"{where}: {quoted(text)} is not YAML: {_problem(error)}") from None
    return None if node is None else _value(node, where, _MAX_DEPTH)


def _value(node: Any, where: str, depth: int) -> Value:
    if not depth:
        raise ValueError(f"{where}: is more than {_MAX_DEPTH} levels deep")
    if node.id == "sequence":
        return tuple(_value(item, f"{where}[{index}]", depth - 1) for index, item in enumerate(node.value))
    if node.id == "mapping":
        found: dict[str, Value] = {}
        for name, child in node.value:
            if name.id != "scalar" or name.value in found:
                raise ValueError(f"{where}: {quoted(str(name.value))} is given twice or is no name")
            found[name.value] = _value(child, f"{where}.{name.value}", depth - 1)
        return found
    return None if node.tag == _NULL else str(node.value)


def _problem(error: Exception) -> str:
    return str(getattr(error, "problem", "")) or type(error).__name__
