"""What is remembered of plain containers."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from interpose.node.runtime.plain.state import MARK, PlainState, StateError, start_time
from interpose.testing.eventually import WAIT_LIMIT

# Processes are looked for on the whole machine, where other tests have containers too.
CONTAINER = uuid4().hex
SLEEP = [sys.executable, "-c", "import time; print('up', flush=True); time.sleep(1000)"]


@pytest.fixture
def marked() -> Iterator["subprocess.Popen[str]"]:
    """A process of the container."""
    child = subprocess.Popen(SLEEP, env={**os.environ, MARK: CONTAINER}, stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    child.stdout.readline()
    yield child
    child.kill()
    child.communicate()


def test_an_id_is_given_once(tmp_path: Path) -> None:
    """Until it is removed."""
    state = PlainState(str(tmp_path), CONTAINER)
    state.create()

    with pytest.raises(StateError, match=f"{CONTAINER} exists"):
        state.create()
    state.remove()
    state.create()


def test_an_unknown_container_does_not_exist(tmp_path: Path) -> None:
    """In runc's words."""
    with pytest.raises(StateError, match="does not exist"):
        PlainState(str(tmp_path), CONTAINER).read()


def test_a_start_that_was_cut_off_is_known_without_a_process(tmp_path: Path) -> None:
    """Its folder is there, its document is not, or is broken."""
    state = PlainState(str(tmp_path), CONTAINER)
    state.create()

    assert (state.read(), state.pid()) == ({}, 0)
    (tmp_path / CONTAINER / "state.json").write_text("[]")
    assert state.read() == {}


def test_a_process_that_ended_at_once_does_not_run(tmp_path: Path) -> None:
    """It was over before its start could be looked up: nothing is known of it, which is no match."""
    child = subprocess.Popen(["true"])
    child.wait()
    state = PlainState(str(tmp_path), CONTAINER)
    state.create()

    state.write({"pid": child.pid, "started": start_time(child.pid)})
    assert state.pid() == 0


def test_a_pid_that_was_given_to_another_is_not_it(tmp_path: Path) -> None:
    """Only with the same time of start."""
    state = PlainState(str(tmp_path), CONTAINER)
    state.create()

    state.write({"pid": os.getpid(), "started": start_time(os.getpid())})
    assert state.pid() == os.getpid()
    state.write({"pid": os.getpid(), "started": "1"})
    assert state.pid() == 0


def test_processes_are_found_by_their_mark(tmp_path: Path, marked: "subprocess.Popen[str]") -> None:
    """Those of others are not."""
    assert PlainState(str(tmp_path), CONTAINER).processes() == [marked.pid]
    assert PlainState(str(tmp_path), uuid4().hex).processes() == []


def test_the_end_is_the_end_of_all(tmp_path: Path, marked: "subprocess.Popen[str]") -> None:
    """Zombies do not count: reaping them is for others."""
    PlainState(str(tmp_path), CONTAINER).kill_and_wait()

    assert marked.wait(WAIT_LIMIT) == -signal.SIGKILL
