"""One pod's worker: what it does when the runtime says no, when a pod is edited, and when it has to go."""

import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.net.grpc.status import Code
from interpose.node.pods.events.file import read_events
from interpose.node.pods.spec import FileItem, PodSpec, ProjectedFiles, Volume
from interpose.node.pods.status.last_status import read_last_status
from interpose.node.pods.status.phase import ContainerViewState
from interpose.node.pods.sync.pod_worker import PodWorker
from interpose.tasks import TaskBag
from interpose.testing.eventually import eventually
from tests.support.node.kept_node import KeptNode
from tests.support.node.managed_node import container, pod


@pytest.fixture
async def node(tmp_path: Path) -> AsyncIterator[KeptNode]:
    made = KeptNode(tmp_path)
    yield made
    await made.keeper.close()


@pytest.mark.parametrize(("code", "seconds", "warned"), [(Code.UNAVAILABLE, 4, False), (Code.INTERNAL, 16, True)])
async def test_a_pod_that_cannot_be_looked_at_is_looked_at_later(
    node: KeptNode, caplog: pytest.LogCaptureFixture, code: Code, seconds: int, warned: bool
) -> None:
    """Soon, if the runtime was only away; that it is away is told elsewhere."""
    node.runtime.fail("ListContainers", code, times=3)
    web = pod()
    await node.keeps(web)
    await node.pass_time(seconds)
    assert node.state(web).ready
    assert any("could not be looked at" in one.message for one in caplog.records) is warned


async def test_what_nobody_expected_is_told_and_tried_again(
    node: KeptNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker never ends by a mistake of ours."""
    monkeypatch.setattr(node.dirs, "is_stopped", lambda uid: uid / 2)
    web = pod()
    await node.keeps(web)
    monkeypatch.undo()
    assert any("Failed to sync pod" in one.message for one in caplog.records)
    await node.pass_time(16)
    assert node.state(web).ready


async def test_a_pod_wanted_again_while_it_leaves_comes_back(node: KeptNode) -> None:
    """The removal is completed, then it is started."""
    web = pod()
    await node.keeps(web)
    stall = node.runtime.stall("RemovePodSandbox")
    node.keeper.set_pods([])
    await node.runtime.wait_for_calls("RemovePodSandbox")
    node.keeper.set_pods([web])
    stall.release()
    node.runtime.clear()
    await node.pass_time(2)
    assert node.state(web).ready
    assert node.starts() == 2


async def test_a_worker_without_a_pod_has_nothing_to_show(node: KeptNode) -> None:
    """It only removes what is left of one."""
    worker = PodWorker("1234", node.keeper._parts)
    worker.on_probe_result()
    assert worker.state is None
    await node.keeps(pod())
    await node.keeper.close()
    await worker.run()
    assert node.dirs.uids() == []


async def test_a_grace_can_become_shorter_and_never_longer(node: KeptNode) -> None:
    """What was told to end in an hour is told to end now; who says an hour after that is late."""
    await node.keeps(pod(termination_grace_period=3600))
    stall = node.runtime.stall("StopContainer")
    node.keeper.set_pods([])
    await node.runtime.wait_for_calls("StopContainer")
    tasks = TaskBag()
    stopping = [tasks.spawn(node.keeper.stop(grace), name="stop") for grace in (60, 5, 3600)]
    await eventually(lambda: node.runtime.calls["StopContainer"] == 2, "another stop")
    stall.release()
    node.runtime.clear()
    await eventually(lambda: all(one.done() for one in stopping), "the pod to be gone")
    assert [one.timeout for one in node.runtime.requests_of("StopContainer")] == [3600, 5]


async def test_a_pod_that_is_wanted_again_has_its_own_grace_again(node: KeptNode) -> None:
    """A shorter one was for the time before."""
    web = pod(termination_grace_period=7)
    await node.keeps(web)
    worker = node.keeper._workers[web.uid]
    worker.retire("for once", 3)
    worker.update_pod(web)
    worker.retire("again")
    await eventually(worker.removed.is_set, "its end")
    assert [one.timeout for one in node.runtime.requests_of("StopContainer")] == [7]


def _cannot(*_arguments: object) -> None:
    raise OSError(errno.ENOSPC, "disk is full")


async def test_files_of_a_pod_that_keeps_its_uid_follow_an_edit(
    node: KeptNode, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While its containers go on. What cannot be written is told and tried again."""

    def with_files(content: bytes) -> PodSpec:
        files = ProjectedFiles(items=(FileItem(path="colour", content=content),))
        return pod(volumes=(Volume(name="settings", source=files),))

    await node.keeps(with_files(b"blue"))
    file = node.folder / "root/pods/1234/volumes/settings/colour"
    prepare = node.dirs.prepare
    monkeypatch.setattr(node.dirs, "prepare", _cannot)
    await node.keeps(with_files(b"red"))
    assert any("Volumes are as they were" in one.message for one in caplog.records)
    assert file.read_bytes() == b"blue"
    monkeypatch.setattr(node.dirs, "prepare", prepare)
    await node.pass_time(100)
    assert file.read_bytes() == b"red"
    assert node.starts() == 1


async def test_what_is_seen_is_noted_and_what_happens_is_an_event(node: KeptNode) -> None:
    """For whoever looks when nobody keeps the pod any more."""
    node.runtime.fail("PullImage", Code.NOT_FOUND, "no such image")
    web = pod(container(image="nginx:1"))
    await node.keeps(web)
    folder = node.dirs.folder(web.uid)
    noted = read_last_status(folder)
    assert noted is not None
    [main] = noted.containers
    assert (main.state, main.reason) == (ContainerViewState.WAITING, "ImagePullBackOff")
    assert main.message == "Back-off pulling image 'nginx:1': NOT_FOUND: no such image"
    await node.pass_time(4)
    assert [one.reason for one in read_events(folder)] == ["Scheduled", "Pulling", "Failed", "BackOff"]
    node.runtime.clear()
    await node.pass_time(30)
    noted = read_last_status(folder)
    assert noted is not None
    assert noted.containers[0].reason == ""


async def test_a_deadline_is_an_event(node: KeptNode) -> None:
    """With the time that was given."""
    web = pod(active_deadline=5)
    await node.keeps(web)
    await node.pass_time(10)
    events = {one.reason: one.message for one in read_events(node.dirs.folder(web.uid))}
    assert events["DeadlineExceeded"] == "Pod was active longer than 5 s"
    noted = read_last_status(node.dirs.folder(web.uid))
    assert noted is not None
    assert noted.reason == "DeadlineExceeded"


async def test_a_note_that_cannot_be_written_is_told_to_the_log(
    node: KeptNode, caplog: pytest.LogCaptureFixture
) -> None:
    """The pod is kept all the same."""
    web = pod()
    os.makedirs(f"{node.dirs.folder(web.uid)}/status")  # noqa: PTH103
    await node.keeps(web)
    assert node.state(web).ready
    assert any("status note" in one.message for one in caplog.records)
