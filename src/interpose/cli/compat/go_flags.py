"""Command lines and option files as Go programs take them. Pure.

For the drop-in commands, which must accept the command lines of existing unit files: -flag value, -flag=value,
--flag value, --flag=value. Option files (`-config FILE` of cri-resmgr) have one option per line, without dashes:

    # a comment
    policy = static
    reserved-resources cpu=1000m
    logger = fmt
      debug = policy

An equals sign or blanks stand between an option and its value. An indented line is an option of the unindented line
above it: `logger-debug = policy`. Blanks around names and values do not count; there are no comments behind values,
which may hold anything. Which options exist is not known here.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from interpose.config.documents.yaml import MAX_FILE_BYTES, read_text
from interpose.core.model.text import closest_flag, quoted
from interpose.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class GoFlags:
    """What was given: values by flag name (the last one counts), bare words such as help, and what is wrong."""

    values: dict[str, str] = field(default_factory=dict)
    words: set[str] = field(default_factory=set)
    problems: list[str] = field(default_factory=list)


def parse_go_flags(
    arguments: Sequence[str],
    *,
    flags: Collection[str],
    words: Collection[str],
    elsewhere: Callable[[str], str] = lambda _flag: "",
) -> GoFlags:
    """Split a command line. `flags` take a value, `words` take none; `elsewhere` has advice about any other flag."""
    parsed = GoFlags()
    rest = list(arguments)
    while rest:
        argument = rest.pop(0)
        name, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
        if argument == "--":
            parsed.problems.extend(f"unexpected argument {word!r}" for word in rest)
            break
        if not argument.startswith("-") or not name:
            parsed.problems.append(f"unexpected argument {argument!r}")
        elif name in words and not equals:
            parsed.words.add(name)
        elif name in words:
            parsed.problems.append(f"flag --{name} takes no value")
        elif name not in flags:
            close = closest_flag(name.lstrip("-"), [*flags, *words])
            advice = f", did you mean --{close}?" if close else elsewhere(name)
            parsed.problems.append(f"unknown flag --{name}{advice}")
            if not equals and rest and not rest[0].startswith("-"):
                rest.pop(0)  # what was meant as its value
        elif equals or rest:
            parsed.values[name] = value if equals else rest.pop(0)
        else:
            parsed.problems.append(f"flag --{name} needs a value")
    return parsed


class FileOption(NamedTuple):
    """One option. A value of None: none was given. A heading has indented options below it."""

    name: str
    value: str | None
    line: int
    heading: bool = False


def read_option_file(path: str) -> list[FileOption]:
    """The options of a file in their order; ConfigError that names file and line."""
    return parse_options(read_text(path, MAX_FILE_BYTES), f"file {path}")


def parse_options(text: str, where: str) -> list[FileOption]:
    """The options in their order; ConfigError with all problems, each with `where` and its line."""
    found: list[FileOption] = []
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
            found.append(FileOption(f"{found[parent].name}-{name}", value, number))
        else:
            parent = len(found)
            found.append(FileOption(name, value, number))
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
