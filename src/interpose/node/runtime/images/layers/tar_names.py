"""What the name of a tar entry in a layer means: a place, the end of something below, or nothing. Pure.

    etc/passwd         a place
    etc/.wh.shadow     the layers below have no etc/shadow any more
    etc/.wh..wh..opq   nor anything else in etc

Invariant: no part of a place is "", "." or "..", so that nothing can be named outside of a layer.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

WHITEOUT: Final = ".wh."
OPAQUE: Final = ".wh..wh..opq"
_OWN: Final = ".wh..wh."  # what the file system that had these first kept for itself
_LONGEST_NAME: Final = 4096
_LONGEST_PART: Final = 255


class EntryKind(Enum):
    """What to do with an entry."""

    PLACE = auto()  # put it there
    WHITEOUT = auto()  # hide what is below at this place
    OPAQUE = auto()  # hide all that is below in this folder
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class EntryName:
    """A meaning, and the parts of the place it is about; no parts: the root of the layer."""

    meaning: EntryKind
    parts: tuple[str, ...] = ()


def read_name(name: str) -> EntryName:
    """The meaning of a name; ValueError for one that no layer should have."""
    parts = split_name(name)
    if any(part.startswith(_OWN) and part != OPAQUE for part in parts):
        return EntryName(EntryKind.NOTHING)
    if any(part.startswith(WHITEOUT) for part in parts[:-1]):
        raise ValueError(f"entry {_shown(name)}: there is something inside of a whiteout")
    if not parts or not parts[-1].startswith(WHITEOUT):
        return EntryName(EntryKind.PLACE, parts)
    if parts[-1] == OPAQUE:
        return EntryName(EntryKind.OPAQUE, parts[:-1])
    hidden = parts[-1].removeprefix(WHITEOUT)
    if hidden in ("", ".", ".."):
        raise ValueError(f"entry {_shown(name)}: it is a whiteout of nothing")
    return EntryName(EntryKind.WHITEOUT, (*parts[:-1], hidden))


def split_name(name: str) -> tuple[str, ...]:
    """The parts of a name from the root of the layer on; a leading slash means that root."""
    if len(name.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
        raise ValueError(f"entry {_shown(name)}: its name is longer than {_LONGEST_NAME} bytes")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    for part in parts:
        if part == "..":
            raise ValueError(f"entry {_shown(name)}: it leads out of the layer")
        if "\0" in part:
            raise ValueError(f"entry {_shown(name)}: there is a NUL in its name")
        if len(part.encode("utf-8", "surrogateescape")) > _LONGEST_PART:
            raise ValueError(f"entry {_shown(name)}: a part of its name is longer than {_LONGEST_PART} bytes")
    return parts


def _shown(name: str) -> str:
    shown = name if len(name) <= 200 else name[:200] + "..."
    return ascii(shown)
