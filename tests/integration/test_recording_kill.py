"""A recording whose writer is killed, runs out of room, or shares its name with another process."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from interpose.dump.model.call import SESSION
from interpose.dump.model.frame_reader import TRUNCATED
from interpose.dump.model.frames import End
from interpose.dump.recording.file_reader import EMPTY
from interpose.dump.recording.reader import open_recording, rotated_set

# Writes calls for ever and says on its output up to which number they were flushed.
WRITER = """
import os, sys
from interpose.dump.model.frames import Begin, End, Message, MessageSide
from interpose.dump.recording.writer import RecordingWriter
path, session, max_bytes, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
writer = RecordingWriter(path, header_facts={"session": session}, max_bytes=max_bytes, files=100_000)
number = 0
while number < count:
    for _ in range(20):
        number += 1
        body = os.urandom(300)
        writer.write(Begin(number=number, time=number, path="/runtime.v1.RuntimeService/Version"))
        writer.write(Message(number=number, at=1, side=MessageSide.REPLY, size=len(body), body=body))
        writer.write(End(number=number, elapsed=1, code=0))
    writer.flush()
    print(number, writer.lost, flush=True)
writer.close()
print("closed", writer.lost, writer.error, flush=True)
"""


class Start(Protocol):
    """Starts a process that writes; no file of it may be longer than `limit`, if there is one."""

    def __call__(
        self, path: Path, session: str, *, max_bytes: int = 0, count: int = 1 << 40, limit: int = 0
    ) -> subprocess.Popen[str]: ...


@pytest.fixture
def start() -> Iterator[Start]:
    """Processes that are gone in the end, whatever happens."""
    with ExitStack() as stack:

        def started(
            path: Path, session: str, *, max_bytes: int = 0, count: int = 1 << 40, limit: int = 0
        ) -> subprocess.Popen[str]:
            command = [sys.executable, "-c", WRITER, str(path), session, str(max_bytes), str(count)]
            prefix = ["prlimit", f"--fsize={limit}"] if limit else []
            process = stack.enter_context(subprocess.Popen([*prefix, *command], stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            return process

        yield started


def flushed(process: subprocess.Popen[str]) -> int:
    """Up to which call everything is written."""
    assert process.stdout is not None
    return int(process.stdout.readline().split()[0])


def kill(process: subprocess.Popen[str]) -> int:
    """Kill it; the last call that it said was written."""
    process.kill()
    output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL
    return max((int(line.split()[0]) for line in output.splitlines(keepends=True) if line.endswith("\n")), default=0)


def test_a_killed_writer_loses_what_was_not_flushed(tmp_path: Path, start: Start) -> None:
    """Whatever it was doing, rotating included; the one who comes next touches nothing of it."""
    path = tmp_path / "calls.crirec"
    for attempt in range(4):
        process = start(path, f"s{attempt}", max_bytes=30_000)
        last = 0
        for _ in range(1 + 3 * attempt):
            last = flushed(process)
        last = max(last, kill(process))
        recording = open_recording([path])
        ended = {flow.number for flow in recording.flows() if flow.end and flow.flags == 0}
        mine = [one for one in recording.entries() if one.session == f"s{attempt}"]
        numbers = {one.number for one in mine if one.code == 0}
        assert numbers >= set(range(1, last + 1))
        assert ended >= numbers
        # Each kill leaves one unfinished frame at most, at the end of the file that was written then, or an empty one.
        assert len(recording.damage) <= attempt + 1
        assert {one.why for one in recording.damage} <= {TRUNCATED, EMPTY}
        recording.close()


def test_two_processes_share_a_name(tmp_path: Path, start: Start) -> None:
    """The first ends in its own files, and no frame of the second is lost."""
    path = tmp_path / "calls.crirec"
    old = start(path, "old", max_bytes=20_000)
    flushed(old)
    new = start(path, "new", max_bytes=20_000, count=400)
    output, _ = new.communicate()
    assert output.splitlines()[-1] == "closed 0 None"
    while old.stdout is not None and old.stdout.readline().split()[1] == "0":
        pass  # until it has lost its last file
    kill(old)
    recording = open_recording([path])
    sessions = [one.session for one in recording.files]
    assert sessions == sorted(sessions, reverse=True)  # those of old, then those of new
    numbers = [one.number for one in recording.entries() if one.session == "new" and one.code == 0]
    assert numbers == list(range(1, 401))


def test_a_disk_without_room_costs_frames_only(tmp_path: Path, start: Start) -> None:
    """What was written is whole, and how much is missing is known."""
    path = tmp_path / "calls.crirec"
    process = start(path, "s", count=200, limit=20_000)
    output, _ = process.communicate()
    assert process.returncode == 0
    closed = output.splitlines()[-1].split()
    assert closed[0] == "closed"
    assert int(closed[1]) > 0
    recording = open_recording([path])
    frames = list(recording.frames())
    assert recording.damage == []
    assert all(one.stat().st_size <= 20_000 for one in rotated_set(path))
    assert sum(isinstance(one, End) for one in frames) > 20
    assert recording.header.facts[SESSION] == "s"
    assert path.stat().st_mode & 0o777 == 0o600
