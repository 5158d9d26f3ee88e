"""Ids of sandboxes and containers: 64 hex digits, found by any start that only one of them has. Pure."""

import re
from collections.abc import Collection
from typing import Final

_ID: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def is_id(text: str) -> bool:
    """Whether this is a whole id; anything else has no business as the name of a file of ours."""
    return _ID.fullmatch(text) is not None


def full_id(known: Collection[str], object_id: str) -> str | None:
    """The one id that starts like this; None if there is none, if there are several, or if nothing was asked for."""
    if object_id in known:
        return object_id
    if not object_id:
        return None
    matches = [one for one in known if one.startswith(object_id)]
    return matches[0] if len(matches) == 1 else None


def wanted_id(known: Collection[str], object_id: str) -> str:
    """The id that a filter means: empty for any, and what was asked for where nothing is like it."""
    return full_id(known, object_id) or object_id
