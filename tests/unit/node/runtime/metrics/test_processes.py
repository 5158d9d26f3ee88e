"""What runs in containers."""

import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.node.runtime.metrics import processes
from interpose.node.runtime.metrics.processes import ContainerProcesses, count_processes, process_sampler
from interpose.node.runtime.metrics.sampler import SampledValue
from interpose.node.runtime.metrics.values import ProcessCounts
from interpose.testing.eventually import eventually

LIMITS = "Limit  Soft Limit  Hard Limit  Units\nMax cpu time  unlimited  unlimited  seconds\n"


def process(proc: Path, pid: int, states: str, targets: tuple[str, ...] = ()) -> Path:
    """A process with threads in these states and descriptors of these things."""
    folder = proc / str(pid)
    (folder / "fd").mkdir(parents=True)
    for number, state in enumerate(states):
        (folder / f"task/{pid + number}").mkdir(parents=True)
        (folder / f"task/{pid + number}/stat").write_text(f"{pid + number} (an ) odd name) {state} 1 1\n")
    for number, target in enumerate(targets):
        (folder / "fd" / str(number)).symlink_to(target)
    return folder


@pytest.fixture
def stop() -> threading.Event:
    """Nobody says so."""
    return threading.Event()


def test_threads_descriptors_and_sockets(tmp_path: Path, stop: threading.Event) -> None:
    """A process that is gone counts for nothing; a state without a word is in no state's number."""
    first = process(tmp_path, 10, "SRX", ("/dev/null", "socket:[1]", "socket:[2]"))
    (first / "limits").write_text(
        f"{LIMITS}Max open files            1024                 4096                 files\n"
    )
    process(tmp_path, 20, "DTtI")
    assert count_processes([10, 20, 30], 10, stop, proc=tmp_path) == ProcessCounts(
        processes=2,
        threads=7,
        descriptors=3,
        sockets=2,
        states={"running": 1, "sleeping": 2, "uninterruptible": 1, "stopped": 2},
        open_files_limit=1024,
    )


@pytest.mark.parametrize("text", [LIMITS, f"{LIMITS}Max open files  unlimited  unlimited  files\n", "Max open files"])
def test_no_limit_of_open_files(tmp_path: Path, stop: threading.Event, text: str) -> None:
    """What is not a number is not known."""
    (process(tmp_path, 10, "S") / "limits").write_text(text)
    assert count_processes([10], 10, stop, proc=tmp_path).open_files_limit is None


def test_a_count_can_be_ended(tmp_path: Path, stop: threading.Event) -> None:
    """In the middle of a process."""
    process(tmp_path, 10, "S" * 5)
    stop.set()
    assert sum(count_processes([10], 10, stop, proc=tmp_path).states.values()) == 0


def test_others_have_the_processor_now_and_then(
    tmp_path: Path, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many entries are counted with pauses, and all of them."""
    waits: list[float] = []
    monkeypatch.setattr(processes, "_BATCH", 2)
    monkeypatch.setattr(stop, "wait", lambda seconds: waits.append(seconds))
    process(tmp_path, 10, "S" * 5)
    assert count_processes([10], 10, stop, proc=tmp_path).states["sleeping"] == 5
    assert len(waits) == 2


@pytest.fixture
def connection() -> Iterator[None]:
    """At least two sockets in this process."""
    left, right = socket.socketpair()
    yield
    left.close()
    right.close()


@pytest.mark.usefixtures("connection")
async def test_this_very_process() -> None:
    """Where there are no cgroups of the kernel's own the first process is what is known."""
    sampler, value = process_sampler(lambda _cgroup: []), SampledValue[ProcessCounts]()
    try:
        await sampler.sample([(ContainerProcesses(cgroup="/none", pid=os.getpid()), value)])
        found = await eventually(lambda: value.last, "the count")
    finally:
        sampler.close()
    assert found is not None
    assert found.processes == 1
    assert found.threads >= 1
    assert found.descriptors > found.sockets >= 2
    assert found.open_files_limit
