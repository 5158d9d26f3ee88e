"""Files with what containers were given: written before a create, kept right, and removed with their containers."""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.policy.request import Key
from interpose.resmgr.exports import resource_files
from interpose.resmgr.exports.resource_files import ResourceFiles, directory_name
from interpose.testing.eventually import eventually

KEY, OTHER = Key("pod-1", "app"), Key("pod-1", "../app")
PLACE = "/.interpose-resources"


class Node:
    """Containers with what their files should say, and the files."""

    def __init__(self, folder: Path, container_path: str = PLACE) -> None:
        self.folder = folder / "containers"
        self.texts = {KEY: 'SHARED_CPUS="0-1"\n'}
        self.files = ResourceFiles(
            str(self.folder), container_path, lambda: self.texts, lambda key: self.texts.get(key, "")
        )

    def file(self, key: Key = KEY) -> Path:
        """Where the file of a container is."""
        return self.folder / directory_name(key) / "resources.sh"

    async def create(self, key: Key = KEY, *mounts: str) -> list[cri.Mount]:
        """The mounts of a container that is created."""
        request = cri.CreateContainerRequest(
            config=cri.ContainerConfig(mounts=[cri.Mount(container_path=path) for path in mounts])
        )
        await self.files.add(request, key)
        return list(request.config.mounts)

    async def refreshed(self) -> None:
        """Everything that was to be written is written."""
        self.files.refresh_soon()
        await eventually(lambda: not self.files._refreshing, "the files to be written")


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[Node]:
    node = Node(tmp_path)
    yield node
    await node.files.close()


async def test_a_container_has_its_file_from_the_start(node: Node) -> None:
    """It can be read by any user of the container, whatever our umask, and written by none."""
    before = os.umask(0o077)
    try:
        mounts = await node.create()
    finally:
        os.umask(before)
    directory = str(node.file().parent)
    assert mounts == [cri.Mount(host_path=directory, container_path=PLACE, readonly=True)]
    assert node.file().read_text() == 'SHARED_CPUS="0-1"\n'
    assert (node.file().stat().st_mode & 0o777, node.file().parent.stat().st_mode & 0o777) == (0o644, 0o755)


async def test_no_name_leads_out_of_the_folder(node: Node) -> None:
    """Docker takes any name."""
    node.texts[OTHER] = "x"
    await node.create(OTHER)
    assert [path.name for path in node.folder.iterdir()] == [directory_name(OTHER)]


async def test_a_mount_of_the_pod_at_that_place_stays(node: Node) -> None:
    """Its author means something else by it."""
    assert [mount.container_path for mount in await node.create(KEY, "/data", PLACE)] == ["/data", PLACE]
    assert not node.folder.exists()


async def test_without_a_place_nothing_is_written(tmp_path: Path) -> None:
    """As it is unless it was asked for."""
    node = Node(tmp_path, "")
    assert await node.create() == []
    await node.refreshed()
    assert not node.folder.exists()


async def test_files_follow_what_containers_have(node: Node) -> None:
    """In place of the old file, so that a mount of its directory shows it; other files are not touched."""
    node.texts[OTHER] = "same"
    await node.create()
    await node.create(OTHER)
    same = node.file(OTHER).stat().st_ino
    node.texts[KEY] = 'SHARED_CPUS="1"\n'
    await node.refreshed()
    assert node.file().read_text() == 'SHARED_CPUS="1"\n'
    assert node.file(OTHER).stat().st_ino == same
    assert [path.name for path in node.file().parent.iterdir()] == ["resources.sh"]


async def test_files_go_with_their_containers(node: Node) -> None:
    """With what a relay left that was killed while it wrote one."""
    await node.create()
    (node.file().parent / "resources.sh.123.tmp").write_text("x")
    node.texts.clear()
    await node.refreshed()
    assert list(node.folder.iterdir()) == []


async def test_files_of_an_earlier_relay_are_swept(node: Node) -> None:
    """Those of containers that are there are brought up to date; what is not ours stays."""
    used, plain = "f" * 32, "e" * 32
    for name in (directory_name(KEY), directory_name(OTHER), "notes", used):
        (node.folder / name).mkdir(parents=True)
    (node.folder / used / "mine").write_text("x")
    (node.folder / plain).write_text("x")
    node.file(OTHER).write_text("old")
    await node.refreshed()
    assert {path.name for path in node.folder.iterdir()} == {directory_name(KEY), "notes", used, plain}
    assert not node.files.problem
    assert node.file().read_text() == node.texts[KEY]


async def test_containers_from_before_have_no_files(node: Node) -> None:
    """Nothing is mounted in them, and nothing is to be written before something changes."""
    due = [node.files.is_due]
    await node.refreshed()
    assert [*due, node.files.is_due] == [True, False]
    assert not node.folder.exists()


async def test_a_disk_that_fails_fails_no_create(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """The container is created without the mount; status and log say why, until it works again."""
    node.folder.write_text("in the way")
    with caplog.at_level(logging.WARNING):
        assert await node.create() == []
    assert node.files.problem.startswith(f"resources of containers cannot be written below {node.folder}: ")
    assert "Resources of containers cannot be written" in caplog.text
    await node.refreshed()
    assert node.files.is_due
    node.folder.unlink()
    await node.refreshed()
    assert not node.files.problem


async def test_a_disk_that_hangs_fails_no_create(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not waited for."""
    free = threading.Event()
    monkeypatch.setattr(resource_files, "WRITE_LIMIT", 0.01)
    monkeypatch.setattr(node.files, "_write", lambda *_: free.wait())
    assert await node.create() == []
    assert node.files.problem.endswith("not done within 0.01 s")
    free.set()


async def test_changes_while_files_are_written_are_not_lost(node: Node) -> None:
    """They are written right after."""
    await node.create()
    node.texts[KEY] = "first"
    node.files.refresh_soon()
    await asyncio.sleep(0)
    node.texts[KEY] = "second"
    await node.refreshed()
    assert node.file().read_text() == "second"
