"""How shims are started and found."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import interpose
from interpose.node.runtime.shimclient.launch import connect, launch, read_document, shim_command
from interpose.node.runtime.shimclient.paths import ShimPaths, living_shim
from interpose.node.runtime.shimclient.types import SandboxOptions, ShimClosedError, ShimError
from tests.support.lab.processes import wait_for


def test_a_shim_is_python_alone() -> None:
    """Isolated from environment, user and site packages: nobody else's code can get into it."""
    assert shim_command("/folder", {})[:4] == [sys.executable, "-I", "-S", "-c"]


def test_a_shim_needs_the_standard_library_only() -> None:
    """And of that nothing that is heavy: there is one per pod."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import interpose.node.runtime.shim.main, "
        "interpose.node.runtime.shim.server, interpose.node.runtime.shim.pause; print(*sorted(sys.modules))"
    )

    sources = str(Path(interpose.__file__).parent.parent)
    command = [sys.executable, "-I", "-S", "-c", code, sources]
    done = subprocess.run(command, capture_output=True, text=True, check=True)

    loaded = set(done.stdout.split())
    heavy = {"asyncio", "typing", "dataclasses", "logging", "subprocess", "pathlib", "threading", "inspect", "tempfile"}
    assert loaded & heavy == set()
    ours = {name for name in loaded if name.startswith("interpose.")}
    assert {name for name in ours if not name.startswith("interpose.node")} == set()


async def test_a_folder_that_cannot_be_used_is_said(tmp_path: Path) -> None:
    """It ends before it is ready; what it said is in the error."""
    paths = ShimPaths(folder=tmp_path)
    (tmp_path / "shim.json.tmp").mkdir()

    with pytest.raises(ShimError, match=r"shim\.json"):
        await launch(paths, SandboxOptions(), 20)


class Dying:
    """Takes orders and dies over them, so many times."""

    def __init__(self, times: int) -> None:
        self.times = times
        self.orders = 0

    async def start(self, folder: str, options: Mapping[str, object], telling: int, log: int) -> None:
        """Nothing is said, or that all is well."""
        self.orders += 1
        if self.orders > self.times:
            os.write(telling, b'{"pid": 1}\n')

    def give_up(self) -> None:
        """It is in time."""


async def test_an_order_that_was_lost_is_given_again(tmp_path: Path) -> None:
    """Whoever starts shims may be killed with an order in its hands; a second time it is an error."""
    once, always = Dying(1), Dying(9)
    await launch(ShimPaths(folder=tmp_path), SandboxOptions(), 20, once)
    with pytest.raises(ShimError, match="ended before it was ready"):
        await launch(ShimPaths(folder=tmp_path), SandboxOptions(), 20, always)
    assert (once.orders, always.orders) == (2, 2)


@pytest.mark.parametrize("folder", ["there", "not-there"])
async def test_nobody_listens(tmp_path: Path, folder: str) -> None:
    """Whether the folder is there or not."""
    (tmp_path / "there").mkdir()

    with pytest.raises(ShimClosedError, match="no shim in"):
        await connect(ShimPaths(folder=tmp_path / folder))


async def test_a_connection_that_ends_in_a_document() -> None:
    """Is the end of the shim."""
    reader = asyncio.StreamReader()
    reader.feed_data(b"\x00\x00\x00\x09{")
    reader.feed_eof()

    with pytest.raises(ShimClosedError):
        await read_document(reader)


async def test_a_shim_nobody_waits_for_ends(tmp_path: Path) -> None:
    """Whoever launched it was cancelled: there is no sandbox that nobody knows."""
    paths = ShimPaths(folder=tmp_path)

    with pytest.raises(ShimError, match="not ready within"):
        await launch(paths, SandboxOptions(), 0.001)

    await asyncio.to_thread(wait_for, lambda: not _processes(tmp_path), what="the end of the shim")
    assert living_shim(paths) is None


def _processes(folder: Path) -> list[str]:
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(folder).encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
        except OSError:
            continue
    return found
