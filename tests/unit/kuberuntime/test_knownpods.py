"""The pods there are."""

from pathlib import Path

import pytest

from interpose.kuberuntime.knownpods import known_phase, known_pods
from interpose.kuberuntime.origins import Origin, note_origin
from interpose.kuberuntime.phase import Phase
from interpose.kuberuntime.podstatus import ContainerStatus, PodStatus, SandboxStatus
from interpose.kuberuntime.running import RunningPod
from interpose.testing.managednode import ManagedNode, pod

OLD = '{"source": "/a", "began": 1, "containers": ["main"], "restartPolicy": "Never"}'


@pytest.fixture
def node(tmp_path: Path) -> ManagedNode:
    return ManagedNode(tmp_path)


async def test_pods_that_the_runtime_has_nothing_of_are_known_by_their_folders(node: ManagedNode) -> None:
    """With the name that was noted; pods of others have no folder, and each pod is there once."""
    web, bad = pod(), pod(name="bad", namespace="shop", uid="5678")
    await node.sync(web)
    note_origin(node.dirs.folder(bad.uid), bad, 5)
    [other] = node.runtime.populate(1)
    known = await known_pods(node.manager)
    assert known.ours == {web.uid, bad.uid}
    assert {one.uid for one in known.pods[:2]} == {web.uid, other.config.metadata.uid}
    assert known.pods[2:] == (RunningPod(uid="5678", name="bad", namespace="shop", complete=True),)


async def test_folders_of_pods_of_another_runtime_are_left_alone(node: ManagedNode) -> None:
    """There they may well run. Where it was not noted, it is as good as ours."""
    node.manager.where = "/run/this.sock"
    for number, runtime in enumerate(("", "/run/this.sock", "/run/that.sock")):
        one = pod(name=f"p{number}", uid=f"u{number}")
        note_origin(node.dirs.folder(one.uid), one, 5, runtime)
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


def test_what_was_wanted_and_has_nothing_is_pending() -> None:
    """Else the runtime knows better; a folder that says nothing does not."""
    origin = Origin(source="/a", began=1)
    nothing = PodStatus(uid="u")
    assert known_phase(nothing, origin) is Phase.PENDING
    assert known_phase(nothing, None) is Phase.UNKNOWN
    assert known_phase(PodStatus(uid="u", sandboxes=(SandboxStatus(id="s", ready=False),)), origin) is Phase.UNKNOWN
    assert known_phase(PodStatus(uid="u", containers=(ContainerStatus(id="c", name="main"),)), origin) is Phase.RUNNING
