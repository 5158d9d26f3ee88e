"""RFC 6902."""

from copy import deepcopy
from typing import Any

import pytest

from tests.support.apiserver.patch.json_patch import apply_json_patch
from tests.support.apiserver.problems import RefusedError

_DOCUMENT = {"a": {"b": 1}, "list": [1, 2, 3], "x/y": {"~": 0}}


@pytest.mark.parametrize(
    ("operation", "path", "expected"),
    [
        ({"op": "add", "path": "/a/c", "value": None}, "a", {"b": 1, "c": None}),
        ({"op": "add", "path": "/list/1", "value": 9}, "list", [1, 9, 2, 3]),
        ({"op": "add", "path": "/list/-", "value": 9}, "list", [1, 2, 3, 9]),
        ({"op": "add", "path": "/list/3", "value": 9}, "list", [1, 2, 3, 9]),
        ({"op": "add", "path": "/x~1y/~0", "value": 1}, "x/y", {"~": 1}),
        ({"op": "remove", "path": "/a/b"}, "a", {}),
        ({"op": "remove", "path": "/list/0"}, "list", [2, 3]),
        ({"op": "replace", "path": "/a/b", "value": 2}, "a", {"b": 2}),
        ({"op": "replace", "path": "/list/2", "value": 9}, "list", [1, 2, 9]),
        ({"op": "replace", "path": "", "value": {"a": 5}}, "a", 5),
        ({"op": "test", "path": "/a", "value": {"b": 1}}, "a", {"b": 1}),
        ({"op": "copy", "from": "/a/b", "path": "/a/c"}, "a", {"b": 1, "c": 1}),
        ({"op": "move", "from": "/list/0", "path": "/list/2"}, "list", [2, 3, 1]),
        ({"op": "move", "from": "/a", "path": "/a"}, "a", {"b": 1}),
    ],
)
def test_each_operation(operation: dict[str, Any], path: str, expected: Any) -> None:
    """What it does; the document that came in stays as it was."""
    before = deepcopy(_DOCUMENT)
    assert apply_json_patch(before, [operation])[path] == expected
    assert before == _DOCUMENT


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/no/where", "value": 1},
        {"op": "add", "path": "/a/b/c", "value": 1},
        {"op": "add", "path": "/list/4", "value": 1},
        {"op": "add", "path": "/list/01", "value": 1},
        {"op": "add", "path": "/list/x", "value": 1},
        {"op": "add", "path": "a", "value": 1},
        {"op": "add", "path": "/a/c"},
        {"op": "remove", "path": "/a/c"},
        {"op": "remove", "path": ""},
        {"op": "remove", "path": "/list/-"},
        {"op": "replace", "path": "/a/c", "value": 1},
        {"op": "test", "path": "/a/b", "value": True},
        {"op": "test", "path": "/a/c", "value": 1},
        {"op": "copy", "path": "/a/c"},
        {"op": "copy", "from": "/q", "path": "/a/c"},
        {"op": "move", "from": "/a", "path": "/a/b"},
        {"op": "swap", "path": "/a"},
        {"op": "add", "value": 1},
    ],
)
def test_an_operation_that_does_not_fit(operation: dict[str, Any]) -> None:
    """Is 422, and nothing of the patch counts."""
    with pytest.raises(RefusedError) as caught:
        apply_json_patch(_DOCUMENT, [{"op": "add", "path": "/a/before", "value": 1}, operation])
    assert caught.value.code == 422
    assert "before" not in _DOCUMENT["a"]


@pytest.mark.parametrize("patch", [{}, "x", [1]])
def test_what_is_no_patch(patch: Any) -> None:
    """Is 400."""
    with pytest.raises(RefusedError) as caught:
        apply_json_patch(_DOCUMENT, patch)
    assert caught.value.code == 400


def test_a_patch_of_too_many_operations() -> None:
    """Is 413."""
    with pytest.raises(RefusedError) as caught:
        apply_json_patch(_DOCUMENT, [{"op": "test", "path": "/a/b", "value": 1}] * 10_001)
    assert caught.value.code == 413
