"""One pod's worker: what it does when the runtime says no, and what it tells."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.kuberuntime.podworker import PodWorker
from interpose.rpc.status import Code
from interpose.testing.keptnode import KeptNode
from interpose.testing.managednode import pod


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
    assert any("could not be synced" in one.message for one in caplog.records)
    await node.pass_time(16)
    assert node.state(web).ready


async def test_a_pod_wanted_again_while_it_leaves_comes_back(node: KeptNode) -> None:
    """The removal is completed, then it is started."""
    web = pod()
    await node.keeps(web)
    stall = node.runtime.stall("RemovePodSandbox")
    node.keeper.want([])
    await node.runtime.wait_for_calls("RemovePodSandbox")
    node.keeper.want([web])
    stall.release()
    node.runtime.clear()
    await node.pass_time(2)
    assert node.state(web).ready
    assert node.starts() == 2


async def test_a_worker_without_a_pod_has_nothing_to_show(node: KeptNode) -> None:
    """It only removes what is left of one."""
    worker = PodWorker("1234", node.keeper._parts)
    worker.refresh()
    assert worker.state is None
    await node.keeps(pod())
    await node.keeper.close()
    await worker.run()
    assert node.dirs.uids() == []
