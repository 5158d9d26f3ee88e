"""The life of a pod on a node in memory, and what belongs to all calls."""

import asyncio
from typing import Any

import pytest

from interpose.cri.messages import cri
from interpose.cri.methods import METHODS
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.service.runtime import LocalRuntime
from interpose.testing.eventually import eventually
from interpose.testing.pods import container_config, pod_config
from tests.support.node.local_client import LocalClient, code_of
from tests.support.node.local_parts import IMAGE, IMAGE_ID, LocalWorld, Process


def _runtime(client: LocalClient) -> LocalRuntime:
    assert isinstance(client.runtime, LocalRuntime)
    return client.runtime


async def test_a_pod_runs(client: LocalClient, world: LocalWorld) -> None:
    """Sandbox, container, start: ready with its addresses, running with its pid and user."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    pod, status = await client.sandbox_status(sandbox), await client.status(container)
    assert (pod.state, pod.network.ip, pod.network.additional_ips[0].ip) == (cri.SANDBOX_READY, "10.0.0.2", "fd00::2")
    assert status.state == cri.CONTAINER_RUNNING
    assert status.created_at < status.started_at
    assert (status.image.image, status.image_id, status.image_ref) == (IMAGE, IMAGE_ID, IMAGE_ID)
    assert (status.user.linux.uid, status.user.linux.gid, list(status.user.linux.supplemental_groups)) == (7, 8, [9])
    assert status.stop_signal == cri.SIGNAL_SIGTERM
    assert world.running() == {container}
    assert world.networks == world.attached == {sandbox}


@pytest.mark.parametrize(
    ("method", "fields"),
    [
        ("ContainerStatus", {"container_id": "feed"}),
        ("StartContainer", {"container_id": "feed"}),
        ("UpdateContainerResources", {"container_id": "feed"}),
        ("ReopenContainerLog", {"container_id": "feed"}),
        ("ExecSync", {"container_id": "feed", "cmd": ["true"]}),
        ("Exec", {"container_id": "feed", "cmd": ["true"], "stdout": True}),
        ("Attach", {"container_id": "feed", "stdout": True}),
        ("PodSandboxStatus", {"pod_sandbox_id": "feed"}),
        ("PortForward", {"pod_sandbox_id": "feed"}),
        ("UpdatePodSandboxResources", {"pod_sandbox_id": "feed"}),
        ("CreateContainer", {"pod_sandbox_id": "feed"}),
    ],
)
async def test_what_is_not_there(client: LocalClient, method: str, fields: dict[str, Any]) -> None:
    """NOT_FOUND for an id that nobody has."""
    assert await code_of(client.call(method, **fields)) is Code.NOT_FOUND


async def test_bad_requests_name_the_field(client: LocalClient) -> None:
    """And do nothing."""
    bad = pod_config("web")
    bad.metadata.uid = ""
    with pytest.raises(RpcError, match=r"config\.metadata\.uid"):
        await client.call("RunPodSandbox", config=bad)
    with pytest.raises(RpcError, match=r'runtime_handler.*"kata"'):
        await client.call("RunPodSandbox", config=pod_config("web"), runtime_handler="kata")
    sandbox = await client.run()
    config = container_config(pod_config("web"), "main")
    config.image.image = "nowhere:1"
    assert await code_of(client.call("CreateContainer", pod_sandbox_id=sandbox, config=config)) is Code.NOT_FOUND
    config.ClearField("metadata")
    with pytest.raises(RpcError, match=r"config\.metadata"):
        await client.call("CreateContainer", pod_sandbox_id=sandbox, config=config)
    assert await code_of(client.call("ContainerStatus", container_id="")) is Code.INVALID_ARGUMENT


async def test_a_caller_that_leaves_does_not_stop_the_work(client: LocalClient, world: LocalWorld) -> None:
    """A create that was given up is done all the same: the container is there."""
    sandbox = await client.run()
    call = asyncio.ensure_future(client.create(sandbox))
    await asyncio.sleep(0)
    call.cancel()
    await eventually(lambda: bool(world.bundles), "the container")
    await asyncio.sleep(0)
    for _ in range(100):
        if listed := (await client.call("ListContainers")).containers:
            break
        await asyncio.sleep(0.01)
    assert listed[0].state == cri.CONTAINER_CREATED


async def test_a_deadline(client: LocalClient, world: LocalWorld) -> None:
    """A call that takes too long ends for the caller; the work goes on."""
    world.stubborn = True
    container = await client.start(await client.run())
    request = cri.StopContainerRequest(container_id=container, timeout=1)
    with pytest.raises(RpcError) as caught:
        await client.runtime.call("StopContainer", request, timeout=0.01)
    assert caught.value.code is Code.DEADLINE_EXCEEDED
    await eventually(lambda: not world.running(), "the end of the container")


async def test_checkpoints_are_not_ours(client: LocalClient) -> None:
    """UNIMPLEMENTED, as is what nobody knows."""
    assert await code_of(client.call("CheckpointContainer", container_id="x")) is Code.UNIMPLEMENTED
    with pytest.raises(RpcError, match="UNIMPLEMENTED"):
        async for _ in client.runtime.stream("Version", cri.VersionRequest()):
            pass


async def test_methods_are_known(client: LocalClient) -> None:
    """Every method of ours is one of the interface."""
    assert set(METHODS) >= _runtime(client).METHODS


async def test_describe_and_metrics(client: LocalClient) -> None:
    """Counts by state."""
    sandbox = await client.run()
    await client.start(sandbox)
    assert _runtime(client).describe()["sandboxes"] == {"ready": 1, "notready": 0}
    assert _runtime(client).describe()["containers"] == {"created": 0, "running": 1, "exited": 0}
    families = {one.name: one for one in _runtime(client).collect()}
    assert [sample.value for sample in families["interpose_runtime_containers"].samples] == [0, 0, 1]  # type: ignore[union-attr]


async def test_after_close_calls_are_refused(world: LocalWorld) -> None:
    """UNAVAILABLE; containers go on."""
    runtime: LocalRuntime = Process(world).runtime()
    await runtime.start()
    client = LocalClient(runtime)
    container = await client.start(await client.run())
    await runtime.close()
    assert await code_of(client.run("late")) is Code.UNAVAILABLE
    assert world.running() == {container}
