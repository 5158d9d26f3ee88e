"""Log files that can be moved away, and that cannot be written."""

import os
from pathlib import Path

import pytest

from interpose.node.runtime.shim.log import LogFile


def test_lines_are_there_at_once(tmp_path: Path) -> None:
    """Nothing is held back; folders are made; others may read with the group's rights alone."""
    path = tmp_path / "pod" / "0.log"
    log = LogFile(str(path))

    log.write(b"line\n")

    assert path.read_bytes() == b"line\n"
    assert path.stat().st_mode & 0o777 == 0o640
    log.close()


def test_after_reopen_lines_go_to_a_new_file(tmp_path: Path) -> None:
    """The old one was moved away and keeps what it has."""
    path = tmp_path / "0.log"
    log = LogFile(str(path))
    log.write(b"old\n")
    path.rename(tmp_path / "moved")
    log.write(b"still old\n")

    log.reopen()
    log.write(b"new\n")

    assert (tmp_path / "moved").read_bytes() == b"old\nstill old\n"
    assert path.read_bytes() == b"new\n"
    log.close()


def test_a_reopen_that_fails_keeps_the_old_file(tmp_path: Path) -> None:
    """And says so."""
    folder = tmp_path / "logs"
    log = LogFile(str(folder / "0.log"))
    folder.rename(tmp_path / "moved")

    with pytest.raises(FileNotFoundError):
        log.reopen()
    log.write(b"line\n")

    assert (tmp_path / "moved" / "0.log").read_bytes() == b"line\n"
    log.close()


def test_a_file_that_cannot_be_opened_costs_lines_only(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """It is said once; when it can be opened again lines are written again."""
    path = tmp_path / "0.log"
    path.mkdir()
    log = LogFile(str(path))

    log.write(b"lost\n")
    log.write(b"lost too\n")
    path.rmdir()
    log.write(b"kept\n")

    assert path.read_bytes() == b"kept\n"
    assert capfd.readouterr().err.count("lines are lost") == 1
    log.close()


def test_a_full_disk_costs_lines_only(capfd: pytest.CaptureFixture[str]) -> None:
    """Every write fails; nobody is hurt."""
    log = LogFile("/dev/full")

    log.write(b"one\n")
    log.write(b"two\n")

    assert capfd.readouterr().err.count("No space left") == 1
    log.close()


def test_without_a_path_there_is_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Output is thrown away, no file is made, and nobody is told that one cannot be written."""
    monkeypatch.chdir(tmp_path)
    log = LogFile("")

    log.write(b"line\n")
    log.reopen()
    log.close()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_fifo_in_the_place_of_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Nobody reads, or not fast enough: lines are lost, and nobody waits."""
    path = tmp_path / "0.log"
    os.mkfifo(path)
    log = LogFile(str(path))
    log.write(b"lost\n")
    assert "lines are lost" in capfd.readouterr().err

    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    for _ in range(40):
        log.write(b"x" * 4095 + b"\n")
    assert os.read(reader, 2) == b"xx"
    os.close(reader)
    log.close()
