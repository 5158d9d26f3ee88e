"""`interpose dump record`: what is written, and when it ends."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.dump.model.frames import encode
from interpose.dump.recording.reader import Recording
from interpose.testing.recordings import story_frames
from tests.unit.cli.dump.test_attach import HEAD, relay

STORY = b"".join(map(encode, story_frames()))


def run(tmp_path: Path, act: Callable[[socket.socket, bytes], None], *options: str) -> Result:
    """The command, with somebody who answers."""
    with relay(tmp_path / "admin.sock", act) as admin:
        argv = ["dump", "record", "--socket", admin, "-w", str(tmp_path / "a.crirec"), *options]
        return CliRunner().invoke(cli, argv)


def sends_story(sock: socket.socket, _request: bytes) -> None:
    """A relay that goes away after a while."""
    sock.sendall(HEAD + STORY)


def stays(sock: socket.socket, _request: bytes) -> None:
    """A relay that waits for the client to leave."""
    sock.sendall(HEAD + STORY)
    while sock.recv(4096):
        pass


def test_relay_that_goes_away_ends_the_recording(tmp_path: Path) -> None:
    """What came is there, whole and redacted; the exit code says that it was not us who ended it."""
    result = run(tmp_path, sends_story)
    assert result.exit_code == 1
    assert "is gone" in result.output
    recording = Recording(tmp_path / "a.crirec")
    flows = list(recording.flows())
    assert len([flow for flow in flows if flow.end is not None]) > 5
    assert (recording.damage, recording.header.facts["redaction"]) == ([], "default")


def test_so_many_calls(tmp_path: Path) -> None:
    """And no more."""
    result = run(tmp_path, stays, "--calls", "3")
    assert result.exit_code == 0, result.output
    assert "3 calls in" in result.output
    ended = [flow for flow in Recording(tmp_path / "a.crirec").flows() if flow.end is not None]
    assert len(ended) == 3


def test_so_long(tmp_path: Path) -> None:
    """A time that is over at once."""
    result = run(tmp_path, stays, "--for", "100ms")
    assert result.exit_code == 0, result.output
    assert "the time is over" in result.output


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--for", "soon"], "--for"),
        (["--size", "1"], "--size"),
        (["--redact", "loud"], "loud"),
    ],
)
def test_wrong_options(tmp_path: Path, options: list[str], said: str) -> None:
    """Before anybody is asked."""
    result = CliRunner().invoke(cli, ["dump", "record", "--socket", str(tmp_path / "no.sock"), *options])
    assert result.exit_code == 78
    assert said in result.output


def test_redaction_that_is_off_is_said(tmp_path: Path) -> None:
    """Loudly, and before anything is written."""
    result = run(tmp_path, sends_story, "--redact", "none", "--quiet")
    assert "redaction is off" in result.output
    assert Recording(tmp_path / "a.crirec").header.facts["redaction"] == "none"


def test_file_that_cannot_be_written(tmp_path: Path) -> None:
    """The reason, with the file."""
    result = run(tmp_path, sends_story, "-w", str(tmp_path / "no" / "a.crirec"))
    assert result.exit_code != 0
    assert str(tmp_path / "no") in result.output
