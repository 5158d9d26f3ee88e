"""A server that gives no usable answer, and its answers in messages of ours."""

from typing import Final

from interpose.core.model.text import printable

_SHOWN: Final = 200  # characters


class UnreachableError(Exception):
    """No answer: no connection, one that broke, no time left, or an answer that cannot be used."""


def shortened(body: bytes, most: int = _SHOWN) -> str:
    """The beginning of a text that may be anything, on one line."""
    text = printable(" ".join(body[: most * 4].decode("utf-8", "replace").split()))
    return text if len(text) <= most else text[: most - 3] + "..."
