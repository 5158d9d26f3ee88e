"""JSON patches (RFC 6902) as kube-apiserver carries them out. Pure.

A patch counts whole or not at all: the document that came in is not changed.
"""

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any

from tests.support.apiserver.problems import RefusedError, bad_request, unprocessable

_MOST_OPERATIONS = 10_000


class _ImpossibleError(Exception):
    """An operation that does not fit the document."""


def apply_json_patch(document: Any, patch: Any) -> Any:
    """The document after all operations. RefusedError 400 if it is no patch, 422 if it does not fit."""
    if not isinstance(patch, list) or not all(isinstance(operation, Mapping) for operation in patch):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    if len(patch) > _MOST_OPERATIONS:
        raise RefusedError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {_MOST_OPERATIONS}, got {len(patch)}",
        )
    changed = deepcopy(document)
    for operation in patch:
        act = _OPERATIONS.get(operation.get("op", ""))
        if act is None or not isinstance(operation.get("path"), str):
            raise unprocessable()
        try:
            changed = act(changed, operation)
        except _ImpossibleError:
            raise unprocessable() from None
    return changed


def _parts(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise _ImpossibleError
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _index(place: list[Any], part: str, *, end: bool) -> int:
    if part == "-" and end:
        return len(place)
    if not part.isdecimal() or (part != "0" and part.startswith("0")):
        raise _ImpossibleError
    if int(part) > len(place) - (0 if end else 1):
        raise _ImpossibleError
    return int(part)


def _find(document: Any, parts: list[str]) -> Any:
    for part in parts:
        if isinstance(document, dict) and part in document:
            document = document[part]
        elif isinstance(document, list):
            document = document[_index(document, part, end=False)]
        else:
            raise _ImpossibleError
    return document


def _put(document: Any, parts: list[str], value: Any) -> Any:
    if not parts:
        return value
    place = _find(document, parts[:-1])
    if isinstance(place, dict):
        place[parts[-1]] = value
    elif isinstance(place, list):
        place.insert(_index(place, parts[-1], end=True), value)
    else:
        raise _ImpossibleError
    return document


def _take(document: Any, parts: list[str]) -> Any:
    if not parts:
        raise _ImpossibleError
    place = _find(document, parts[:-1])
    _find(place, parts[-1:])
    if isinstance(place, dict):
        return place.pop(parts[-1])
    return place.pop(int(parts[-1]))


def _value(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise _ImpossibleError
    return deepcopy(operation["value"])


def _add(document: Any, operation: Mapping[str, Any]) -> Any:
    return _put(document, _parts(operation["path"]), _value(operation))


def _remove(document: Any, operation: Mapping[str, Any]) -> Any:
    _take(document, _parts(operation["path"]))
    return document


def _replace(document: Any, operation: Mapping[str, Any]) -> Any:
    parts = _parts(operation["path"])
    value = _value(operation)
    if parts:
        _take(document, parts)
    return _put(document, parts, value)


def _test(document: Any, operation: Mapping[str, Any]) -> Any:
    # As text, because 1 == True for Python and not for JSON.
    found, wanted = _find(document, _parts(operation["path"])), _value(operation)
    if json.dumps(found, sort_keys=True) != json.dumps(wanted, sort_keys=True):
        raise _ImpossibleError
    return document


def _copy(document: Any, operation: Mapping[str, Any]) -> Any:
    return _put(document, _parts(operation["path"]), deepcopy(_find(document, _parts(operation.get("from")))))


def _move(document: Any, operation: Mapping[str, Any]) -> Any:
    source, target = _parts(operation.get("from")), _parts(operation["path"])
    if target[: len(source)] == source and target != source:
        raise _ImpossibleError
    return _put(document, target, _take(document, source))


_OPERATIONS: Mapping[str, Callable[[Any, Mapping[str, Any]], Any]] = {
    "add": _add,
    "remove": _remove,
    "replace": _replace,
    "test": _test,
    "copy": _copy,
    "move": _move,
}
