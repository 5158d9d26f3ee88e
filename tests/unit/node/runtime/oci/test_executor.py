"""Containers that are ended and deleted. With real ones: tests/integration/test_local_runtime.py."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from interpose.node.runtime.cgroups.cgroups import CgroupDirs
from interpose.node.runtime.oci import executor as executing
from interpose.node.runtime.oci.executor import OciExecutor
from interpose.node.runtime.oci.runc import OciRuntime
from interpose.node.runtime.service.interfaces import PartError
from interpose.node.runtime.state.records import ContainerRecord, UsedImage
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.pods import container_config, pod_config

RECORD = ContainerRecord(
    id="a" * 64,
    sandbox_id="b" * 64,
    name="main",
    config=container_config(pod_config("web"), "main"),
    image=UsedImage(id="sha256:1"),
    created_at=1,
    cgroup="/pod/a",
)


class Groups(CgroupDirs):
    """Cgroups whose processes end when they are told to, or never."""

    def __init__(self, strike: Callable[[], bool], *, removable: bool = True) -> None:
        self._answer = strike
        self._removable = removable

    def kill_once(self, path: str) -> bool:
        """One blow."""
        assert path == RECORD.cgroup
        return self._answer()

    def remove(self, path: str) -> bool:
        """Busy or not."""
        assert path == RECORD.cgroup
        return self._removable


def _executor(tmp_path: Path, groups: Groups) -> OciExecutor:
    runtime = OciRuntime(name="runc", version="1", command=("/bin/false",), root=tmp_path)
    return OciExecutor(runtime, groups)


async def test_processes_that_do_not_end_keep_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many more than there are threads are waited for, and others get one at once."""
    monkeypatch.setattr(executing, "_KILL_TIMEOUT", 3600.0)
    ended = False
    executor = _executor(tmp_path, Groups(lambda: ended))
    waiting = [asyncio.ensure_future(executor.kill_all(RECORD)) for _ in range(100)]
    async with asyncio.timeout(WAIT_LIMIT):
        assert await asyncio.to_thread(lambda: 7) == 7
        ended = True
        await asyncio.gather(*waiting)


async def test_processes_that_never_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said, by the name of the cgroup."""
    monkeypatch.setattr(executing, "_KILL_TIMEOUT", 0.01)
    with pytest.raises(PartError, match="/pod/a do not end"):
        await _executor(tmp_path, Groups(lambda: False)).kill_all(RECORD)


async def test_a_cgroup_with_ourselves_in_it(tmp_path: Path) -> None:
    """Is an error in words."""

    def refuse() -> bool:
        raise OSError("the runtime itself is in it")

    with pytest.raises(PartError, match="the runtime itself"):
        await _executor(tmp_path, Groups(refuse)).kill_all(RECORD)


async def test_a_cgroup_that_cannot_be_removed(tmp_path: Path) -> None:
    """The container is not forgotten, so that somebody tries again."""
    with pytest.raises(PartError, match="/pod/a cannot be removed"):
        await _executor(tmp_path, Groups(lambda: True, removable=False)).delete(RECORD)
    await _executor(tmp_path, Groups(lambda: True)).delete(RECORD)
