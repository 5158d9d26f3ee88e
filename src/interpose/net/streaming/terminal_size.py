"""Sizes of a client's terminal: JSON documents one after the other on a stream of their own.

Invariant: at most `_LIMIT` bytes are held. What is not a size ends the reading, and nothing else: a session goes on
without sizes.
"""

import json
import re
from typing import Final, NamedTuple

_LIMIT: Final = 1024
_LARGEST: Final = 0xFFFF
_SPACE: Final = re.compile(rb"[ \t\r\n]*")
_DOCUMENT: Final = re.compile(rb"\{[^{}]*\}")


class Size(NamedTuple):
    """The size of a terminal in characters."""

    width: int
    height: int


def encode_size(width: int, height: int) -> bytes:
    """A size as a client sends it."""
    return json.dumps({"Width": width, "Height": height}, separators=(",", ":")).encode() + b"\n"


class SizeReader:
    """Cuts sizes out of a stream of bytes."""

    def __init__(self) -> None:
        self._held = b""
        self._broken = False

    def feed(self, data: bytes) -> list[Size]:
        """The sizes that these bytes complete."""
        sizes: list[Size] = []
        if self._broken:
            return sizes
        held = self._held + data
        at = _end_of_space(held, 0)
        while (found := _DOCUMENT.match(held, at)) is not None:
            size = _parse_size(found[0])
            if size is None:
                return self._break(sizes)
            sizes.append(size)
            at = _end_of_space(held, found.end())
        self._held = held[at:]
        if len(self._held) > _LIMIT or (self._held and not self._held.startswith(b"{")):
            return self._break(sizes)
        return sizes

    def _break(self, sizes: list[Size]) -> list[Size]:
        self._broken = True
        self._held = b""
        return sizes


def _end_of_space(data: bytes, at: int) -> int:
    found = _SPACE.match(data, at)
    return found.end() if found else at


def _parse_size(raw: bytes) -> Size | None:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    # As Go reads names: in any case.
    values = {name.lower(): value for name, value in values.items()}
    width, height = values.get("width", 0), values.get("height", 0)
    if not all(type(value) is int and 0 <= value <= _LARGEST for value in (width, height)):
        return None
    return Size(width, height)
