"""Ids of sandboxes and containers: 64 hex digits, also found by a unique prefix. Pure."""

import re
from collections.abc import Collection
from typing import Final

_ID: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def is_id(text: str) -> bool:
    """Whether a text is a complete id; no other text may become the name of a file."""
    return _ID.fullmatch(text) is not None


def ids_with_prefix(known: Collection[str], object_id: str) -> list[str]:
    """All ids with this prefix: a complete id matches only itself, an empty one matches none."""
    if object_id in known:
        return [object_id]
    return [known_id for known_id in known if known_id.startswith(object_id)] if object_id else []


def resolve_id(known: Collection[str], object_id: str) -> str:
    """The id of a filter: empty for any; a prefix of none or several ids is returned as it is."""
    found = ids_with_prefix(known, object_id)
    return found[0] if len(found) == 1 else object_id
