"""The pods there are."""

from pathlib import Path

import pytest

from interpose.node.pods.status.last_status import write_last_status
from interpose.node.pods.status.origin import write_origin
from interpose.node.pods.status.pod_index import known_pod, known_pods
from interpose.node.pods.status.runtime_pod import RuntimePod
from interpose.node.pods.status.summary import LastStatus
from tests.support.node.managed_node import ManagedNode, pod

OLD = '{"source": "/a", "began": 1, "containers": ["main"], "restartPolicy": "Never"}'


@pytest.fixture
def node(tmp_path: Path) -> ManagedNode:
    return ManagedNode(tmp_path)


async def test_pods_that_the_runtime_has_nothing_of_are_known_by_their_folders(node: ManagedNode) -> None:
    """With the name that was noted; pods of others have no folder, and each pod is there once."""
    web, bad = pod(), pod(name="bad", namespace="shop", uid="5678")
    await node.sync(web)
    write_origin(node.dirs.folder(bad.uid), bad, 5)
    [other] = node.runtime.populate(1)
    known = await known_pods(node.manager)
    assert known.ours == {web.uid, bad.uid}
    assert {one.uid for one in known.pods[:2]} == {web.uid, other.config.metadata.uid}
    assert known.pods[2:] == (RuntimePod(uid="5678", name="bad", namespace="shop", complete=True),)


async def test_folders_of_pods_of_another_runtime_are_left_alone(node: ManagedNode) -> None:
    """There they may well run. Where it was not noted, it is as good as ours."""
    node.manager.where = "/run/this.sock"
    for number, runtime in enumerate(("", "/run/this.sock", "/run/that.sock")):
        one = pod(name=f"p{number}", uid=f"u{number}")
        write_origin(node.dirs.folder(one.uid), one, 5, runtime)
    assert [one.name for one in (await known_pods(node.manager)).pods] == ["p0", "p1"]


async def test_a_pod_whose_name_was_not_noted_has_its_uid_for_a_name(tmp_path: Path, node: ManagedNode) -> None:
    """An older release did not, or nothing was noted at all."""
    (tmp_path / "root/pods/none").mkdir(parents=True)
    (tmp_path / "root/pods/old").mkdir()
    (tmp_path / "root/pods/old/origin").write_text(OLD)
    known = await known_pods(node.manager)
    assert [(one.uid, one.name, one.namespace) for one in known.pods] == [("none", "none", ""), ("old", "old", "")]


async def test_a_folder_that_goes_meanwhile_is_no_pod(node: ManagedNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody removed it between two looks."""
    monkeypatch.setattr(node.dirs, "uids", lambda: ["gone"])
    assert (await known_pods(node.manager)).pods == ()


async def test_what_was_noted_of_a_pod_is_known(node: ManagedNode) -> None:
    """Where it came from, when it began, what was last seen; of a pod of others nothing is."""
    bad = pod(name="bad", labels={"app": "bad"})
    folder = node.dirs.folder(bad.uid)
    write_origin(folder, bad, 5)
    write_last_status(folder, LastStatus(containers=(), reason="FailedMount"))
    node.dirs.mark_stopped(bad.uid)
    [listed] = (await known_pods(node.manager)).pods
    assert listed.labels == {"app": "bad"}
    known = await known_pod(node.manager, listed, ours=True)
    assert known.origin is not None
    assert (known.began, known.origin.source, known.summary.declared) == (5, bad.source, ("main",))
    assert (known.summary.stopped, known.summary.word) == (True, "Stopped")
    assert known.summary.cause is not None
    other = await known_pod(node.manager, listed, ours=False)
    assert (other.began, other.origin, other.summary.noted, other.summary.declared) == (0, None, None, None)


async def test_a_pod_began_with_its_first_sandbox(node: ManagedNode) -> None:
    """Not when it was wanted."""
    web = pod()
    write_origin(node.dirs.folder(web.uid), web, 5)
    await node.sync(web)
    known = await known_pod(node.manager, await node.manager.find_pod(web.uid), ours=True)
    assert known.began == known.summary.status.sandboxes[0].created_at > 5
