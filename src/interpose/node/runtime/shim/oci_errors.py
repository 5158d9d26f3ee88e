"""Error messages of OCI runtimes. No IO.

runc and crun log JSON lines with `--log-format json`, otherwise `level=error msg="..."` or plain text. The last error
counts.
"""

import json

_TEXT_LIMIT = 2000


def reason(text: str, fallback: str) -> str:
    """The last error in a log or on stderr; `fallback` if there is none."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    for line in reversed(lines):
        if (message := _message(line)) is not None:
            return message[:_TEXT_LIMIT]
    return lines[-1][:_TEXT_LIMIT] if lines else fallback


def _message(line: str) -> str | None:
    if line.startswith("{"):
        return _of_json(line)
    if "level=error" in line or "level=fatal" in line:
        return _of_text(line)
    return None


def _of_json(line: str) -> str | None:
    try:
        entry = json.loads(line)
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
        message, _ = json.JSONDecoder().raw_decode('"' + rest)
    except ValueError:
        return rest
    return str(message).strip() or None
