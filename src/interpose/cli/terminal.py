"""Values for a terminal that is not ours: text from files, plugins and backends must not move its cursor."""

import json

from interpose.views.text import plain


def printable(value: object) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return plain(json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value)
