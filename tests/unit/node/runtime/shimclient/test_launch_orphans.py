"""Shims whose folder was removed."""

import asyncio
import shutil
from pathlib import Path

from interpose.node.runtime.shimclient import launch
from interpose.node.runtime.shimclient.client import SandboxOptions, ShimClient
from interpose.node.runtime.shimclient.paths import ShimPaths, kill_shim
from interpose.node.runtime.shimclient.template import ShimTemplate
from interpose.testing.eventually import eventually

IDS = ("a" * 64, "b" * 64)


def _process(proc: Path, pid: int, *words: str) -> None:
    (proc / str(pid)).mkdir()
    (proc / str(pid) / "cmdline").write_bytes(b"".join(word.encode() + b"\0" for word in words))


def test_found_by_their_command_line(tmp_path: Path) -> None:
    """What looks into a folder, or is about another one, is no shim of ours."""
    python = ("python3", "-I", "-S", "-c", "code", "/sources")
    _process(tmp_path, 10, *python, f"/run/x/{IDS[1]}", "{}")
    _process(tmp_path, 11, *python, f"/run/x/{IDS[0]}", "")
    _process(tmp_path, 12, *python, f"/run/y/{'c' * 64}")
    _process(tmp_path, 13, *python, "/run/x/readme")
    _process(tmp_path, 14, "ls", f"/run/x/{'d' * 64}")
    assert launch.find_shims(Path("/run/x"), proc=tmp_path) == list(IDS)


async def test_ended_without_their_folder(tmp_path: Path) -> None:
    """Forked or started as a program; the pause process goes with it, and another sandbox is left alone."""
    template = ShimTemplate()
    folders = [tmp_path / one for one in IDS]
    for folder in folders:
        folder.mkdir()
    paths = [ShimPaths(folder=folder) for folder in folders]
    forked = await ShimClient.launch(paths[0], SandboxOptions(), starter=template)
    started = await ShimClient.launch(paths[1], SandboxOptions())
    try:
        shutil.rmtree(folders[0])
        assert not kill_shim(paths[0])
        assert await asyncio.to_thread(launch.find_shims, tmp_path) == list(IDS)
        assert await asyncio.to_thread(launch.kill_unreachable_shim, folders[0])
        assert not await asyncio.to_thread(launch.kill_unreachable_shim, folders[0])
        pause = Path(f"/proc/{forked.pause_pid}/exe")
        await eventually(lambda: not pause.exists(), "the end of the pause process")
        assert await started.states() == {}
        assert await asyncio.to_thread(launch.kill_unreachable_shim, folders[1])
    finally:
        for shim in (forked, started):
            await shim.close()
        await template.close()
