"""The calls of a recording, and a filter."""

from pathlib import Path

import pytest

from interpose.cli.dump.filter_options import FilterArgumentError
from interpose.cli.dump.replay_recording import ReplayRecording
from interpose.errors import ConfigError
from interpose.testing.recordings import sample_recording


@pytest.fixture
def recording(tmp_path: Path) -> str:
    """Two pods."""
    return str(sample_recording(tmp_path / "node.crirec"))


def test_calls_know_whom_they_are_about(recording: str) -> None:
    """Also those that name an id only."""
    recorded = ReplayRecording([recording], [])
    found = {str(one.flow.subject) for one in recorded.calls() if one.flow.name == "StartContainer"}
    assert found == {"shop/web-0:app", "jobs/batch-7f9c:worker"}


def test_a_filter_of_several_words(recording: str) -> None:
    """All have to hold; it may look into messages."""
    recorded = ReplayRecording([recording], ["~m", "Create", "~t", "web:3"])
    assert [str(one.flow.subject) for one in recorded.calls() if recorded.wanted(one.flow)] == ["shop/web-0:app"]


def test_a_filter_that_is_none(recording: str) -> None:
    """Is a matter of usage."""
    with pytest.raises(FilterArgumentError):
        ReplayRecording([recording], ["("])


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    """Is named."""
    with pytest.raises(ConfigError, match=r"no\.crirec"):
        ReplayRecording([str(tmp_path / "no.crirec")], [])


def test_damage_is_told(recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    """When everything was read."""
    data = bytearray(Path(recording).read_bytes())
    data[3000] ^= 0xFF
    Path(recording).write_bytes(data)
    recorded = ReplayRecording([recording], [])
    assert list(recorded.calls())
    recorded.print_damage()
    assert "warning: " in capsys.readouterr().err


def test_a_large_recording_is_announced(
    recording: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading it takes a while; a small one is read without a word."""
    list(ReplayRecording([recording], []).calls())
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("interpose.cli.dump.replay_recording._LARGE", 1)
    list(ReplayRecording([recording], []).calls())
    assert capsys.readouterr().err == f"Reading {recording} (0 MiB) ...\n"
