"""Values for a terminal that is not ours: text from files, plugins and backends must not move its cursor."""

import json
import shutil
import sys
from typing import Final

from interpose.cli.render.text import plain

_ANY_WIDTH: Final = 1 << 30


def output_width() -> int:
    """How wide lines on standard output may be. Whoever reads a pipe or a file wants names as they are."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _ANY_WIDTH


def printable(value: object) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3f}".rstrip("0").rstrip(".")
    return plain(json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value)
