"""Collecting what is left over."""

from pathlib import Path

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code, RpcError
from interpose.node.pods.sync.result import SyncStepKind
from tests.support.node.managed_node import ManagedNode, pod


@pytest.fixture
def node(tmp_path: Path) -> ManagedNode:
    return ManagedNode(tmp_path)


def write_log(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")


async def crashed(node: ManagedNode, times: int) -> None:
    """A pod whose container ended several times, each with a log, and whose sandbox was replaced as often."""
    for number in range(times):
        await node.sync(pod())
        for one in node.runtime.containers.values():
            write_log(Path(one.log_path))
        for sandbox in list(node.runtime.sandboxes.values()):
            if number < times - 1:
                node.runtime.state.stop_sandbox(sandbox)
        node.clock.advance(301)


async def test_the_newest_that_ended_stays_with_its_log(node: ManagedNode) -> None:
    """And the sandboxes that are still in use."""
    await crashed(node, 4)
    result = await node.manager.collect_garbage(["1234"])
    assert result.ok
    status = await node.status("1234")
    assert [one.restart_count for one in status.containers] == [3, 2]
    assert [one.attempt for one in status.sandboxes] == [3, 2]
    assert sorted(path.name for path in (node.log_root / "default_web_1234" / "main").iterdir()) == ["2.log", "3.log"]
    node.forget_calls()
    assert (await node.manager.collect_garbage(["1234"])).steps == ()
    assert node.calls() == []


async def test_a_pod_that_is_gone_leaves_nothing_if_that_is_wanted(node: ManagedNode) -> None:
    """Containers, sandboxes, logs, folder; what still runs is left to its owner."""
    await crashed(node, 2)
    assert (await node.manager.collect_garbage([])).steps == ()
    assert (await node.manager.collect_garbage([], evict_deleted=True)).ok
    assert len(node.running()["main"]) == 1
    assert node.dirs.uids() == ["1234"]
    await node.manager.kill_pod(await node.found(pod()))
    assert (await node.manager.collect_garbage([], evict_deleted=True)).ok
    assert not node.runtime.sandboxes
    assert node.dirs.uids() == []
    assert list(node.log_root.iterdir()) == []


async def test_pods_of_other_managers_are_never_touched(node: ManagedNode) -> None:
    """A kubelet may use the same runtime."""
    [other] = node.runtime.populate(1)
    node.runtime.state.stop_sandbox(other)
    assert (await node.manager.collect_garbage([], evict_deleted=True)).steps == ()
    assert other.id in node.runtime.sandboxes


async def test_what_cannot_be_removed_is_tried_again(node: ManagedNode) -> None:
    """A sandbox whose container stays is not touched, and the folder stays, too."""
    await crashed(node, 1)
    await node.manager.kill_pod(await node.found(pod()))
    node.runtime.fail("RemoveContainer", Code.UNKNOWN, "busy")
    result = await node.manager.collect_garbage([], evict_deleted=True)
    assert [step.act for step in result.errors] == [SyncStepKind.REMOVE_CONTAINER]
    assert node.calls("RemovePodSandbox") == []
    assert node.dirs.uids() == ["1234"]
    node.runtime.clear()
    node.runtime.fail("RemovePodSandbox", Code.UNKNOWN, "busy")
    result = await node.manager.collect_garbage([], evict_deleted=True)
    assert [step.act for step in result.errors] == [SyncStepKind.REMOVE_SANDBOX]
    assert node.dirs.uids() == ["1234"]
    node.runtime.clear()
    assert (await node.manager.collect_garbage([], evict_deleted=True)).ok
    assert node.dirs.uids() == []


async def test_a_folder_that_cannot_be_removed_is_said(node: ManagedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something in it may still be mounted."""
    await node.sync(pod())

    def busy(_uid: str) -> None:
        raise OSError(16, "is still mounted")

    monkeypatch.setattr(node.dirs, "remove", busy)
    result = await node.manager.remove_pod(await node.found(pod()))
    assert [step.act for step in result.errors] == [SyncStepKind.CLEAN_UP]


async def test_containers_nobody_knows_about_are_ended_first(node: ManagedNode) -> None:
    """They may run after all; if that fails they stay."""
    await crashed(node, 2)
    old = min(node.runtime.containers.values(), key=lambda one: one.config.metadata.attempt)
    new = max(node.runtime.containers.values(), key=lambda one: one.config.metadata.attempt)
    old.state = new.state = cri.CONTAINER_UNKNOWN
    node.forget_calls()
    node.runtime.fail("StopContainer", Code.UNKNOWN, "no", times=1)
    result = await node.manager.collect_garbage(["1234"])
    assert [step.act for step in result.errors] == [SyncStepKind.KILL_CONTAINER]
    assert (await node.manager.collect_garbage(["1234"])).ok
    assert node.calls() == ["StopContainer", "StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"]
    assert list(node.runtime.containers) == [new.id]


async def test_a_runtime_that_cannot_be_asked_is_an_error(node: ManagedNode) -> None:
    """Nothing is concluded from silence."""
    node.runtime.fail("ListContainers", Code.UNAVAILABLE, "gone")
    with pytest.raises(RpcError, match="gone"):
        await node.manager.collect_garbage(["1234"])
