"""Error messages of OCI runtimes. No IO.

runc and crun log JSON with `--log-format json`, an entry a line, today's crun over several lines; otherwise
`level=error msg="..."` or plain text. The last error counts.
"""

import json

_TEXT_LIMIT = 2000
_DECODER = json.JSONDecoder()


def reason(text: str, fallback: str) -> str:
    """The last error in a log or on stderr; `fallback` if there is none."""
    entries = _entries(text)
    for entry in reversed(entries):
        if (message := _message(entry)) is not None:
            return message[:_TEXT_LIMIT]
    return entries[-1][:_TEXT_LIMIT] if entries else fallback


def _entries(text: str) -> list[str]:
    """JSON objects as they are written, wherever they end, and the lines around them."""
    entries = []
    rest = text.strip()
    while rest:
        entry = _object_at_begin(rest) or rest.partition("\n")[0].strip()
        entries.append(entry)
        rest = rest[len(entry) :].lstrip()
    return entries


def _object_at_begin(text: str) -> str:
    if not text.startswith("{"):
        return ""
    try:
        return text[: _DECODER.raw_decode(text)[1]]
    except ValueError:
        return ""


def _message(entry: str) -> str | None:
    if entry.startswith("{"):
        return _of_json(entry)
    if "level=error" in entry or "level=fatal" in entry:
        return _of_text(entry)
    return None


def _of_json(text: str) -> str | None:
    try:
        entry = json.loads(text)
    except ValueError:
        return None
    if not isinstance(entry, dict) or entry.get("level") not in ("error", "fatal"):
        return None
    message = entry.get("msg")
    return message.strip() if isinstance(message, str) and message.strip() else None


def _of_text(line: str) -> str | None:
    _, found, rest = line.partition('msg="')
    if not found:
        return line.partition("msg=")[2] or None
    try:
        message, _ = _DECODER.raw_decode('"' + rest)
    except ValueError:
        return rest
    return str(message).strip() or None
