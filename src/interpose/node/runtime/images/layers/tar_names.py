"""Names of tar entries in a layer: a path, a whiteout of one below, or nothing. Pure.

    etc/passwd         a path
    etc/.wh.shadow     the layers below have no etc/shadow any more
    etc/.wh..wh..opq   nor anything else in etc

Invariant: no part of a path is "", "." or "..", so that no name leads out of a layer.
"""

from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

WHITEOUT: Final = ".wh."
OPAQUE: Final = ".wh..wh..opq"
_OWN: Final = ".wh..wh."  # metadata of aufs
_LONGEST_NAME: Final = 4096
_LONGEST_PART: Final = 255


class EntryKind(Enum):
    """The kind of an entry, by its name."""

    PATH = auto()  # a file or folder
    WHITEOUT = auto()  # hides the path in the layers below
    OPAQUE = auto()  # hides all paths of the layers below in this folder
    NOTHING = auto()


@dataclass(frozen=True, slots=True)
class EntryName:
    """The kind of an entry, and the parts of its path; no parts: the root of the layer."""

    kind: EntryKind
    parts: tuple[str, ...] = ()


def read_name(name: str) -> EntryName:
    """Parse the name of an entry; ValueError for one that no layer should have."""
    parts = split_name(name)
    if any(part.startswith(_OWN) and part != OPAQUE for part in parts):
        return EntryName(EntryKind.NOTHING)
    if any(part.startswith(WHITEOUT) for part in parts[:-1]):
        raise ValueError(f"entry {_quote(name)}: there is something inside of a whiteout")
    if not parts or not parts[-1].startswith(WHITEOUT):
        return EntryName(EntryKind.PATH, parts)
    if parts[-1] == OPAQUE:
        return EntryName(EntryKind.OPAQUE, parts[:-1])
    hidden = parts[-1].removeprefix(WHITEOUT)
    if hidden in ("", ".", ".."):
        raise ValueError(f"entry {_quote(name)}: it is a whiteout of nothing")
    return EntryName(EntryKind.WHITEOUT, (*parts[:-1], hidden))


def split_name(name: str) -> tuple[str, ...]:
    """The parts of a name from the root of the layer on; a leading slash means that root."""
    if len(name.encode("utf-8", "surrogateescape")) > _LONGEST_NAME:
        raise ValueError(f"entry {_quote(name)}: its name is longer than {_LONGEST_NAME} bytes")
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    for part in parts:
        if part == "..":
            raise ValueError(f"entry {_quote(name)}: it leads out of the layer")
        if "\0" in part:
            raise ValueError(f"entry {_quote(name)}: there is a NUL in its name")
        if len(part.encode("utf-8", "surrogateescape")) > _LONGEST_PART:
            raise ValueError(f"entry {_quote(name)}: a part of its name is longer than {_LONGEST_PART} bytes")
    return parts


def _quote(name: str) -> str:
    return ascii(name if len(name) <= 200 else name[:200] + "...")
