"""Removing what is there, and what is not."""

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from tests.support.node.local_client import LocalClient, code_of
from tests.support.node.local_parts import LocalWorld


async def test_removing_everything_leaves_nothing(client: LocalClient, world: LocalWorld) -> None:
    """A pod that is removed while it runs leaves neither files nor processes."""
    sandbox = await client.run()
    await client.start(sandbox)
    await client.create(sandbox, "other")
    await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    assert not world.files
    assert world.leaks() == {}
    assert not any((world.shims, world.bundles, world.networks, world.sandbox_files, world.known_to_oci))
    assert await code_of(client.sandbox_status(sandbox)) is Code.NOT_FOUND


async def test_stop_and_remove_may_be_repeated(client: LocalClient) -> None:
    """Also of what never was."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    for _ in range(2):
        await client.call("StopContainer", container_id=container, timeout=1)
        await client.call("StopPodSandbox", pod_sandbox_id=sandbox)
    assert (await client.status(container)).state == cri.CONTAINER_EXITED
    for _ in range(2):
        await client.call("RemoveContainer", container_id=container)
    assert await code_of(client.status(container)) is Code.NOT_FOUND
    for _ in range(2):
        await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    assert await code_of(client.sandbox_status(sandbox)) is Code.NOT_FOUND
    await client.call("StopContainer", container_id="feed", timeout=1)
    await client.call("StopPodSandbox", pod_sandbox_id="feed")
    await client.call("RemoveContainer", container_id="feed")
    await client.call("RemovePodSandbox", pod_sandbox_id="feed")


async def test_nothing_is_done_with_a_start_that_several_have(client: LocalClient) -> None:
    """And whoever asked for it is told, as is who asked for nothing: OK would mean that it is done."""
    sandboxes = [await client.run(name) for name in ("one", "two")]
    containers = [await client.start(one, pod=name) for one, name in zip(sandboxes, ("one", "two"), strict=True)]
    for method, field in (
        ("StopPodSandbox", "pod_sandbox_id"),
        ("RemovePodSandbox", "pod_sandbox_id"),
        ("PodSandboxStatus", "pod_sandbox_id"),
        ("StopContainer", "container_id"),
        ("RemoveContainer", "container_id"),
        ("ContainerStatus", "container_id"),
        ("StartContainer", "container_id"),
    ):
        with pytest.raises(RpcError, match=r"INVALID_ARGUMENT: several .* begin with '0'"):
            await client.call(method, **{field: "0"})
        assert await code_of(client.call(method, **{field: ""})) is Code.INVALID_ARGUMENT
    assert len((await client.call("ListPodSandbox")).items) == 2
    assert [(await client.status(one)).state for one in containers] == [cri.CONTAINER_RUNNING] * 2
