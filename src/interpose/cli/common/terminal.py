"""Values for a terminal: text from files, plugins and backends must not move its cursor."""

import json
import shutil
import sys
from typing import Final

from interpose.cli.render.text import or_dash

_ANY_WIDTH: Final = 1 << 30


def output_width() -> int:
    """How wide lines on standard output may be; in a pipe or a file names are not cut."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _ANY_WIDTH


def format_value(value: object) -> str:
    """A value of JSON as printable text on one line: yes and no for booleans, a dash for nothing."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return or_dash(json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value)
