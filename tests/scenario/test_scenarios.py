"""Every scenario: the folder says whose it is, the file what happens on which machine, and why that must be so."""

from pathlib import Path

import pytest

from tests.support.policy.scenarios import play, read_scenario

FILES = sorted(Path(__file__).parent.glob("*/*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_scenario(path: Path) -> None:
    """Step by step as the file says."""
    scenario = read_scenario(path)
    assert scenario.policy == path.parent.name
    assert play(scenario) == []
