"""Command lines of CRI Resource Manager."""

from collections.abc import Sequence

import pytest

from interpose.cli.compat.cri_resmgr_flags import FLAGS, ResmgrLine, read_line
from interpose.cli.compat.go_flags import FileOption, parse_options
from interpose.config.relay.table import RELAY_SETTINGS
from interpose.errors import ConfigError

FILES = {"/a.cfg": "policy = static\nlogger = fmt\n  debug = x\n", "/b.cfg": "policy = none\n"}


def options_of(path: str) -> Sequence[FileOption]:
    """The files there are."""
    return parse_options(FILES[path], f"file {path}")


def read(text: str) -> ResmgrLine:
    """A command line."""
    return read_line(text.split(), options_of)


def in_file(text: str) -> ResmgrLine:
    """A command line with this file."""
    return read_line(["-config", "/f"], lambda path: parse_options(text, f"file {path}"))


def values(line: ResmgrLine, name: str) -> list[str]:
    """All values of a flag."""
    return [flag.value for flag in line.flags if flag.name == name]


def test_every_flag_that_stands_for_a_setting_names_one_that_exists() -> None:
    """And no setting has two flags."""
    keys = [flag.key for flag in FLAGS.values() if flag.key]
    assert set(keys) <= {setting.key for setting in RELAY_SETTINGS}
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("text", ["-policy static", "-policy=static", "--policy static", "--policy=static"])
def test_one_or_two_dashes_with_equals_or_blank_are_the_same(text: str) -> None:
    """As in every Go program; the origin shows what was typed."""
    line = read(text)
    assert (values(line, "policy"), line.rest, line.problems) == (["static"], [], [])
    assert line.flags[0].origin == f"flag {text.replace('=', ' ').split()[0]}"


@pytest.mark.parametrize(
    ("text", "value"),
    [("-disable-ui", "true"), ("--disable-ui=false", "false"), ("-disable-ui=0", "false"), ("-disable-ui=T", "true")],
)
def test_switches_take_a_value_behind_a_sign_only(text: str, value: str) -> None:
    """Go's words for true and false."""
    assert values(read(text), "disable-ui") == [value]


def test_what_follows_the_flags_is_kept() -> None:
    """The first word that is no flag ends them, as two dashes do."""
    assert read("-policy none help -x").rest == ["help", "-x"]
    assert read("-disable-ui true").rest == ["true"]
    assert read("-disable-ui -- -policy").rest == ["-policy"]
    assert read("-policy - -").rest == ["-"]


def test_all_mistakes_are_told() -> None:
    """What was probably meant as the value of an unknown flag is not taken for a leftover."""
    line = read("--polcy static -x=3 -y -disable-ui=maybe --dump")
    assert line.problems == [
        "unknown flag --polcy, did you mean --policy?",
        "unknown flag -x",
        "unknown flag -y",
        "flag -disable-ui: 'maybe' is neither true nor false",
        "flag --dump needs a value",
    ]
    assert line.rest == []


@pytest.mark.parametrize("text", ["-config /a.cfg", "-config=/a.cfg", "--config /a.cfg", "--config=/a.cfg"])
def test_a_file_takes_its_place_on_the_command_line(text: str) -> None:
    """What stands left of it is overridden, what stands right of it overrides."""
    line = read(f"-policy left -relay-socket /l {text} -relay-dir /r")
    assert line.last("policy") == ("policy", "static", "file /a.cfg line 1: policy", 2)
    assert read(f"{text} -policy right").last("policy") == ("policy", "right", "flag -policy", 1)
    assert values(line, "logger-debug") == ["x"]
    assert [flag.name for flag in line.flags] == [
        "policy",
        "relay-socket",
        "policy",
        "logger",
        "logger-debug",
        "relay-dir",
    ]


def test_there_may_be_several_files() -> None:
    """The last one counts."""
    assert values(read("-config /a.cfg -config /b.cfg"), "policy") == ["static", "none"]


def test_a_flag_that_was_not_given_is_not_there() -> None:
    """Defaults are somebody else's."""
    assert read("-disable-ui").last("policy") is None


def test_switches_in_files_may_have_a_value() -> None:
    """Or none, which is true."""
    line = in_file("disable-ui\nreset-policy = false\nprint-config = true")
    assert [(flag.name, flag.value) for flag in line.flags] == [
        ("disable-ui", "true"),
        ("reset-policy", "false"),
        ("print-config", "true"),
    ]


def test_a_heading_need_not_be_a_flag() -> None:
    """`static-pools` is only the beginning of the names below it; `logger` alone has no value either."""
    line = in_file("static-pools\n  conf-file = /x\nlogger\n  debug = y")
    assert [(flag.name, flag.value) for flag in line.flags] == [("static-pools-conf-file", "/x"), ("logger-debug", "y")]


def test_all_mistakes_in_a_file_are_told_with_their_lines() -> None:
    """Unknown options, files in files, values that are missing or wrong."""
    text = "polcy = static\nconfig = /other\npolicy\ndisable-ui = maybe\nstatic-pools = x\n  conf-file = /x\n"
    with pytest.raises(ConfigError) as caught:
        in_file(text)
    assert caught.value.problems == [
        "file /f line 1: 'polcy' is not a known option, did you mean policy?",
        "file /f line 2: config: a file cannot name another one",
        "file /f line 3: policy: needs a value",
        "file /f line 4: disable-ui: 'maybe' is neither true nor false",
        "file /f line 5: 'static-pools' is not a known option, did you mean static-pools-conf-dir?",
    ]
