"""Command lines in the style of Go."""

import pytest

from interpose.cli.compat.go_flags import parse_go_flags


@pytest.mark.parametrize("line", ["-a 1", "-a=1", "--a 1", "--a=1", "-a 0 --a=1"])
def test_one_or_two_dashes_with_equals_or_blank_are_the_same(line: str) -> None:
    """All four spellings mean the same, and the last one counts."""
    parsed = parse_go_flags(line.split(), flags={"a"}, words=())
    assert parsed.values == {"a": "1"}
    assert parsed.problems == []


def test_values_may_be_empty_hold_equals_or_start_with_a_dash() -> None:
    """Whatever follows a flag is its value."""
    parsed = parse_go_flags(["--a=", "-b=x=y", "-c", "-d"], flags={"a", "b", "c"}, words=())
    assert parsed.values == {"a": "", "b": "x=y", "c": "-d"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--x=1"], "unknown flag --x"),
        (["-x"], "unknown flag --x"),
        (["---a", "1"], "unknown flag ---a, did you mean --a?"),
        (["word"], "unexpected argument 'word'"),
        (["--", "word"], "unexpected argument 'word'"),
        (["-"], "unexpected argument '-'"),
        (["-=1"], "unexpected argument '-=1'"),
        (["--a"], "flag --a needs a value"),
        (["--help=1"], "flag --help takes no value"),
        (["--hepl"], "unknown flag --hepl, did you mean --help?"),
    ],
)
def test_mistakes_are_named(arguments: list[str], problem: str) -> None:
    """Each mistake says which word it was."""
    assert problem in parse_go_flags(arguments, flags={"a"}, words={"help"}).problems


def test_value_of_an_unknown_flag_is_no_mistake_of_its_own() -> None:
    """What follows it counts; advice about flags of others comes after our own."""
    arguments = ["--y", "1", "--x", "-a", "2", "--hlep"]
    parsed = parse_go_flags(arguments, flags={"a"}, words={"help"}, elsewhere=lambda flag: f"; {flag}: ask Bob")
    assert parsed.problems == [
        "unknown flag --y; y: ask Bob",
        "unknown flag --x; x: ask Bob",
        "unknown flag --hlep, did you mean --help?",
    ]
    assert parsed.values == {"a": "2"}


def test_words_take_no_value() -> None:
    """-help and --help are found anywhere before the end mark."""
    assert parse_go_flags(["-help", "--a", "1"], flags={"a"}, words={"help"}).words == {"help"}
    assert parse_go_flags(["--"], flags={"a"}, words={"help"}).problems == []
