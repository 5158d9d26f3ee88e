"""JSON documents as Go reads them: names of fields in any case, the last of several wins, null is nothing."""

import json
from typing import Any

from tests.support.docker.fake.errors import DockerError


def parse(body: bytes) -> dict[str, Any]:
    """The document of a request; errors are dockerd's."""
    if not body.strip():
        raise DockerError(500, "EOF")
    try:
        document = json.loads(body)
    except ValueError:
        raise DockerError(500, "unexpected EOF") from None
    if not isinstance(document, dict):
        raise DockerError(500, f"json: cannot unmarshal {type(document).__name__} into Go value")
    return document


def field(document: Any, name: str, default: Any = None) -> Any:
    """A field by its name in any case; `default` if it is missing or null."""
    if not isinstance(document, dict):
        return default
    wanted = name.lower()
    found = [value for key, value in document.items() if key.lower() == wanted]
    return default if not found or found[-1] is None else found[-1]


def known(document: Any, defaults: dict[str, Any]) -> dict[str, Any]:
    """All fields of `defaults`, with what the document says; what else it has is dropped, as Go drops it."""
    return {name: field(document, name, default) for name, default in defaults.items()}


def words(value: Any) -> list[str]:
    """A command: one string or several."""
    if isinstance(value, str):
        return [value]
    return [str(word) for word in value or ()]
