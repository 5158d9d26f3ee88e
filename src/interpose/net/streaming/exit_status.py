"""How a command ended, as sent on the error stream: a Status document since v4, plain text before.

Invariant: whatever a server sends is read as something: an exit code, or a text that says why there is none.
"""

import json
import re
from typing import Any, Final, NamedTuple

_NON_ZERO: Final = "NonZeroExitCode"
_EXIT_CODE: Final = "ExitCode"
_NUMBER: Final = re.compile(r"-?[0-9]{1,10}")
_MOST_TEXT: Final = 4096


class ExitStatus(NamedTuple):
    """The exit code, or, if that is None, why there is none."""

    code: int | None
    message: str = ""


def success_document() -> bytes:
    """The status document of a command that exited with 0."""
    return _document({"metadata": {}, "status": "Success"})


def exit_document(code: int) -> bytes:
    """The status document of a command that exited with this code."""
    if not code:
        return success_document()
    return _document(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: {code}",
            "reason": _NON_ZERO,
            "details": {"causes": [{"reason": _EXIT_CODE, "message": str(code)}]},
        }
    )


def failure_document(message: str) -> bytes:
    """The status document of a command that could not be run, or whose end is not known."""
    return _document(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"Internal error occurred: {message}",
            "reason": "InternalError",
            "details": {"causes": [{"message": message}]},
            "code": 500,
        }
    )


def to_plain_text(document: bytes) -> bytes:
    """A status document as v3 and before send it: nothing for exit code 0, else the message."""
    parsed = json.loads(document)
    return b"" if parsed["status"] == "Success" else parsed["message"].encode()


def parse_status(raw: bytes) -> ExitStatus:
    """The status that a server sent in v4 and later. Some servers send nothing for exit code 0."""
    if not raw.strip():
        return ExitStatus(0)
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return ExitStatus(None, _to_text(raw))
    if not isinstance(document, dict):
        return ExitStatus(None, _to_text(raw))
    if document.get("status") == "Success":
        return ExitStatus(0)
    if document.get("reason") == _NON_ZERO:
        code = _find_exit_code(document)
        if code is not None:
            return ExitStatus(code)
    message = document.get("message")
    return ExitStatus(None, message[:_MOST_TEXT] if isinstance(message, str) and message else _to_text(raw))


def parse_plain_text(raw: bytes) -> ExitStatus:
    """The status that a server sent in v3 and before."""
    return ExitStatus(None, _to_text(raw)) if raw.strip() else ExitStatus(0)


def _find_exit_code(document: dict[str, Any]) -> int | None:
    details = document.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == _EXIT_CODE:
            text = cause.get("message")
            if isinstance(text, str) and _NUMBER.fullmatch(text):
                return int(text)
    return None


def _to_text(raw: bytes) -> str:
    return raw[:_MOST_TEXT].decode(errors="replace").strip()


def _document(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()
