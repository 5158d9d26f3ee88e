"""What registries say when they refuse: the messages of their error documents. Pure."""

import json

_MOST = 5


def told(body: bytes) -> bytes:
    """The messages of an error document, each with its code where it says more; any other body as it is."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body
    errors = document.get("errors") if isinstance(document, dict) else None
    if not isinstance(errors, list):
        return body
    found = [words for one in errors[:_MOST] if (words := _words(one))]
    return "; ".join(found).encode("utf-8", "replace") or body


def _words(error: object) -> str:
    if not isinstance(error, dict):
        return ""
    code, message = (text if isinstance(text := error.get(key), str) else "" for key in ("code", "message"))
    if not message:
        return code
    same = message.lower().replace(" ", "_") == code.lower()
    return message if same or not code else f"{code}: {message}"
