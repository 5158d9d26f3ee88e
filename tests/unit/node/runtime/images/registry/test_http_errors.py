"""What registries say when they refuse."""

import json

import pytest

from interpose.node.runtime.images.registry.http import error_text


@pytest.mark.parametrize(
    ("errors", "expected"),
    [
        ([{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown", "detail": {"Tag": "1"}}], "manifest unknown"),
        ([{"code": "DENIED", "message": "requested access is denied"}], "DENIED: requested access is denied"),
        ([{"code": "UNKNOWN"}, {"message": "sorry"}, {}, 5], "UNKNOWN; sorry"),
        ([{"code": 1, "message": ["x"]}, {"code": "X", "message": "\ud800"}], "X: ?"),
        ([{"code": str(number)} for number in range(9)], "0; 1; 2; 3; 4"),
    ],
)
def test_messages_and_what_codes_add(errors: list[object], expected: str) -> None:
    """Some of them, if there are many."""
    assert error_text(json.dumps({"errors": errors}).encode()) == expected.encode()


@pytest.mark.parametrize(
    "body", [b"", b"no such host", b"[]", b"{}", b'{"errors": 5}', b'{"errors": [5]}', b"[" * 100_000, b"\xff"]
)
def test_what_is_no_error_document_is_told_as_it_is(body: bytes) -> None:
    """A proxy's page, say."""
    assert error_text(body) == body
