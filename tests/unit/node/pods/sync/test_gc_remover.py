"""Removing containers with their logs, and folders."""

from pathlib import Path

import pytest

from interpose.cri.client import RuntimeClient
from interpose.net.grpc.status import Code
from interpose.node.pods.sync.gc import ObjectRemover
from interpose.testing.fakeruntime import FakeRuntime


@pytest.fixture
def runtime() -> FakeRuntime:
    return FakeRuntime()


@pytest.fixture
def remover(runtime: FakeRuntime, tmp_path: Path) -> ObjectRemover:
    return ObjectRemover(RuntimeClient(runtime), RuntimeClient(runtime), log_root=str(tmp_path / "logs"))


def ended(runtime: FakeRuntime, log_path: Path | str) -> str:
    [sandbox] = runtime.populate(1)
    [one] = sandbox.containers
    runtime.exit_container(one)
    runtime.containers[one].log_path = str(log_path)
    return one


async def test_a_container_goes_with_its_logs(runtime: FakeRuntime, remover: ObjectRemover, tmp_path: Path) -> None:
    """Also the rotated ones; other files stay."""
    folder = tmp_path / "logs" / "main"
    folder.mkdir(parents=True)
    for name in ("0.log", "0.log.20260101", "0.log.20260102.gz", "1.log"):
        (folder / name).write_text("")
    one = ended(runtime, folder / "0.log")
    assert (await remover.container(one)).error is None
    assert [path.name for path in folder.iterdir()] == ["1.log"]
    assert one not in runtime.containers


@pytest.mark.parametrize("place", ["other/0.log", "logs/../other/0.log", "logs/link/0.log"])
async def test_files_elsewhere_are_not_touched(
    runtime: FakeRuntime, remover: ObjectRemover, tmp_path: Path, place: str
) -> None:
    """Whatever the runtime says where the log is."""
    (tmp_path / "other").mkdir()
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "link").symlink_to(tmp_path / "other")
    (tmp_path / "other" / "0.log").write_text("")
    one = ended(runtime, tmp_path / place)
    assert (await remover.container(one)).error is None
    assert (tmp_path / "other" / "0.log").exists()
    relative = ended(runtime, "0.log")
    assert (await remover.container(relative)).error is None


async def test_a_log_that_cannot_be_removed_does_not_keep_the_container(
    runtime: FakeRuntime, remover: ObjectRemover, tmp_path: Path
) -> None:
    """It may be a folder."""
    (tmp_path / "logs" / "0.log").mkdir(parents=True)
    one = ended(runtime, tmp_path / "logs" / "0.log")
    assert (await remover.container(one)).error is None


async def test_what_is_gone_is_removed(runtime: FakeRuntime, remover: ObjectRemover) -> None:
    """Containers and sandboxes."""
    assert (await remover.container("nobody")).error is None
    runtime.fail("StopPodSandbox", Code.NOT_FOUND, "gone")
    assert (await remover.sandbox("nobody")).error is None


async def test_a_sandbox_is_stopped_once_more(runtime: FakeRuntime, remover: ObjectRemover) -> None:
    """Unless it was just stopped."""
    for stopped in (False, True):
        [sandbox] = runtime.populate(1)
        assert (await remover.sandbox(sandbox.id, stopped=stopped)).error is None
    assert runtime.calls["StopPodSandbox"] == 1
    assert runtime.calls["RemovePodSandbox"] == 2


async def test_folders_of_logs_by_pod(remover: ObjectRemover, tmp_path: Path) -> None:
    """A uid may hold anything, the names before it no underscore."""
    assert await remover.log_folders() == {}
    for name in ("ns_web_1234", "ns_db_a_b", "other"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    assert await remover.log_folders() == {"1234": "ns_web_1234", "a_b": "ns_db_a_b"}
    assert (await remover.log_folder("ns_web_1234")).error is None
    assert (await remover.log_folder("ns_web_1234")).error is None
    assert sorted(path.name for path in (tmp_path / "logs").iterdir()) == ["ns_db_a_b", "other"]


async def test_a_folder_that_cannot_be_removed_is_said(remover: ObjectRemover, tmp_path: Path) -> None:
    """A file is none."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "file").write_text("")
    assert (await remover.log_folder("file")).error
