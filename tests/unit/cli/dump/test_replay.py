"""`interpose dump replay`: which way, which calls, and what does not go together."""

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


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "none was"),
        (("--to", "/a", "--serve", "/b"), "--to and --serve were given"),
        (("--to", "/a", "--policy", "static"), "--to and --policy were given"),
        (("--serve", "/a", "--cleanup"), "--cleanup means nothing with --serve: it is for --to"),
        (("--to", "/a", "--match", "exact"), "--match means nothing with --to: it is for --serve"),
        (("--to", "/a", "--picture"), "--picture means nothing with --to: it is for --policy"),
        (("--policy", "static", "--speed", "1"), "--speed means nothing with --policy: it is for --to and --serve"),
        (("--to", "/a", "--speed", "0"), "'0' is neither max nor a number above 0"),
        (("--to", "/a", "--speed", "fast"), "'fast' is neither max nor a number above 0"),
        (("--to", "/a", "~m"), "~m"),
    ],
)
def test_usage(recording: Path, arguments: tuple[str, ...], said: str) -> None:
    """What does not go together is said before anything is done."""
    result = replay(recording, *arguments)
    assert result.exit_code == 2
    assert said in result.stderr


def test_a_recording_is_needed(tmp_path: Path) -> None:
    """A file that is none is named."""
    assert replay("--to", "/a").exit_code == 2
    assert replay(tmp_path / "no.crirec", "--to", "/a").exit_code == 78
    other = tmp_path / "other.crirec"
    other.write_text("something else")
    result = replay(other, "--to", "/a")
    assert result.exit_code == 78
    assert "other.crirec" in result.stderr


def test_a_socket_that_cannot_be_one(recording: Path) -> None:
    """Is told with the option."""
    result = replay(recording, "--to", "tcp://127.0.0.1:1")
    assert result.exit_code == 78
    assert "--to" in result.stderr


def test_a_policy_decides_anew(recording: Path) -> None:
    """The third way has a module of its own."""
    result = replay(recording, "--policy", "static", "--topology", "1p1d1n4c1t", "--reserved-resources", "cpu=1")
    assert result.exit_code in (0, 1)
    assert "static" in result.output
