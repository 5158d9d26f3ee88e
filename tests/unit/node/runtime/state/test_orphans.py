"""Programs that outlived whoever started them."""

import os
import shutil
import signal
from pathlib import Path

import pytest

from interpose.node.runtime.state import orphans

MINE = ("--root", "/run/oci", "c1")


class Machine:
    """Processes in a folder like /proc. Killed ones are gone, unless they are stubborn."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.killed: list[tuple[int, int]] = []
        self.stubborn = False
        (folder / "self").mkdir()
        (folder / "77").mkdir()  # has ended meanwhile: nothing can be read

    def process(self, pid: int, words: list[str], environment: dict[str, str] | None = None) -> None:
        place = self.folder / str(pid)
        place.mkdir()
        (place / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))
        pairs = (environment or {}).items()
        (place / "environ").write_bytes(b"".join(f"{name}={value}".encode() + b"\0" for name, value in pairs))

    def kill(self, pid: int, number: int) -> None:
        self.killed.append((pid, number))
        if not self.stubborn:
            shutil.rmtree(self.folder / str(pid))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """With nobody in it."""
    return Machine(tmp_path)


def test_found_by_words(machine: Machine) -> None:
    """All of them are needed, each as a whole word; we ourselves do not count."""
    machine.process(10, ["runc", "--root", "/run/oci", "run", "c1"])
    machine.process(11, ["runc", "--root", "/run/oci", "run", "c12"])
    machine.process(12, ["runc", "--root", "/run/other", "run", "c1"])
    machine.process(13, [])
    machine.process(os.getpid(), ["runc", "--root", "/run/oci", "run", "c1"])
    assert orphans.with_words(MINE, proc=machine.folder) == [10]


def test_found_by_environment(machine: Machine) -> None:
    """The variable with one of the values."""
    machine.process(10, ["ptp"], {"PATH": "/bin", "CNI_CONTAINERID": "s1"})
    machine.process(11, ["host-local"], {"CNI_CONTAINERID": "s2"})
    machine.process(12, ["ptp"], {"CNI_CONTAINERID": "s3"})
    machine.process(13, ["s1"], {"OTHER": "s1"})
    assert sorted(orphans.with_environment("CNI_CONTAINERID", ["s1", "s2"], proc=machine.folder)) == [10, 11]


def test_all_are_ended_also_those_that_come_meanwhile(machine: Machine) -> None:
    """A program that starts another one before it dies leaves that one, too."""
    machine.process(10, list(MINE))

    def sleep(_seconds: float) -> None:
        if len(machine.killed) == 1:
            machine.process(11, list(MINE))

    ended = orphans.kill_all(lambda: orphans.with_words(MINE, proc=machine.folder), kill=machine.kill, sleep=sleep)
    assert ended == 2
    assert machine.killed == [(10, signal.SIGKILL), (11, signal.SIGKILL)]


def test_one_that_ends_by_itself(machine: Machine) -> None:
    """Between being found and being killed."""
    found = [[10], []]

    def gone(_pid: int, _number: int) -> None:
        raise ProcessLookupError

    assert orphans.kill_all(lambda: found.pop(0), kill=gone, sleep=lambda _seconds: None) == 1


def test_one_that_does_not_end(machine: Machine) -> None:
    """Is told by its number, after so many seconds: to look for it takes its time, too."""
    machine.stubborn = True
    machine.process(10, list(MINE))
    seconds = 0.0

    def find() -> list[int]:
        nonlocal seconds
        seconds += 2.0
        return orphans.with_words(MINE, proc=machine.folder)

    with pytest.raises(OSError, match=r"\[10\] were killed and do not end"):
        orphans.kill_all(find, kill=machine.kill, sleep=lambda _seconds: None, clock=lambda: seconds)
    assert seconds == 6.0
