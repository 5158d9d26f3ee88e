"""Values for a terminal that is not ours: text from files, plugins and backends must not move its cursor."""

import json


def printable(value: object) -> str:
    """A value on one line."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    structured = isinstance(value, dict | list)
    text = json.dumps(value, ensure_ascii=False) if structured else str(value)
    return "".join(char if char.isprintable() else "?" for char in text)
