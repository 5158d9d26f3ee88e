"""What this kernel says of memory: of its nodes, of a cgroup of our own, and whether pages follow. Needs root."""

import asyncio
import os
import secrets
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from interpose.core.model.pod import Container, ContainerState
from interpose.errors import ConfigError
from interpose.host.cgroup.files import KernelFiles
from interpose.host.cgroup.memory import read_memory_use
from interpose.host.cgroup.tree import CgroupTree, detect_version
from interpose.host.sysfs import read_node_memory
from interpose.resmgr.control.memory_migration import enable_migration

MIB = 1 << 20
# It holds that many MiB, says so, and waits.
HELD = 65
HOLDER = f"held = bytearray(b'x') * ({HELD} << 20); print(len(held), flush=True); input()"


@pytest.fixture
def tree() -> CgroupTree:
    """The cgroups of this machine."""
    files = KernelFiles()
    try:
        return CgroupTree(files, version=detect_version(files))
    except ConfigError as error:
        pytest.skip(str(error))


@pytest.fixture
def directory(tree: CgroupTree) -> Iterator[str]:
    """A cgroup of a container within one of a pod, gone afterwards."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to make cgroups")
    pod = f"interpose-test-{secrets.token_hex(4)}"
    bases = [Path(tree.root)] if tree.version == 2 else [Path(tree.root, name) for name in ("memory", "cpuset")]
    folders = [base / path for base in bases for path in (pod, f"{pod}/c")]
    try:
        for folder in folders:
            folder.mkdir()
        yield f"{pod}/c"
    except OSError as error:
        pytest.skip(f"cgroups cannot be made here: {error}")
    finally:
        for folder in reversed(folders):
            if folder.is_dir():
                folder.rmdir()


def test_nodes_of_this_machine_say_what_they_have_left() -> None:
    """Not more than they have, and not nothing while this test runs."""
    found = read_node_memory()
    if not found:
        pytest.skip("this machine does not show its memory nodes")
    assert all(0 <= memory.left <= memory.total for memory in found.values())
    assert any(memory.left for memory in found.values())


async def test_memory_of_a_process_is_found_by_node(tree: CgroupTree, directory: str) -> None:
    """On the nodes together there is what it holds; nobody was killed and no limit hit."""
    folder = Path(tree.root, "" if tree.version == 2 else "memory", directory)
    if not (folder / "memory.numa_stat").exists():
        pytest.skip("this kernel has no memory.numa_stat here")
    pipe = asyncio.subprocess.PIPE
    join = f"open({str(folder / 'cgroup.procs')!r}, 'w').write('0'); "
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", join + HOLDER, stdin=pipe, stdout=pipe)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"%d\n" % (HELD * MIB)
        use = await asyncio.to_thread(read_memory_use, tree, directory)
        assert sum(use.by_node.values()) >= (HELD - 1) * MIB  # each CPU counts its last few pages later
        assert (use.events.kills, use.events.limit_hits) == (0, 0)
    finally:
        process.kill()
        await process.wait()


def test_pages_can_be_told_to_follow(tree: CgroupTree, directory: str) -> None:
    """The file is set and stays so."""
    if tree.version == 2:
        pytest.skip("pages follow by themselves on cgroup v2")
    pod, name = directory.split("/")
    container = Container(id=name, pod_id="p", name="main", state=ContainerState.RUNNING, cgroup_parent=f"/{pod}")
    enable_migration(lambda: tree, container)
    assert tree.text(directory, "cpuset", "cpuset.memory_migrate").strip() == "1"
