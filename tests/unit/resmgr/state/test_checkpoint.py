"""The state on disk: read at start, written off the path of calls."""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from interpose.host.atomic_file import replace_file
from interpose.resmgr.state.checkpoint import FILE, Checkpoint, LoadedState, load, reset_config, reset_policy
from interpose.resmgr.state.state import State, decode, encode
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.clock import ManualClock

STATE = State(policy="static", fingerprint="abc", config={"a": "b"}, config_node="n")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file goes."""
    return tmp_path / "state" / FILE


class Disk:
    """A disk that can be held up and can fail."""

    def __init__(self) -> None:
        self.free = threading.Event()
        self.free.set()
        self.full = False
        self.started = 0
        self.written: list[State] = []
        self.at_once = 0
        self.most_at_once = 0

    def __call__(self, path: str, data: bytes) -> None:
        self.started += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            assert self.free.wait(WAIT_LIMIT)
            if self.full:
                raise OSError(28, "No space left on device")
            self.written.append(decode(data))
        finally:
            self.at_once -= 1


def checkpoint(disk: Disk, clock: Callable[[], float] = lambda: 7.0) -> Checkpoint:
    """One that writes to such a disk."""
    return Checkpoint("/state", now=clock, write=disk)


def state(number: int) -> State:
    """One that can be told from others."""
    return State(policy=str(number))


# -- reading


def test_no_file_is_no_trouble(path: Path) -> None:
    """It is the first start."""
    assert load(str(path)) == LoadedState(None, "")


def test_a_state_is_read_back(path: Path) -> None:
    """As it was written; what a killed process left behind goes."""
    replace_file(str(path), encode(STATE))
    leftover = path.with_name(f"{FILE}.999999998.tmp")
    leftover.touch()
    assert load(str(path)) == LoadedState(STATE, "")
    assert not leftover.exists()


@pytest.mark.parametrize(
    ("data", "mode", "trouble"),
    [
        (b"{", 0o600, "is not valid JSON: "),
        (encode(STATE).replace(b"static", b"statik"), 0o600, "is damaged: its checksum is that of something else; "),
        (encode(STATE).replace(b'"version":1', b'"version":9'), 0o600, "has version 9, this program reads version 1; "),
        (encode(STATE), 0o622, "has mode 0622, everybody may write to it (chmod o-w); "),
    ],
)
def test_a_file_that_cannot_be_used_is_set_aside(path: Path, data: bytes, mode: int, trouble: str) -> None:
    """The message names it, says why, and where it is now."""
    path.parent.mkdir()
    path.write_bytes(data)
    path.chmod(mode)
    loaded = load(str(path))
    assert loaded.state is None
    assert loaded.message.startswith(f"file {path}: {trouble}")
    assert loaded.message.endswith(f"; kept as {path}.damaged-1")
    assert Path(f"{path}.damaged-1").read_bytes() == data
    assert load(str(path)) == LoadedState(None, "")


def test_a_file_that_cannot_be_moved_is_told_too(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the state never fails, the message says why."""

    def refuse(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    path.mkdir(parents=True)
    with monkeypatch.context() as patch:
        patch.setattr(os, "rename", refuse)
        loaded = load(str(path))
    said = "is not a regular file; it cannot be set aside: Read-only file system"
    assert loaded == LoadedState(None, f"file {path}: {said}")


def test_a_file_that_cannot_be_read_is_told_too(path: Path) -> None:
    """In the kernel's words."""
    loaded = load(f"{path.parent.parent}/{'x' * 300}")
    assert loaded.message.endswith(": cannot be read: File name too long; it cannot be set aside: File name too long")


# -- resetting


def test_grants_are_to_be_forgotten_and_the_rest_is_kept(path: Path) -> None:
    """By a mark, as containers carry notes; which policy they are under is still known. Twice is as good as once."""
    replace_file(str(path), encode(STATE))
    for _ in range(2):
        said = reset_policy(str(path))
        assert said == f"the next start decides about all containers anew, by a mark in {path}"
        assert load(str(path)).state == replace(STATE, reset=True)


def test_the_configuration_is_forgotten_and_grants_are_kept(path: Path) -> None:
    """Once; the second time there is nothing to do."""
    replace_file(str(path), encode(STATE))
    assert reset_config(str(path)) == f"the configuration that the agent of node n sent is no longer in {path}"
    assert load(str(path)).state == replace(STATE, config={}, config_node="")
    assert reset_config(str(path)) == f"nothing to do, no configuration of an agent is in {path}"


def test_nothing_is_made_of_nothing(path: Path) -> None:
    """A reset without a file leaves none, and says so."""
    assert reset_policy(str(path)) == f"nothing to do, there is no {path}"
    assert reset_config(str(path)).startswith("nothing to do")
    assert not path.parent.exists()


def test_a_damaged_file_is_set_aside_by_a_reset(path: Path) -> None:
    """Which is told; that grants are to be forgotten is clear all the same."""
    path.parent.mkdir()
    for number, reset, left in ((1, reset_config, None), (2, reset_policy, State(reset=True))):
        path.write_text("{")
        path.chmod(0o600)
        assert f"; kept as {path}.damaged-{number}" in reset(str(path))
        assert load(str(path)).state == left


# -- writing


async def test_a_change_reaches_the_disk(path: Path) -> None:
    """In a directory that was not there; the time of it is known."""
    clock = ManualClock()
    updater = Checkpoint(str(path), now=clock)
    updater.save_soon(lambda: STATE)
    assert updater.dirty
    assert await updater.flush()
    assert load(str(path)) == LoadedState(STATE, "")
    assert (updater.saved, updater.failed, updater.saved_at, updater.dirty) == (1, 0, clock(), False)


async def test_one_write_at_a_time_and_the_newest_wins() -> None:
    """A slow disk is not asked for what is old already, and the loop goes on."""
    disk = Disk()
    disk.free.clear()
    updater = checkpoint(disk)
    made = []
    for number in range(100):

        def make(number: int = number) -> State:
            made.append(number)
            return state(number)

        updater.save_soon(make)
        if number == 0:
            await eventually(lambda: disk.started, "the first write")
    disk.free.set()
    assert await updater.flush()
    assert [state.policy for state in disk.written] == ["0", "99"]
    assert (made, disk.most_at_once) == ([0, 99], 1)


async def test_the_state_is_made_when_it_is_written() -> None:
    """So a change that came after the call is in it."""
    disk, now = Disk(), [1]
    updater = checkpoint(disk)
    updater.save_soon(lambda: state(now[0]))
    now[0] = 2
    await updater.flush()
    assert disk.written == [state(2)]


async def test_a_failure_is_counted_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """Until it works again, which is told too."""
    caplog.set_level(logging.INFO, "interpose.resmgr.state.checkpoint")
    disk = Disk()
    disk.full = True
    updater = checkpoint(disk)
    for _ in range(3):
        updater.save_soon(lambda: state(1))
        assert not await updater.flush()
    assert updater.failed == disk.started >= 3
    assert (updater.saved, updater.saved_at, updater.dirty) == (0, None, True)
    assert "No space left" in updater.error
    disk.full = False
    updater.save_soon(lambda: state(9))
    assert await updater.flush()
    assert (disk.written, updater.error) == ([state(9)], "")
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


async def test_what_failed_is_tried_again_by_the_clock() -> None:
    """With the newest there is; and nothing is tried without need."""
    disk = Disk()
    disk.full = True
    updater = checkpoint(disk)
    updater.save_soon(lambda: state(1))
    await eventually(lambda: updater.failed, "the failure")
    disk.full = False
    updater.tick()
    await eventually(lambda: not updater.dirty, "the write")
    updater.tick()
    assert not updater.dirty
    assert disk.written == [state(1)]


async def test_what_came_while_a_write_failed_is_what_is_tried_again() -> None:
    """The older one is history."""
    disk = Disk()
    disk.full = True
    disk.free.clear()
    updater = checkpoint(disk)
    updater.save_soon(lambda: state(1))
    await eventually(lambda: disk.started, "the first write")
    updater.save_soon(lambda: state(2))
    disk.free.set()
    await eventually(lambda: updater.failed, "the failure")
    disk.full = False
    assert await updater.flush()
    assert disk.written == [state(2)]


async def test_flush_without_anything_to_do_is_done() -> None:
    """It returns at once if nothing is dirty."""
    async with asyncio.timeout(WAIT_LIMIT):
        assert await checkpoint(Disk()).flush()


async def test_a_mistake_while_making_the_state_does_not_end_saving(caplog: pytest.LogCaptureFixture) -> None:
    """It is logged, and the next change is written."""
    disk = Disk()
    updater = checkpoint(disk)

    def broken() -> State:
        raise KeyError("mistake")

    updater.save_soon(broken)
    await eventually(lambda: not updater.dirty, "the end of the task")
    updater.save_soon(lambda: state(1))
    assert await updater.flush()
    assert disk.written == [state(1)]
    assert "Task failed" in caplog.text
