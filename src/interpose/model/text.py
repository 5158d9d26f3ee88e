"""Text of others inside messages of ours."""

from typing import Final

_SHOWN: Final = 80


def quoted(text: str) -> str:
    """Text in quotes, on one line and not longer than a line."""
    return repr(str(text) if len(text) <= _SHOWN else text[: _SHOWN - 3] + "...")
