"""The example plugin as a person runs it, asked through the client that the relay uses."""

import json
import signal
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.client import HookCallError, HookClient
from interpose.net.grpc.transport import Hub
from interpose.testing.eventually import WAIT_LIMIT
from tests.support.lab.processes import Child

PLUGIN = Path(__file__).parents[2] / "examples/hook-plugin/plugin.py"
META = hook.PodSandboxMetadata(name="pod")


@pytest.fixture
def plugin(scratch: Path, spawn: Callable[..., Child]) -> Child:
    """The plugin, registered."""
    child = spawn(sys.executable, PLUGIN, "--socket", scratch / "p.sock", "--hooks-dir", scratch)
    child.wait_until((scratch / "batch.json").exists, what="its registration")
    return child


@pytest.fixture
async def client(scratch: Path, plugin: Child) -> AsyncIterator[HookClient]:
    """A client of it."""
    client = HookClient(str(scratch / "p.sock"), name="batch", hub=Hub())
    yield client
    await client.close()


async def create(client: HookClient, tier: str, shares: int = 1024) -> hook.ContainerResourceHookResponse:
    """What it says about a container."""
    request = hook.ContainerResourceHookRequest(
        pod_meta=META,
        pod_labels={"tier": tier},
        container_resources=hook.LinuxContainerResources(cpu_shares=shares, memory_limit_in_bytes=1 << 30),
        container_envs={"A": "1"},
    )
    answer = await client.call(HookPoint.PRE_CREATE_CONTAINER, request.SerializeToString(), timeout=WAIT_LIMIT)
    return hook.ContainerResourceHookResponse.FromString(answer)


async def run(client: HookClient, tier: str) -> hook.PodSandboxHookResponse:
    """What it says about a pod."""
    request = hook.PodSandboxHookRequest(pod_meta=META, labels={"tier": tier})
    answer = await client.call(HookPoint.PRE_RUN_POD_SANDBOX, request.SerializeToString(), timeout=WAIT_LIMIT)
    return hook.PodSandboxHookResponse.FromString(answer)


async def test_registration(scratch: Path, client: HookClient) -> None:
    """It registers the hook points it serves, and serves no others."""
    document = json.loads((scratch / "batch.json").read_text())
    assert document["remote-endpoint"] == str(scratch / "p.sock")
    served = set(map(HookPoint, document["runtime-hooks"]))
    for point in served:
        assert await client.call(point, b"", timeout=WAIT_LIMIT) == b""
    for point in set(HookPoint) - served:
        with pytest.raises(HookCallError, match="UNIMPLEMENTED"):
            await client.call(point, b"", timeout=WAIT_LIMIT)


async def test_batch_pods_are_marked(client: HookClient) -> None:
    """The others are not."""
    assert (await run(client, "batch")).annotations == {"example.com/batch": "true"}
    assert await run(client, "web") == hook.PodSandboxHookResponse()


async def test_batch_containers_get_few_shares(client: HookClient) -> None:
    """A partial answer: shares and one variable, nothing else; never more shares than before."""
    assert await create(client, "batch") == hook.ContainerResourceHookResponse(
        container_resources=hook.LinuxContainerResources(cpu_shares=128), container_envs={"TIER": "batch"}
    )
    assert (await create(client, "batch", shares=50)).container_resources.cpu_shares == 50
    assert await create(client, "web") == hook.ContainerResourceHookResponse()


async def test_stopped_containers_are_logged(client: HookClient, plugin: Child) -> None:
    """With pod and container."""
    request = hook.ContainerResourceHookRequest(pod_meta=META, container_meta=hook.ContainerMetadata(name="c"))
    await client.call(HookPoint.POST_STOP_CONTAINER, request.SerializeToString(), timeout=WAIT_LIMIT)
    plugin.wait_until(lambda: "Stopped pod/c" in plugin.log.read_text(), what="the line in its log")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_leaves_nothing_behind(plugin: Child, scratch: Path, number: signal.Signals) -> None:
    """The registration goes, and it ends well."""
    plugin.signal(number)
    assert plugin.wait() == 0
    assert not (scratch / "batch.json").exists()
