"""Child processes: their life by pid, waiting with a deadline, and what /proc says of them."""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

import pytest

from tests.support.lab import processes
from tests.support.lab.processes import (
    Child,
    LabError,
    accepts,
    children,
    closed_to,
    cpu_seconds,
    missing_programs,
    rss_bytes,
    wait_for,
)

if TYPE_CHECKING:
    from pathlib import Path

SLEEP = ["sleep", "1000"]


def test_a_child_ends_with_its_block(tmp_path: Path) -> None:
    """Leaving the block stops the process."""
    with Child(SLEEP, log=tmp_path / "log") as child:
        assert child.running
    assert child.exit_code == -signal.SIGTERM


def test_a_paused_child_can_be_stopped(tmp_path: Path) -> None:
    """A stopped process is woken for its SIGTERM instead of being waited for in vain."""
    child = Child(SLEEP, log=tmp_path / "log")
    child.pause()
    assert child.stop() == -signal.SIGTERM


def test_a_child_deaf_to_sigterm_is_killed(tmp_path: Path) -> None:
    """SIGKILL follows when SIGTERM is ignored."""
    log = tmp_path / "log"
    child = Child(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.05; done"], log=log)
    child.wait_until(lambda: "deaf" in child.log_tail(), what="the trap")
    assert child.stop(patience=0.05) == -signal.SIGKILL


def test_an_early_end_shows_the_log(tmp_path: Path) -> None:
    """Waiting for a process that ends gives up at once, with its exit code and its last words."""
    with (
        Child(["sh", "-c", "echo sorry; exit 3"], log=tmp_path / "log") as child,
        pytest.raises(LabError, match=r"(?s)ended with 3 before the socket.*sorry"),
    ):
        child.wait_until(lambda: False, what="the socket")


def test_waiting_names_what_was_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A deadline that passes says which condition never held."""
    monkeypatch.setattr(processes, "WAIT_LIMIT", 0.01)
    with pytest.raises(LabError, match="a wonder"):
        wait_for(lambda: False, what="a wonder")


def test_waiting_returns_the_value() -> None:
    """The first true value comes back."""
    values = iter([0, 0, 7])
    assert wait_for(lambda: next(values), what="seven") == 7


def test_a_socket_file_alone_does_not_accept(tmp_path: Path) -> None:
    """Only a listener counts: not a missing file, not the file a dead process left."""
    path = tmp_path / "s"
    assert not accepts(path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        assert not accepts(path)
        server.listen()
        assert accepts(path)
    assert path.exists()
    assert not accepts(path)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_code_in_a_closed_home_is_closed_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same interpreter, where only root may look."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    (home / "python").symlink_to(sys.executable)
    assert closed_to(0) is None
    monkeypatch.setattr(sys, "executable", str(home / "python"))
    assert closed_to(65534) == "interpreter or sources cannot be read by user 65534"


def test_missing_programs_are_named() -> None:
    """The reason lists what is absent and nothing else."""
    assert missing_programs("sh") is None
    assert missing_programs("sh", "no-such-program") == "not installed: no-such-program"


def test_cpu_time_of_a_busy_child_grows(tmp_path: Path) -> None:
    """A process that computes is seen to use CPU; its memory is seen too."""
    with Child([sys.executable, "-c", "while True: pass"], log=tmp_path / "log") as child:
        first = child.cpu_seconds()
        wait_for(lambda: child.cpu_seconds() > first + 0.05, what="50 ms of CPU time")
        assert child.rss_bytes() > 1_000_000


def test_cpu_time_counts_threads_and_reaped_children(tmp_path: Path) -> None:
    """Nanoseconds of all threads plus ticks of reaped children, whatever the command is called."""
    base = tmp_path / "7"
    for task, nanoseconds in ((7, 1_000_000_000), (8, 500_000_000)):
        (base / "task" / str(task)).mkdir(parents=True)
        (base / "task" / str(task) / "schedstat").write_text(f"{nanoseconds} 5 1\n")
    fields = ["S", "1", *["0"] * 9, "11", "22", "100", "25", *["0"] * 10]
    (base / "stat").write_text(f"7 (odd) name) {' '.join(fields)}\n")
    assert cpu_seconds(7, tmp_path) == pytest.approx(1.5 + 1.25)


def test_memory_is_read_in_bytes(tmp_path: Path) -> None:
    """Kilobytes of smaps_rollup are turned into bytes."""
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "smaps_rollup").write_text("head\nRss:                 123 kB\nPss: 1 kB\n")
    assert rss_bytes(7, tmp_path) == 123 * 1024


def test_children_are_listed(tmp_path: Path) -> None:
    """The pids of direct children are found."""
    with Child(["sh", "-c", "sleep 1000 & wait"], log=tmp_path / "log") as child:
        (found,) = wait_for(lambda: children(child.pid), what="the child of the shell")
        assert found != child.pid
        # Else it would outlive the shell.
        os.kill(found, signal.SIGKILL)
