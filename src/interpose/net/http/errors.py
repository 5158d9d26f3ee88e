"""A server that gives no usable answer, and its answers in messages of ours."""

from typing import Final

_SHOWN: Final = 200  # characters


class UnreachableError(Exception):
    """No answer: no connection, one that broke, no time left, or an answer that cannot be used."""


def shortened(body: bytes, most: int = _SHOWN) -> str:
    """The beginning of a text that may be anything, on one line."""
    text = " ".join(body[: most * 4].decode("utf-8", "replace").split())
    text = "".join(char if char.isprintable() else "?" for char in text)
    return text if len(text) <= most else text[: most - 3] + "..."
