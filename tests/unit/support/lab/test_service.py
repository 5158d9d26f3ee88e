"""What programs share that run as processes of tests."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from tests.support.lab.processes import Child, LabError
from tests.support.lab.service import Service

if TYPE_CHECKING:
    from pathlib import Path


class Shell(Service):
    """A shell that says something and then waits, or fails to come up."""

    name = "shell"

    def __init__(self, log: Path, script: str = "echo hello; exec sleep 1000") -> None:
        super().__init__(log)
        self._script = script

    def start(self) -> None:
        self._child = Child(["sh", "-c", self._script], log=self.log)
        self._child.wait_until(lambda: "hello" in self.child.log_tail(), what="a word")


def test_it_ends_with_its_block(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And says nothing if all went well."""
    with Shell(tmp_path / "log") as shell:
        assert shell.child.running
    assert shell.child.exit_code == -signal.SIGTERM
    assert capsys.readouterr().out == ""


def test_a_failure_shows_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The folder goes with the test; one file that is missing does not hide the others."""

    class Other(Shell):
        def shown(self) -> tuple[Path, ...]:
            return (tmp_path / "missing", *super().shown())

    with pytest.raises(ValueError, match="mine"), Other(tmp_path / "log"):
        raise ValueError("mine")
    assert capsys.readouterr().out == f"--- {tmp_path}/missing ---\nmissing\n--- {tmp_path}/log ---\nhello\n\n"


def test_one_that_does_not_come_up_is_ended(tmp_path: Path) -> None:
    """There is no block then that could end it."""

    class Mute(Shell):
        def start(self) -> None:
            super().start()
            raise LabError("does not answer")

    shell = Mute(tmp_path / "log")
    with pytest.raises(LabError, match="does not answer"):
        shell.__enter__()
    assert not shell.child.running


def test_one_that_was_not_started_has_no_process(tmp_path: Path) -> None:
    """That is said, by name."""
    with pytest.raises(LabError, match="shell was not started"):
        Shell(tmp_path / "log").kill()


def test_told_to_stop_it_must_end_well(tmp_path: Path) -> None:
    """Another code is an error with its last words."""
    with Shell(tmp_path / "log") as shell, pytest.raises(LabError, match=r"(?s)ended with -15 when it was told.*hello"):
        shell.stop()
    polite = Shell(tmp_path / "polite", "trap 'exit 0' TERM; echo hello; while :; do sleep 0.05; done")
    with polite:
        polite.stop()
    assert polite.child.exit_code == 0


def test_killed_it_is_gone(tmp_path: Path) -> None:
    """At once."""
    with Shell(tmp_path / "log") as shell:
        shell.kill()
        assert shell.child.exit_code == -signal.SIGKILL
