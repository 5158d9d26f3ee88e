"""The last words of containers."""

import os
from pathlib import Path

import pytest

from interpose.cri.messages import cri
from interpose.node.pods.spec import TerminationMessagePolicy
from interpose.node.pods.status.annotations import ContainerAnnotations
from interpose.node.pods.status.termination_message import read_tail, read_termination_message

NOTES = ContainerAnnotations(termination_message_path="/dev/termination-log")
LOGS = ContainerAnnotations(
    termination_message_path="/dev/termination-log",
    termination_message_policy=TerminationMessagePolicy.FALLBACK_TO_LOGS,
)


def ended(folder: Path, code: int = 1, reason: str = "Error") -> cri.ContainerStatus:
    return cri.ContainerStatus(
        exit_code=code,
        reason=reason,
        mounts=[cri.Mount(container_path="/dev/termination-log", host_path=str(folder / "message"))],
        log_path=str(folder / "0.log"),
    )


def test_the_message_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    """The end of it counts."""
    (tmp_path / "message").write_text("x" * 4096 + "end")
    words = read_termination_message(ended(tmp_path), NOTES)
    assert len(words) == 4096
    assert words.endswith("end")


def test_without_the_mount_there_is_no_message(tmp_path: Path) -> None:
    """Another path, or none."""
    (tmp_path / "message").write_text("hello")
    assert read_termination_message(ended(tmp_path), ContainerAnnotations(termination_message_path="/other")) == ""
    assert read_termination_message(ended(tmp_path), ContainerAnnotations()) == ""


@pytest.mark.parametrize(
    ("notes", "code", "reason", "message", "words"),
    [
        (LOGS, 1, "Error", "", "failed\n"),
        (LOGS, 1, "Error", "told", "told"),
        (LOGS, 0, "Completed", "", ""),
        (LOGS, 1, "ContainerCannotRun", "", ""),
        (NOTES, 1, "Error", "", ""),
    ],
)
def test_the_log_speaks_for_a_container_that_failed_without_a_word(
    tmp_path: Path, notes: ContainerAnnotations, code: int, reason: str, message: str, words: str
) -> None:
    """If the manifest says so."""
    (tmp_path / "message").write_text(message)
    (tmp_path / "0.log").write_text("2026-01-02T03:04:05.000000006Z stderr F failed\n")
    assert read_termination_message(ended(tmp_path, code, reason), notes) == words


def test_only_plain_files_are_read(tmp_path: Path) -> None:
    """Nobody waits for a pipe, follows a link or reads a folder."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "file").write_text("secret")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    found = [read_tail(str(tmp_path / name) if name else "", 9) for name in ("pipe", "link", ".", "missing", "")]
    assert found == [b""] * 5
    assert read_tail(str(tmp_path / "file"), 3) == b"ret"


def test_a_file_that_cannot_be_read_is_empty() -> None:
    """Some files of the kernel fail only when they are read."""
    assert read_tail("/proc/self/mem", 10) == b""
