"""Which calls: the options of `show` and `follow` that are sugar for the filter language, and the words behind files.

A repeated option means one of its values; different options and the filter are all to hold.
"""

import stat
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from interpose.core.model.text import printable
from interpose.dump.filter.language import Filter, all_of, any_of, make_term, parse_filter
from interpose.dump.filter.terms import reference_table
from interpose.errors import ConfigError

SUFFIX: Final = ".crirec"
STDIN: Final = "-"
_F = TypeVar("_F", bound=Callable[..., Any])

# Flag, parameter, letter of the question, what stands before the argument, help.
_OPTIONS: Final = (
    ("--method", "m", "", "RE", "Method."),
    ("--namespace", "ns", "", "RE", "Namespace."),
    ("--pod", "p", "", "RE", "Pod: name, or beginning of uid or id."),
    ("--container", "c", "", "RE", "Container: name, or beginning of id."),
    ("--image", "i", "", "RE", "Image."),
    ("--status", "s", "", "STATUS", "OK, NOT_FOUND, a number, error (any failure), open (not over)."),
    ("--min-duration", "d", ">=", "TIME", "Took so long or longer: 100ms, 1.5s."),
    ("--max-duration", "d", "<=", "TIME", "Took so long or less."),
    ("--changed-by", "h", "", "RE", "Changed on the way by this hook server or policy."),
    ("--text", "t", "", "RE", "In requests or replies, as YAML."),
    ("--since", "since", "", "TIME", "Began then or later: 2026-11-16T09:00Z, 09:00:30 (UTC), -10m."),
    ("--until", "until", "", "TIME", "Began then or before."),
)
# \b keeps click from filling paragraphs.
FILTER_HELP: Final = "\n".join(
    (
        "\b",
        "Filters. RE is a regular expression, found anywhere, case does not matter; of a",
        "call's text only the first MiB is searched.",
        *(f"  {line}" for line in reference_table().splitlines()),
    )
)


class FilterArgumentError(click.ClickException):
    """A filter that cannot be read. Wrong usage, but how the command is used is not what has to be said."""

    exit_code = 2


def choice_options(command: _F) -> _F:
    """Decorator that adds the options which select calls."""
    for flag, _letter, _sign, metavar, text in reversed(_OPTIONS):
        command = click.option(flag, metavar=metavar, multiple=True, help=text)(command)
    return click.option("--changed", is_flag=True, help="Changed on the way, by anybody.")(command)


def alone_option(command: _F) -> _F:
    """Adds the option of all commands that read files."""
    text = "Only the files that are named, not the older ones of a rotated recording."
    return click.option("--alone", is_flag=True, help=text)(command)


def parse_numbers(numbers: str) -> Filter:
    """The ranges of call numbers of --number; raises ConfigError."""
    try:
        return make_term("n", numbers, "--number")
    except ConfigError as error:
        raise FilterArgumentError("\n".join(error.problems)) from None


def build_filter(words: Sequence[str], values: Mapping[str, Any]) -> Filter:
    """The filter that words and options make together. FilterMistake with its place."""
    now = time.time_ns()
    try:
        parts = [parse_filter(" ".join(words), now=now)]
        for flag, letter, sign, _metavar, _text in _OPTIONS:
            given = values[flag.removeprefix("--").replace("-", "_")]
            parts.append(any_of([make_term(letter, sign + value, flag, now=now) for value in given]))
        if values["changed"]:
            parts.append(make_term("h", "", "--changed"))
    except ConfigError as error:
        raise FilterArgumentError("\n".join(error.problems)) from None
    return all_of(parts)


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Files, and the words of a filter behind them. The first arguments that are files are files.

    ConfigError if there is none.
    """
    files: list[str] = []
    for argument in arguments:
        if not (argument == STDIN or argument.endswith(SUFFIX) or _is_file(argument)):
            break
        files.append(argument)
    if not arguments:
        raise click.UsageError("which recording?")
    if not files:
        directory = Path(arguments[0]).is_dir() if "\0" not in arguments[0] else False
        raise ConfigError(
            f"{printable(arguments[0])}: {'a directory, not a recording' if directory else 'no such file'}"
        )
    if STDIN in files and len(files) > 1:
        raise click.UsageError("standard input (-) is read alone, without other files")
    return files, list(arguments[len(files) :])


def _is_file(path: str) -> bool:
    try:
        return not stat.S_ISDIR(Path(path).stat().st_mode)
    except (OSError, ValueError):
        return False
