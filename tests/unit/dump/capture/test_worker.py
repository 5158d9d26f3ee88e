"""What the dump worker writes of what it is sent, and how it ends."""

import json
import socket
import threading
from pathlib import Path

import pytest

from interpose.dump.capture.worker import DumpWorker, serve
from interpose.dump.capture.worker_config import WorkerConfig
from interpose.dump.model.frames import encode
from interpose.dump.recording.reader import Recording
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.recordings import story_frames
from tests.support.lab.processes import wait_for

STORY = b"".join(map(encode, story_frames()))


def test_dump_and_recording_side_by_side(tmp_path: Path) -> None:
    """The dump has what its rules say, the recording everything; both are redacted."""
    config = WorkerConfig(
        rules=("reset,short:CreateContainer",),
        file=str(tmp_path / "dump"),
        log=False,
        record=str(tmp_path / "a.crirec"),
    )
    worker = DumpWorker(config)
    worker.feed(STORY)
    worker.close()
    lines = (tmp_path / "dump").read_text().splitlines()
    assert lines
    assert all("REQUEST CreateContainer" in line or "FAILED CreateContainer" in line for line in lines)
    recording = Recording(tmp_path / "a.crirec")
    flows = list(recording.flows())
    assert len(flows) > len(lines)
    assert recording.header.facts["redaction"] == "default"
    assert worker.report()["error"] == ""
    assert worker.report()["lines"] == len(lines)


def test_rules_that_are_off_leave_the_recording(tmp_path: Path) -> None:
    """No dump, no file."""
    worker = DumpWorker(WorkerConfig(log=False, record=str(tmp_path / "a.crirec")))
    worker.feed(STORY)
    worker.flush()
    worker.close()
    assert [one.name for one in tmp_path.iterdir()] == ["a.crirec"]


def test_recording_that_cannot_be_opened_is_tried_again(tmp_path: Path) -> None:
    """The dump goes on meanwhile, and the relay is told why."""
    now = 0.0
    record = tmp_path / "away" / "a.crirec"
    config = WorkerConfig(rules=("on",), file=str(tmp_path / "dump"), log=False, record=str(record))
    worker = DumpWorker(config, lambda: now)
    worker.feed(STORY)
    assert str(record) in worker.report()["error"]
    record.parent.mkdir()
    worker.flush()
    assert not record.exists()
    now = 5.0
    worker.flush()
    worker.feed(STORY)
    worker.close()
    assert (record.exists(), worker.report()["error"]) == (True, "")
    assert (tmp_path / "dump").read_text()


def test_dump_in_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    """By default it is there."""
    DumpWorker(WorkerConfig(rules=("reset,short:.*",))).feed(STORY)
    assert "message] (intercepted) REQUEST CreateContainer" in capfd.readouterr().err


def test_serving_ends_with_the_relay(tmp_path: Path) -> None:
    """What came is written; now and then the relay hears of it."""
    times = iter(range(1000))
    ours, theirs = socket.socketpair()
    worker = DumpWorker(WorkerConfig(rules=("on",), file=str(tmp_path / "dump"), log=False))
    with ours, theirs:
        ours.sendall(STORY)
        ours.shutdown(socket.SHUT_WR)
        serve(theirs, worker, lambda: float(next(times)))
        report = json.loads(ours.recv(4096).splitlines()[-1])
    worker.close()
    assert report["frames"] == len(story_frames())
    assert (tmp_path / "dump").read_text().count("\n") == report["lines"]


def test_moment_of_silence_is_enough(tmp_path: Path) -> None:
    """Whoever looks at the file sees what has passed; the second is never over here."""
    ours, theirs = socket.socketpair()
    worker = DumpWorker(WorkerConfig(rules=("on",), file=str(tmp_path / "dump"), log=False))
    with ours, theirs:
        thread = threading.Thread(target=serve, args=(theirs, worker, lambda: 0.0), name="scribe")
        thread.start()
        ours.sendall(STORY)
        wait_for((tmp_path / "dump").read_text, what="lines in the file")
        ours.shutdown(socket.SHUT_WR)
        thread.join(WAIT_LIMIT)
    worker.close()


def test_relay_that_does_not_listen_is_nobody_to_wait_for(tmp_path: Path) -> None:
    """It may be gone already."""
    times = iter(range(1000))
    ours, theirs = socket.socketpair()
    with theirs:
        ours.sendall(STORY)
        ours.close()
        worker = DumpWorker(WorkerConfig(log=False))
        try:
            serve(theirs, worker, lambda: float(next(times)))
        except ConnectionResetError:
            pytest.fail("what was sent before is still read")
    assert worker.frames == len(story_frames())
