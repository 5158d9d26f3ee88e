"""Commands beside busy processes."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.lab.processes import Child, children, cpu_seconds, wait_for

BUSY = Path(__file__).parents[3] / "tools" / "busy.py"
Tool = Callable[[str], Any]


def _gone(pid: int) -> bool:
    """Ended, whether or not somebody has looked."""
    try:
        return "State:\tZ" in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return True


def _command(run: Child) -> int:
    """The `sleep` that it runs; 0 before there is one."""
    for pid in children(run.pid):
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sleep\0"):
            return pid
    return 0


def test_processes_compute_inside_of_the_block(tool: Tool) -> None:
    """And have ended after it."""
    with tool("busy").busy(2) as pids:
        assert len(pids) == 2
        first = {pid: cpu_seconds(pid) for pid in pids}
        wait_for(lambda: all(cpu_seconds(pid) > spent for pid, spent in first.items()), what="both to compute")
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.parametrize(("script", "rounds", "code"), [("exit 0", 2, 0), ("exit 3", 1, 3)])
def test_rounds_end_with_the_first_that_fails(
    tool: Tool, tmp_path: Path, capfd: pytest.CaptureFixture[str], script: str, rounds: int, code: int
) -> None:
    """Whose exit code it is."""
    marks = tmp_path / "marks"
    command = ["sh", "-c", f"echo x >>{marks}; {script}"]
    assert tool("busy").main(["--processes", "1", "--rounds", "2", "--", *command]) == code
    assert marks.read_text() == "x\n" * rounds
    assert f"round {rounds} of 2 beside 1 busy processes" in capfd.readouterr().out


def test_a_command_without_end_is_interrupted(tool: Tool, tmp_path: Path) -> None:
    """As by Ctrl-C, so that it can stop what it started."""
    mark = tmp_path / "mark"
    code = f"import pathlib, signal\ntry: signal.pause()\nexcept KeyboardInterrupt: pathlib.Path({str(mark)!r}).touch()"
    assert tool("busy").run([sys.executable, "-c", code], 2.0) == 1
    assert mark.exists()


def test_a_killed_run_leaves_nobody_busy(tmp_path: Path) -> None:
    """The processes notice by themselves."""
    argv = [sys.executable, str(BUSY), "--processes", "2", "--", "sleep", "1000"]
    with Child(argv, log=tmp_path / "log") as run:
        command = run.wait_until(lambda: _command(run), what="the command")
        busy = [pid for pid in children(run.pid) if pid != command]
        assert len(busy) == 2
        run.signal(signal.SIGKILL)
        for pid in busy:
            wait_for(lambda pid=pid: _gone(pid), what="a busy process to end")  # type: ignore[misc]
        os.kill(command, signal.SIGKILL)


def test_the_command_is_not_left_alone(tmp_path: Path) -> None:
    """Who ends the run ends the command."""
    argv = [sys.executable, str(BUSY), "--processes", "1", "--", "sleep", "1000"]
    with Child(argv, log=tmp_path / "log") as run:
        command = run.wait_until(lambda: _command(run), what="the command")
        found = children(run.pid)
        run.stop()
        assert command in found
        for pid in found:
            wait_for(lambda pid=pid: _gone(pid), what="everything to end")  # type: ignore[misc]


def test_it_says_how_it_is_called() -> None:
    """Without a command there is nothing to run."""
    done = subprocess.run([sys.executable, str(BUSY)], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "command" in done.stderr
