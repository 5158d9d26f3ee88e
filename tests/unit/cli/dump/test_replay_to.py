"""`interpose dump replay --to`: which calls, without a runtime."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.testing.recordings import sample_recording


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Two pods."""
    return sample_recording(tmp_path / "node.crirec")


def replay(*arguments: object) -> Result:
    """The command."""
    return CliRunner().invoke(cli, ["dump", "replay", *map(str, arguments)])


def test_a_dry_run_needs_no_runtime(recording: Path) -> None:
    """It shows what would be made."""
    result = replay(recording, "--to", "nowhere.sock", "--dry-run")
    assert result.exit_code == 0
    assert "8 calls would be made." in result.output
    assert "Left out 2 calls: commands run in containers (--exec makes them)." in result.output


def test_a_filter_chooses(recording: Path) -> None:
    """What depends on others that it does not choose is skipped."""
    result = replay(recording, "pod=web", "--to", "/nowhere", "--dry-run", "-o", "json")
    document = json.loads(result.stdout)
    assert {one["subject"] for one in document["calls"]} == {"shop/web-0", "shop/web-0:app"}
    result = replay(recording, "~m", "Start", "--to", "/nowhere", "--dry-run", "-o", "json")
    document = json.loads(result.stdout)
    assert document["calls"] == []
    assert len(document["skipped"]) == 2


def test_more_calls_are_made_if_asked_for(recording: Path) -> None:
    """Commands, pulls, reads, and the relay's own."""
    arguments = ("--to", "/nowhere", "--dry-run", "-o", "json", "--exec", "--pull", "--reads", "--as-sent")
    found = {one["method"] for one in json.loads(replay(recording, *arguments).stdout)["calls"]}
    assert {"ExecSync", "PullImage", "Version", "UpdateContainerResources"} <= found
    assert "GetContainerEvents" not in found


def test_a_damaged_recording_is_told(recording: Path) -> None:
    """And what is left of it is used."""
    data = bytearray(recording.read_bytes())
    data[3000] ^= 0xFF
    recording.write_bytes(data)
    result = replay(recording, "--to", "/nowhere", "--dry-run")
    assert result.exit_code == 0
    assert "warning: " in result.stderr


def test_nobody_listens(recording: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The socket and the reason are named."""
    monkeypatch.setattr("interpose.cli.dump.replay_to._WAIT", 0.05)
    result = replay(recording, "--to", tmp_path / "no.sock")
    assert result.exit_code == 1
    assert "no.sock: UNAVAILABLE" in result.stderr
