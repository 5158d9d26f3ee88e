"""The demo's kubelet does what a kubelet does."""

from typing import Any

from google.protobuf.message import Message

from interpose.testing.demokubelet import Kubelet
from interpose.testing.demoparts import PODS
from interpose.testing.fakenode import FakeNode


class Direct(Kubelet):
    """One that calls a runtime without a relay."""

    def __init__(self, node: FakeNode) -> None:
        self._make_cgroup = node.make_pod
        self._runtime = node.runtime

    async def call(self, name: str, request: Message) -> Any:
        return await self._runtime.call(name, request)


async def test_a_pod_lives_and_dies() -> None:
    """It has a cgroup before the runtime hears of it, what it asks for, and nothing is left of it in the end."""
    node, pod = FakeNode(), PODS[0]
    kubelet = Direct(node)

    one = await kubelet.run_pod(pod)
    directory = node.pod_directory(node.runtime.sandboxes[one.sandbox])
    assert node.tree.exists(directory)
    assert (await kubelet.status(one.container)).resources.linux.cpu_quota == pod.resources.cpu_quota
    await kubelet.end_pod(one)

    assert not node.runtime.containers
    assert not node.runtime.sandboxes
    assert not node.tree.exists(directory)
