"""What all programs of CRI Resource Manager make of a command line."""

from pathlib import Path

import pytest

import interpose
from interpose.cli.compat.cri_resmgr_flags import FlagValue, ResmgrFlag, read_line
from interpose.cli.compat.cri_resmgr_line import (
    SOURCES,
    collect_notes,
    debug_flag,
    debug_notes,
    debug_preset,
    find_switch,
    parse_debug_sources,
    print_usage,
)
from interpose.config.load import SettingText


@pytest.mark.parametrize(
    ("values", "states"),
    [
        ([], {}),
        ([""], {}),
        (["policy,static"], {"policy": True, "static": True}),
        (["policy:false"], {"policy": False}),
        (["policy:true"], {"policy": True}),
        (["off:policy,static"], {"policy": False, "static": False}),
        (["off:policy,on:static"], {"policy": False, "static": True}),
        (["on:policy,cache"], {"policy": True, "cache": True}),
        (["policy,cache", "cache:off"], {"policy": True, "cache": False}),
        (["all"], {"*": True}),
        (["*,policy:false"], {"*": True, "policy": False}),
        (["policy:false,*"], {"*": True, "policy": True}),
        (["*", "none"], {"*": False}),
        (["*,off:*"], {"*": False}),
        (["none", "policy"], {"*": False, "policy": True}),
        (["on:"], {}),
    ],
)
def test_sources_are_told_in_all_forms_of_all_releases(values: list[str], states: dict[str, bool]) -> None:
    """The last word about one counts."""
    assert parse_debug_sources(values) == states


def test_debugging_is_a_default_of_the_environment_and_a_flag() -> None:
    """Each with its origin; without it there is nothing to say."""
    everything = {"logging.level": SettingText("debug", "environment LOGGER_DEBUG")}
    assert debug_preset({"LOGGER_DEBUG": "all"}) == everything
    assert debug_preset({"LOGGER_DEBUG": "none"}) == {}
    assert debug_preset({}) == {}
    assert debug_flag(read_line(["--logger-debug", "*"])) == {
        "logging.level": SettingText("debug", "flag --logger-debug")
    }
    assert debug_flag(read_line(["--logger-debug", "policy", "--logger-debug", "none"])) == {}
    assert debug_flag(read_line([])) == {}


def test_sources_are_debugged_one_by_one() -> None:
    """What of ours logs about the same, each part once; the level stays."""
    given = debug_flag(read_line(["--logger-debug", "policy,static,cache"]))
    assert given == {"logging.debug": SettingText("resmgr,cri.store,resmgr.state.checkpoint", "flag --logger-debug")}


@pytest.mark.parametrize(
    ("value", "key", "text"),
    [
        ("*,policy:false", "logging.debug", "*,-resmgr"),
        ("all,cri/client:false,relay", "logging.debug", "*,-cri.store,relay,net.grpc,cli"),
        ("*,policy:false,static", "logging.level", "debug"),  # both are the same part of ours
        ("*,polcy:false", "logging.level", "debug"),
        ("policy,none,cache:false,static-pools", "logging.debug", "resmgr"),
    ],
)
def test_all_but_some_sources_are_debugged(value: str, key: str, text: str) -> None:
    """What is said of one counts more than what is said of all."""
    assert debug_flag(read_line(["--logger-debug", value])) == {key: SettingText(text, "flag --logger-debug")}


def test_sources_that_nobody_knows_are_told() -> None:
    """With a guess; they debug nothing."""
    line = read_line(["--logger-debug", "polcy,*"])
    assert debug_notes(line) == ["--logger-debug: 'polcy' is not a source of the log, did you mean policy?"]
    assert debug_flag(read_line(["--logger-debug", "polcy"])) == {}


@pytest.mark.parametrize("part", sorted({part for parts in SOURCES.values() for part in parts}))
def test_each_source_is_a_part_of_ours(part: str) -> None:
    """A package, or a module in one."""
    place = Path(interpose.__file__).parent.joinpath(*part.split("."))
    assert place.is_dir() or place.with_suffix(".py").is_file()


def test_flags_that_do_nothing_are_told_together() -> None:
    """By what there is to say, in the order of the line; not a switch that is off."""
    flags = {
        "a": ResmgrFlag("accepted", note="n"),
        "b": ResmgrFlag("accepted", note="n", switch=True),
        "c": ResmgrFlag("x"),
    }
    said = [
        FlagValue("b", "true", "flag -b"),
        FlagValue("a", "1", "flag -a"),
        FlagValue("a", "2", "flag -a"),
        FlagValue("c", "", "flag -c"),
    ]
    assert collect_notes(said, flags) == ["--b, --a: n"]
    assert collect_notes([FlagValue("b", "false", "flag -b")], flags) == []


def test_a_switch_counts_as_it_stands_last() -> None:
    """Also if it was on before."""
    assert find_switch(read_line(["--version"]), "version") == FlagValue("version", "true", "flag --version", 2)
    assert find_switch(read_line(["--version", "--version=false"]), "version") is None
    assert find_switch(read_line([]), "version") is None


def test_mistakes_are_told_with_the_way_to_the_flags(capsys: pytest.CaptureFixture[str]) -> None:
    """All of them, on standard error; the code is the caller's."""
    assert print_usage("x", ["a", "b"], 7) == 7
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == "error: a\nerror: b\nUsage: x [flags]\nRun x --help for the flags.\n"
