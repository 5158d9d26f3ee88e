"""Looking at pods without a manager."""

from pathlib import Path

from interpose.node.pods.status.reader import PodReader
from interpose.node.pods.volumes.pod_folders import PodFolders
from tests.support.node.managed_node import ManagedNode, pod


async def test_pods_are_seen_as_their_manager_sees_them(tmp_path: Path) -> None:
    """All of them, those that run, and one."""
    node = ManagedNode(tmp_path)
    web, ended = pod(), pod(name="ended", uid="5678")
    for one in (web, ended):
        await node.sync(one)
    await node.manager.kill_pod(await node.found(ended), ended)
    reader = PodReader(node.manager.services, dirs=PodFolders(str(tmp_path / "root")))
    assert [one.uid for one in await reader.get_pods()] == [web.uid]
    assert await reader.get_pods(all=True) == await node.manager.get_pods(all=True)
    assert await reader.get_pod_status(web.uid) == await node.manager.get_pod_status(web.uid)
    assert (await reader.find_pod("nobody")).sandboxes == ()
