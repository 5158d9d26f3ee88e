"""The demo's kubelet does what a kubelet does."""

from typing import Any

from google.protobuf.message import Message

from interpose.testing.demo import Kubelet
from interpose.testing.demoreport import CLAIMS
from interpose.testing.fakeruntime import FakeRuntime


class Direct(Kubelet):
    """One that calls a runtime without a relay."""

    def __init__(self, runtime: FakeRuntime) -> None:
        self._runtime = runtime

    async def call(self, name: str, request: Message) -> Any:
        return await self._runtime.call(name, request)


async def test_a_pod_lives_and_dies() -> None:
    """Its container asks for what the demo claims, and nothing is left of it in the end."""
    runtime = FakeRuntime()
    kubelet = Direct(runtime)

    sandbox, status = await kubelet.run_pod(CLAIMS[0])
    assert status.resources.linux.cpu_shares == CLAIMS[0].asked
    await kubelet.end_pod(sandbox, status.id)

    assert not runtime.containers
    assert not runtime.state.sandboxes
