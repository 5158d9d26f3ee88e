"""How a command ended, as it is told on the error stream: a Status document since v4, plain words before.

Invariant: whatever a server sends is read as something: an exit code, or words why there is none.
"""

import json
import re
from typing import Any, Final, NamedTuple

_NON_ZERO: Final = "NonZeroExitCode"
_EXIT_CODE: Final = "ExitCode"
_NUMBER: Final = re.compile(r"-?[0-9]{1,10}")
_SHOWN: Final = 4096


class ExitStatus(NamedTuple):
    """The exit code, or, if that is None, why there is none."""

    code: int | None
    message: str = ""


def success() -> bytes:
    """The command ended well."""
    return _document({"metadata": {}, "status": "Success"})


def exited(code: int) -> bytes:
    """The command ended with that exit code."""
    if not code:
        return success()
    return _document(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"command terminated with non-zero exit code: {code}",
            "reason": _NON_ZERO,
            "details": {"causes": [{"reason": _EXIT_CODE, "message": str(code)}]},
        }
    )


def failure(message: str) -> bytes:
    """The command could not be run, or nobody knows how it ended."""
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


def as_words(document: bytes) -> bytes:
    """The same for v3 and before: nothing for a good end, else the message."""
    parsed = json.loads(document)
    return b"" if parsed["status"] == "Success" else parsed["message"].encode()


def read(raw: bytes) -> ExitStatus:
    """What a server said, in v4 and later. Nothing at all is how some say that all is well."""
    if not raw.strip():
        return ExitStatus(0)
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        return ExitStatus(None, _shown(raw))
    if not isinstance(document, dict):
        return ExitStatus(None, _shown(raw))
    if document.get("status") == "Success":
        return ExitStatus(0)
    if document.get("reason") == _NON_ZERO:
        code = _code(document)
        if code is not None:
            return ExitStatus(code)
    message = document.get("message")
    return ExitStatus(None, message[:_SHOWN] if isinstance(message, str) and message else _shown(raw))


def read_words(raw: bytes) -> ExitStatus:
    """What a server said, in v3 and before."""
    return ExitStatus(None, _shown(raw)) if raw.strip() else ExitStatus(0)


def _code(document: dict[str, Any]) -> int | None:
    details = document.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else ():
        if isinstance(cause, dict) and cause.get("reason") == _EXIT_CODE:
            text = cause.get("message")
            if isinstance(text, str) and _NUMBER.fullmatch(text):
                return int(text)
    return None


def _shown(raw: bytes) -> str:
    return raw[:_SHOWN].decode(errors="replace").strip()


def _document(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()
