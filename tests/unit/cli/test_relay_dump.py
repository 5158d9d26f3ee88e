"""The dump's part of a relay: what rules mean for a tap, and what is wrong with files."""

from pathlib import Path

import pytest

from interpose.cli.relay_dump import check_files, interest_of, wanted
from interpose.config.dump_rules import parse_rules
from interpose.config.settings import DumpSettings
from interpose.errors import ConfigError
from interpose.relay.interceptor import Interest


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
    assert interest_of(rules)(name) is interest


def test_switched_off_nothing_is_tapped() -> None:
    """Methods nobody knows neither."""
    interest = interest_of(parse_rules(["off"]))
    assert {interest(name) for name in ("", "Version", "Exec")} == {Interest.NONE}


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
    assert wanted(settings) is expected


def test_files_that_cannot_be(tmp_path: Path) -> None:
    """All are named, with the reason."""
    with pytest.raises(ConfigError) as caught:
        check_files(DumpSettings(file=str(tmp_path / "no" / "x"), record=str(tmp_path)))
    assert [problem.split(":")[0] for problem in caught.value.problems] == ["dump.file", "dump.record"]
    check_files(DumpSettings(file=str(tmp_path / "x"), record=str(tmp_path / "y")))
    check_files(DumpSettings())
