"""Which files, and which calls."""

from pathlib import Path
from typing import Any

import click
import pytest

from interpose.cli.dump.filter_options import (
    FILTER_HELP,
    FilterArgumentError,
    build_filter,
    choice_options,
    parse_numbers,
    split_arguments,
)
from interpose.dump.filter.language import parse_filter
from interpose.errors import ConfigError


def values(**given: Any) -> dict[str, Any]:
    """The options as click gives them, most of them not used."""

    @choice_options
    @click.command()
    def command() -> None:
        """Only its options matter."""

    empty = {str(one.name): False if getattr(one, "is_flag", False) else () for one in command.params}
    assert given.keys() <= empty.keys()
    return empty | given


def test_options_are_sugar_for_filters() -> None:
    """One of the values of each, and all of them."""
    found = build_filter(
        ["~k", "intercepted"],
        values(method=("Create", "Start"), pod=("web",), min_duration=("100ms",), max_duration=("1s",), changed=True),
    )
    assert found == parse_filter("~k intercepted (~m Create | ~m Start) ~p web ~d >=100ms ~d <=1s ~h")


def test_without_options_there_is_only_the_filter() -> None:
    """Or nothing at all."""
    assert build_filter([], values()) == parse_filter("")
    assert build_filter(["web", "|", "db"], values()) == parse_filter("web | db")


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"status": ("x",)}, "--status: 'x' is not a status"),
        ({"method": ("(",)}, "--method: '\\(' is not a regular expression"),
        ({"min_duration": ("1",)}, "--min-duration: '>=1' is not a duration"),
        ({"since": ("x",)}, "--since: 'x' is not a time"),
    ],
)
def test_mistakes_name_the_option(given: dict[str, Any], reason: str) -> None:
    """They are wrong usage."""
    with pytest.raises(FilterArgumentError, match=reason):
        build_filter([], values(**given))


def test_mistakes_of_a_filter_have_a_place() -> None:
    """In the words as they were given."""
    with pytest.raises(FilterArgumentError, match="there is no ~x"):
        build_filter(["~x"], values())
    with pytest.raises(FilterArgumentError, match="--number: 'x' is not a number"):
        parse_numbers("x")
    assert str(parse_numbers("1,4-6")) == "~n 1,4-6"


def test_the_first_arguments_that_are_files_are_files(tmp_path: Path) -> None:
    """Or are called like recordings; a directory is none."""
    plain = tmp_path / "plain"
    plain.touch()
    assert split_arguments(["a.crirec", str(plain), "web", "b.crirec"]) == (
        ["a.crirec", str(plain)],
        ["web", "b.crirec"],
    )
    assert split_arguments(["a.crirec", str(tmp_path)]) == (["a.crirec"], [str(tmp_path)])
    assert split_arguments(["-", "~m", "a"]) == (["-"], ["~m", "a"])


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [([], "which recording"), (["-", "a.crirec"], "read alone")],
)
def test_without_a_file_nothing_can_be_shown(arguments: list[str], reason: str) -> None:
    """Wrong usage."""
    with pytest.raises(click.UsageError, match=reason):
        split_arguments(arguments)


@pytest.mark.parametrize(
    ("argument", "reason"),
    [("web", "^web: no such file$"), ("\0", r"^\?: no such file$"), ("/", "^/: a directory, not a recording$")],
)
def test_the_first_argument_has_to_be_a_file(argument: str, reason: str) -> None:
    """It is named as it was given, without what a terminal would obey."""
    with pytest.raises(ConfigError, match=reason):
        split_arguments([argument, "~m Create"])


def test_the_help_explains_filters() -> None:
    """And what bounds them."""
    assert "~m RE" in FILTER_HELP
    assert "first MiB" in FILTER_HELP
