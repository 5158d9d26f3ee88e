"""One relay at a time has what a policy remembers."""

import logging
import os
from pathlib import Path
from typing import Any

import pytest

from interpose.cli.relay.state_lock import StateLock
from interpose.config.relay.settings import PolicySettings


def lock_of(folder: Path, **said: Any) -> StateLock:
    """The lock of a relay with this state directory; with a policy unless said otherwise."""
    return StateLock(PolicySettings(state_dir=str(folder), **{"name": "static", **said}))


def test_the_second_relay_with_a_policy_is_told_who_has_it(tmp_path: Path) -> None:
    """By setting and process; when the first is gone it can have it."""
    first, second = lock_of(tmp_path / "state"), lock_of(tmp_path / "state")
    assert first.held is None
    assert first.claim()
    with pytest.raises(BlockingIOError) as raised:
        second.claim(patience=0)
    assert raised.value.strerror == (
        f"policy.state_dir (--state-dir) '{tmp_path}/state': in use by another relay (process {os.getpid()})"
    )
    first.release()
    first.release()
    assert second.claim(patience=0)
    second.release()


def test_a_relay_without_a_policy_leaves_the_state_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is wrong with it."""
    first, second = lock_of(tmp_path), lock_of(tmp_path, name="none")
    assert first.claim()
    with caplog.at_level(logging.INFO, "interpose"):
        assert not second.claim(patience=0)
    assert "State of a policy is left alone" in caplog.text
    first.release()


def test_a_directory_that_cannot_be_locked_does_not_stop_a_relay(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is written without the lock, and it is tried again with each write."""
    (tmp_path / "state").write_text("")
    lock = lock_of(tmp_path / "state")
    assert lock.claim()
    assert "State directory cannot be locked" in caplog.text
    with pytest.raises(OSError, match="File exists"):
        lock.write(str(tmp_path / "state/policy-state.json"), b"x")
    (tmp_path / "state").unlink()
    lock.write(str(tmp_path / "state/policy-state.json"), b"x")
    assert (tmp_path / "state/policy-state.json").read_bytes() == b"x"
    other = lock_of(tmp_path / "state")
    with pytest.raises(BlockingIOError, match=f"process {os.getpid()}"):
        other.write(str(tmp_path / "state/policy-state.json"), b"y")
    lock.release()


def test_who_let_go_writes_nothing_any_more(tmp_path: Path) -> None:
    """A write that comes late would undo what the next one has written."""
    lock = lock_of(tmp_path)
    assert lock.claim()
    lock.release()
    with pytest.raises(BlockingIOError, match="another relay's now"):
        lock.write(str(tmp_path / "policy-state.json"), b"x")
    assert not (tmp_path / "policy-state.json").exists()


def test_a_successor_has_the_lock_before_its_predecessor_lets_go(tmp_path: Path) -> None:
    """There is no moment in which a third one could take it; afterwards the successor's number is in it."""
    first, second, third = (lock_of(tmp_path) for _ in range(3))
    assert first.claim()
    held = first.held
    assert held is not None
    assert second.inherit(held._replace(descriptor=os.dup(held.descriptor)))
    Path(held.path).write_text("1\n")
    first.release()
    with pytest.raises(BlockingIOError, match="process 1"):
        third.claim(patience=0)
    second.sign()
    assert Path(held.path).read_text() == f"{os.getpid()}\n"
    second.release()
    assert third.inherit(None)
    third.release()
    third.sign()


def test_a_lock_on_another_directory_is_not_kept(tmp_path: Path) -> None:
    """A successor that was told another state directory locks that one."""
    first, second, third = lock_of(tmp_path / "a"), lock_of(tmp_path / "b"), lock_of(tmp_path / "a")
    assert first.claim()
    held = first.held
    assert held is not None
    assert second.inherit(held._replace(descriptor=os.dup(held.descriptor)))
    first.release()
    assert third.claim(patience=0)
    assert second.held is not None
    second.release()
    third.release()
