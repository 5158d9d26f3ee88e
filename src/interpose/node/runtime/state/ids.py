"""Ids of sandboxes and containers: 64 hex digits, found by any start that only one of them has. Pure."""

import re
from collections.abc import Collection
from typing import Final

_ID: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def is_id(text: str) -> bool:
    """Whether this is a whole id; anything else has no business as the name of a file of ours."""
    return _ID.fullmatch(text) is not None


def ids_like(known: Collection[str], object_id: str) -> list[str]:
    """All ids that start like this: a whole one is itself only, and nothing is the start of none."""
    if object_id in known:
        return [object_id]
    return [one for one in known if one.startswith(object_id)] if object_id else []


def resolve_id(known: Collection[str], object_id: str) -> str:
    """The id that a filter means: empty for any, and what was asked for where none or several are like it."""
    found = ids_like(known, object_id)
    return found[0] if len(found) == 1 else object_id
