"""Files with the options of a command line, one per line, without dashes: `-config FILE` of cri-resmgr.

    # a comment
    policy = static
    reserved-resources cpu=1000m
    logger = fmt
      debug = policy

An equals sign or blanks stand between an option and its value. An indented line is an option of the one above it that
is not: `logger-debug = policy`. Blanks around names and values do not count; there are no comments behind values, which
may hold anything. Which options there are is not known here.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from interpose.config.documents.yaml import MAX_FILE_BYTES, read_text
from interpose.core.model.text import quoted
from interpose.errors import ConfigError


class Option(NamedTuple):
    """One option. A value of None: none was given. A heading has indented options below it."""

    name: str
    value: str | None
    line: int
    heading: bool = False


def read_option_file(path: str) -> list[Option]:
    """The options of a file in their order; ConfigError that names file and line."""
    return parse_options(read_text(path, MAX_FILE_BYTES), f"file {path}")


def parse_options(text: str, where: str) -> list[Option]:
    """The options in their order; ConfigError with all problems, each with `where` and its line."""
    found: list[Option] = []
    problems: list[str] = []
    parent: int | None = None  # where the last option that is not indented stands in `found`
    for number, line in _lines(text):
        name, value = split_option(line.strip(" \t\r"))
        indented = line[0] in " \t"
        if not name:
            problems.append(f"{where} line {number}: {quoted(line.strip())} is not of the form option = value")
        elif indented and parent is None:
            problems.append(f"{where} line {number}: {quoted(name)} is indented, and there is no option above it")
        elif indented and parent is not None:
            found[parent] = found[parent]._replace(heading=True)
            found.append(Option(f"{found[parent].name}-{name}", value, number))
        else:
            parent = len(found)
            found.append(Option(name, value, number))
    if problems:
        raise ConfigError(problems)
    return found


def split_option(line: str) -> tuple[str, str | None]:
    """The option, and its value if there is one."""
    name = re.split(r"[= \t]", line, maxsplit=1)[0]
    rest = line[len(name) :].lstrip(" \t")
    return name, rest.removeprefix("=").lstrip(" \t") if rest else None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.split("\n"), 1):
        if line.strip() and not line.lstrip().startswith("#"):
            yield number, line
