"""$(NAME) inside texts of a manifest, as Kubernetes replaces it. Pure.

One pass from left to right: what was put in is not looked at again, so nothing can go on for ever. `$$` is a dollar
that starts nothing; a name that is not known, and an opening without an end, stay as they are written.
"""

import re
from collections.abc import Mapping
from typing import Final

from interpose.core.model.text import quoted

_REFERENCE: Final = re.compile(r"\$(?:\$|\(([^)]*)\))", re.DOTALL)


def expand(text: str, values: Mapping[str, str]) -> str:
    """The text with all known names replaced."""

    def value(match: re.Match[str]) -> str:
        name = match[1]
        return "$" if name is None else values.get(name, match[0])

    return _REFERENCE.sub(value, text)


def expand_strictly(text: str, values: Mapping[str, str]) -> str:
    """The same, but a name that is not known is a ValueError that names it."""
    for match in _REFERENCE.finditer(text):
        if match[1] is not None and match[1] not in values:
            raise ValueError(f"{quoted(text)}: there is no variable {quoted(match[1])}")
    return expand(text, values)
