"""What all programs of CRI Resource Manager make of a command line."""

import pytest

from interpose.cli.cri_resmgr_flags import Flag, Said, read_line
from interpose.cli.cri_resmgr_line import debug_flag, debug_preset, debugs, notes, usage, wants
from interpose.config.load import Given


@pytest.mark.parametrize(
    ("values", "on"),
    [
        ([], False),
        ([""], False),
        (["policy,static"], True),
        (["policy:false"], False),
        (["policy:true"], True),
        (["off:policy,static"], False),
        (["off:policy,on:static"], True),
        (["on:policy,cache"], True),
        (["all"], True),
        (["*", "none"], False),
        (["*,off:*"], False),
        (["none", "policy"], True),
        (["on:"], False),
    ],
)
def test_debugging_of_any_source_is_debugging(values: list[str], on: bool) -> None:
    """In all forms of all releases."""
    assert debugs(values) is on


def test_debugging_is_a_default_of_the_environment_and_a_flag() -> None:
    """Each with its origin; without it there is nothing to say about the level."""
    assert debug_preset({"LOGGER_DEBUG": "all"}) == {"logging.level": Given("debug", "environment LOGGER_DEBUG")}
    assert debug_preset({"LOGGER_DEBUG": "none"}) == {}
    assert debug_preset({}) == {}
    assert debug_flag(read_line(["--logger-debug", "x"])) == {"logging.level": Given("debug", "flag --logger-debug")}
    assert debug_flag(read_line(["--logger-debug", "x", "--logger-debug", "none"])) == {}
    assert debug_flag(read_line([])) == {}


def test_flags_that_do_nothing_are_told_together() -> None:
    """By what there is to say, in the order of the line; not a switch that is off."""
    flags = {"a": Flag("accepted", note="n"), "b": Flag("accepted", note="n", switch=True), "c": Flag("x")}
    said = [
        Said("b", "true", "flag -b"),
        Said("a", "1", "flag -a"),
        Said("a", "2", "flag -a"),
        Said("c", "", "flag -c"),
    ]
    assert notes(said, flags) == ["--b, --a: n"]
    assert notes([Said("b", "false", "flag -b")], flags) == []


def test_a_switch_counts_as_it_stands_last() -> None:
    """Also if it was on before."""
    assert wants(read_line(["--version"]), "version") == Said("version", "true", "flag --version", 2)
    assert wants(read_line(["--version", "--version=false"]), "version") is None
    assert wants(read_line([]), "version") is None


def test_mistakes_are_told_with_the_way_to_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, on standard error; the code is the caller's."""
    assert usage("x", ["a", "b"], 7) == 7
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "error: a\nerror: b\nUsage: x [flags]\nRun x --help for the flags.\n"
