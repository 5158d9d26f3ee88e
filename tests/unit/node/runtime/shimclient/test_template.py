"""Shims that are forked: as those that were started, with less of everything."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.node.runtime.shimclient.client import SandboxOptions, ShimClient
from interpose.node.runtime.shimclient.launch import launch
from interpose.node.runtime.shimclient.paths import ShimPaths, living_shim
from interpose.node.runtime.shimclient.template import ShimTemplate
from interpose.node.runtime.shimclient.types import ShimError
from interpose.testing.eventually import eventually


@pytest.fixture
async def template() -> AsyncIterator[ShimTemplate]:
    """One that is ended after the test."""
    made = ShimTemplate()
    yield made
    await made.close()


def _paths(folder: Path, name: str = "sandbox") -> ShimPaths:
    (folder / name).mkdir(mode=0o700)
    return ShimPaths(folder=folder / name)


def _words(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/cmdline").read_text().split("\0")


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}/exe").exists()


def _children(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


async def test_many_shims_come_from_one_process(tmp_path: Path, template: ShimTemplate) -> None:
    """All at once; each has a pause process, and a folder that its command line names, and none is a child."""
    places = [_paths(tmp_path, f"sandbox-{number}") for number in range(8)]

    shims = await asyncio.gather(*(ShimClient.launch(one, SandboxOptions(), starter=template) for one in places))

    try:
        assert len({shim.pid for shim in shims} | {shim.pause_pid for shim in shims}) == 16
        assert [living_shim(one) for one in places] == [shim.pid for shim in shims]
        for shim, place in zip(shims, places, strict=True):
            assert str(place.folder) in _words(shim.pid)
        assert _children(template.pid) == []
        assert not any(str(tmp_path) in word for word in _words(template.pid))
    finally:
        for shim in shims:
            await shim.stop()


async def test_shims_go_on_without_it(tmp_path: Path, template: ShimTemplate) -> None:
    """It ends with the runtime, they do not; and it comes back when it is needed."""
    shim = await ShimClient.launch(_paths(tmp_path), SandboxOptions(), starter=template)
    first = template.pid

    await template.close()
    await template.close()

    try:
        assert template.pid == 0
        assert not _lives(first)
        assert await shim.states() == {}
        other = await ShimClient.launch(_paths(tmp_path, "other"), SandboxOptions(), starter=template)
        await other.stop()
        assert template.pid not in (0, first)
    finally:
        await shim.stop()


async def test_a_killed_one_is_replaced(tmp_path: Path, template: ShimTemplate) -> None:
    """Whoever starts the next shim does not notice."""
    shim = await ShimClient.launch(_paths(tmp_path), SandboxOptions(), starter=template)
    await shim.stop()
    first = template.pid
    os.kill(first, signal.SIGKILL)
    await eventually(lambda: not _lives(first), "its end")

    other = await ShimClient.launch(_paths(tmp_path, "other"), SandboxOptions(), starter=template)

    assert template.pid != first
    await other.stop()


async def test_one_that_hangs_is_replaced(tmp_path: Path, template: ShimTemplate) -> None:
    """One start fails, and those that waited behind it do not; nothing comes of it later."""
    shim = await ShimClient.launch(_paths(tmp_path), SandboxOptions(), starter=template)
    await shim.stop()
    first = template.pid
    os.kill(first, signal.SIGSTOP)
    behind = asyncio.create_task(ShimClient.launch(_paths(tmp_path, "behind"), SandboxOptions(), starter=template))

    with pytest.raises(ShimError, match="not ready within"):
        await launch(_paths(tmp_path, "late"), SandboxOptions(), 1, template)

    await (await behind).stop()
    assert template.pid != first
    assert not _lives(first)
    assert living_shim(ShimPaths(folder=tmp_path / "late")) is None


async def test_what_a_shim_cannot_do_is_said(tmp_path: Path, template: ShimTemplate) -> None:
    """As by one that was started; the next one is none the worse."""
    paths = _paths(tmp_path)
    paths.folder.joinpath("shim.json.tmp").mkdir()

    with pytest.raises(ShimError, match=r"shim\.json"):
        await launch(paths, SandboxOptions(), 20, template)

    other = await ShimClient.launch(_paths(tmp_path, "other"), SandboxOptions(), starter=template)
    await other.stop()


async def test_the_holder_is_small_and_has_its_name(tmp_path: Path, template: ShimTemplate) -> None:
    """It is a program that sleeps, and gone with its shim, however that ends."""
    shim = await ShimClient.launch(_paths(tmp_path), SandboxOptions(), starter=template)
    pause_pid, pid = Path(f"/proc/{shim.pause_pid}"), shim.pid

    await eventually(lambda: b"sleep" in (pause_pid / "cmdline").read_bytes(), "the pause process to sleep")
    name = (pause_pid / "comm").read_text()
    os.kill(pid, signal.SIGKILL)
    await eventually(lambda: not (pause_pid / "exe").exists(), "the end of the pause process")
    await shim.close()

    assert name == "interpose-hold\n"
