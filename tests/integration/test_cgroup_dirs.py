"""Cgroups of this machine: made, filled with processes, emptied and removed. As root, below a name of our own."""

import asyncio
import os
import secrets
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from interpose.node.runtime.cgroups import cgroups
from interpose.node.runtime.cgroups.cgroups import CgroupDirs
from interpose.testing.eventually import WAIT_LIMIT, eventually

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to make cgroups")


@pytest.fixture
def dirs() -> CgroupDirs:
    found = cgroups.detect()
    assert not found.scratch
    return found


@pytest.fixture
def parent(dirs: CgroupDirs) -> Iterator[str]:
    """A cgroup of this test, gone afterwards with all that runs in it."""
    name = f"/interpose-test-{secrets.token_hex(4)}"
    yield name
    dirs.kill_all(name)
    assert dirs.remove(name)


@contextmanager
def _sleeping() -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL) as child:
        try:
            yield child
        finally:
            child.kill()


def test_a_cgroup_is_made_with_its_parents(dirs: CgroupDirs, parent: str) -> None:
    """Twice is fine; a process can be put there at once, which on v1 needs CPUs and memory nodes."""
    path = f"{parent}/pod/container"
    dirs.make(path)
    dirs.make(path)
    assert dirs.exists(path)
    with _sleeping() as child:
        dirs.add_process(path, child.pid)
        assert dirs.processes(parent) == [child.pid]


async def test_all_processes_are_killed_and_counted_before(dirs: CgroupDirs, parent: str) -> None:
    """Children too, in cgroups below; after that all of it can be removed."""
    path = f"{parent}/container"
    dirs.make(path)
    child = await asyncio.create_subprocess_exec(
        *("sh", "-c", "read go; sleep 1000 & sleep 1000 & wait"), stdin=asyncio.subprocess.PIPE
    )
    dirs.add_process(path, child.pid)
    assert child.stdin is not None
    child.stdin.write(b"go\n")
    await eventually(lambda: len(dirs.processes(path)) == 3, "a shell with two children")
    assert dirs.stats(path).cpu_ns is not None
    assert not dirs.remove(path)
    assert dirs.kill_all(path)
    assert await child.wait() == -signal.SIGKILL
    assert dirs.processes(path) == []
    assert dirs.remove(path)
    assert not dirs.exists(path)


async def test_what_froze_itself_is_killed(dirs: CgroupDirs, parent: str) -> None:
    """As a container may that can write to its cgroups."""
    dirs.make(f"{parent}/container/inner")
    freezer = Path(dirs.root, "freezer") if dirs.version == 1 else Path(dirs.root)
    name, frozen = ("freezer.state", "FROZEN") if dirs.version == 1 else ("cgroup.freeze", "1")
    child = await asyncio.create_subprocess_exec("sleep", "1000", stdin=asyncio.subprocess.DEVNULL)
    dirs.add_process(f"{parent}/container/inner", child.pid)
    state = freezer / f"{parent.strip('/')}/container/inner" / name
    state.write_text(frozen)
    try:
        assert await asyncio.to_thread(dirs.kill_all, f"{parent}/container", 2.0)
    finally:
        if state.exists():
            state.write_text("THAWED" if dirs.version == 1 else "0")
    assert await child.wait() == -signal.SIGKILL


def test_deeper_than_a_path_can_be(dirs: CgroupDirs, parent: str) -> None:
    """As a container may nest them: who is in there is killed, and all of it can be removed."""
    dirs.make(parent)
    base = Path(dirs.root, "freezer") if dirs.version == 1 else Path(dirs.root)
    at = os.open(base / parent.strip("/"), os.O_RDONLY)
    for _ in range(45):
        os.mkdir("d" * 100, dir_fd=at)
        further = os.open("d" * 100, os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = further
    with _sleeping() as child:
        file = os.open("cgroup.procs", os.O_WRONLY, dir_fd=at)
        os.write(file, str(child.pid).encode())
        os.close(file)
        os.close(at)
        assert dirs.processes(parent) == [child.pid]
        assert not dirs.kill_once(parent)
        assert child.wait(WAIT_LIMIT) == -signal.SIGKILL
    assert dirs.remove(parent)
    assert not dirs.exists(parent)


def test_usage_of_a_living_cgroup(dirs: CgroupDirs, parent: str) -> None:
    """Memory is in use, and the count of kills can be read."""
    dirs.make(parent)
    with _sleeping() as child:
        dirs.add_process(parent, child.pid)
        assert dirs.stats(parent).memory_usage is not None
        file = dirs.oom_file(parent)
        assert file is not None
        assert "oom_kill 0" in Path(file).read_text()


def test_what_is_gone_is_empty(dirs: CgroupDirs) -> None:
    """Neither processes nor an error."""
    assert dirs.processes("/interpose-test-nothing") == []
    assert dirs.remove("/interpose-test-nothing")
    assert dirs.kill_all("/interpose-test-nothing")
    assert dirs.stats("/interpose-test-nothing").memory_usage is None
