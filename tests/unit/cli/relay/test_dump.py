"""The dump's part of a relay: what rules mean for a tap, and what is wrong with files."""

from pathlib import Path

import pytest

from interpose.cli.relay.dump import check_dump, compute_interests, is_dump_enabled, parse_interests
from interpose.config.dump_rules import parse_rules
from interpose.config.relay.settings import DumpSettings
from interpose.errors import ConfigError
from interpose.net.httpd.routes import BadRequestError
from interpose.relay.api import Interest


@pytest.mark.parametrize(
    ("name", "interest"),
    [
        ("Version", Interest.NONE),
        ("Status", Interest.CALLS),
        ("ListContainers", Interest.CALLS),
        ("Exec", Interest.MESSAGES),
        ("", Interest.MESSAGES),
    ],
)
def test_names_and_counts_need_no_messages(name: str, interest: Interest) -> None:
    """What is off is not tapped at all; of methods nobody knows only the name decides, later."""
    rules = parse_rules(["reset,full:.*,off:Version,short:Status,count:List.*"])
    assert compute_interests(rules)[name] is interest


def test_switched_off_nothing_is_tapped() -> None:
    """Methods nobody knows neither."""
    assert set(compute_interests(parse_rules(["off"])).values()) == {Interest.NONE}


def test_what_a_reader_asks_for() -> None:
    """Names, or everything; expressions are not for a relay to work out."""
    assert parse_interests([("full", "Exec,"), ("calls", "Status"), ("others", "")]) == {
        "Exec": Interest.MESSAGES,
        "Status": Interest.CALLS,
        "": Interest.MESSAGES,
    }
    assert set(parse_interests([]).values()) == {Interest.MESSAGES}
    with pytest.raises(BadRequestError, match="not a CRI method"):
        parse_interests([("full", "(.+)+x")])
    with pytest.raises(BadRequestError, match="not known here"):
        parse_interests([("rules", "on")])


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (DumpSettings(), False),
        (DumpSettings(rules=("off",)), False),
        (DumpSettings(rules=("on",)), True),
        (DumpSettings(record="/a.crirec"), True),
    ],
)
def test_when_a_scribe_is_wanted(settings: DumpSettings, expected: bool) -> None:
    """If there is anything for it to do."""
    assert is_dump_enabled(settings) is expected


def test_files_that_cannot_be(tmp_path: Path) -> None:
    """All are named, with the reason."""
    with pytest.raises(ConfigError) as caught:
        check_dump(DumpSettings(file=str(tmp_path / "no" / "x"), record=str(tmp_path)))
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["dump.file", "dump.record"]
    check_dump(DumpSettings(file=str(tmp_path / "x"), record=str(tmp_path / "y")))
    check_dump(DumpSettings())


def test_rules_that_take_for_ever() -> None:
    """They are named, instead of a relay that never listens."""
    with pytest.raises(ConfigError, match=r"dump.rules: .*takes too long"):
        check_dump(DumpSettings(rules=(r"reset,full:(\w+)+-",)))
