"""Files with one option per line."""

from pathlib import Path

import pytest

from interpose.cli.compat.go_flags import FileOption, parse_options, read_option_file
from interpose.errors import ConfigError


def test_names_and_values_are_split_at_the_first_sign() -> None:
    """Blanks around them do not count, everything else does; empty lines and comments are skipped."""
    text = (
        "\n# comment\n  # another\npolicy = static\n\t \nreserved-resources=cpu=1000m # 1\ndump\t=\nlist-policies\r\n"
    )
    assert parse_options(text, "file f") == [
        FileOption("policy", "static", 4),
        FileOption("reserved-resources", "cpu=1000m # 1", 6),
        FileOption("dump", "", 7),
        FileOption("list-policies", None, 8),
    ]


def test_blanks_stand_for_the_sign() -> None:
    """The command line without its dashes: a sign behind the first blank is the value's."""
    text = (
        "policy static\nreserved-resources \tcpu=1000m\nlogger fmt\n  debug policy, static\ndump = full:.* x\na b = c"
    )
    assert [(one.name, one.value) for one in parse_options(text, "file f")] == [
        ("policy", "static"),
        ("reserved-resources", "cpu=1000m"),
        ("logger", "fmt"),
        ("logger-debug", "policy, static"),
        ("dump", "full:.* x"),
        ("a", "b = c"),
    ]


def test_indented_lines_go_on_with_the_name_above() -> None:
    """With that of the last line that is not indented, which is a heading then."""
    text = "logger = fmt\n  debug = policy\n# no end\n\n\tlevel = info\nstatic-pools\n  conf-file = /x\npolicy = none"
    assert parse_options(text, "file f") == [
        FileOption("logger", "fmt", 1, heading=True),
        FileOption("logger-debug", "policy", 2),
        FileOption("logger-level", "info", 5),
        FileOption("static-pools", None, 6, heading=True),
        FileOption("static-pools-conf-file", "/x", 7),
        FileOption("policy", "none", 8),
    ]


def test_options_may_be_repeated() -> None:
    """Their order is that of the file."""
    assert [option.value for option in parse_options("dump = a\ndump = b", "file f")] == ["a", "b"]


def test_all_lines_that_cannot_be_read_are_named() -> None:
    """With file and line."""
    with pytest.raises(ConfigError) as caught:
        parse_options("  debug = x\n= y\n", "file f")
    assert caught.value.problems == [
        "file f line 1: 'debug' is indented, and there is no option above it",
        "file f line 2: '= y' is not of the form option = value",
    ]


def test_files_are_read_and_missing_ones_named(tmp_path: Path) -> None:
    """An empty file has no options."""
    path = tmp_path / "options.cfg"
    path.write_text("")
    assert read_option_file(str(path)) == []
    with pytest.raises(ConfigError, match=r"missing\.cfg: cannot be read: No such file"):
        read_option_file(str(tmp_path / "missing.cfg"))
