"""Removing what is there, and what is not."""

from interpose.rpc.status import Code
from interpose.testing.localclient import LocalClient, code_of
from interpose.testing.localparts import LocalWorld


async def test_removing_everything_leaves_nothing(client: LocalClient, world: LocalWorld) -> None:
    """A pod that is removed while it runs leaves neither files nor processes."""
    sandbox = await client.run()
    await client.start(sandbox)
    await client.create(sandbox, "other")
    await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    assert not world.files
    assert world.leaks() == {}
    assert not any((world.shims, world.bundles, world.networks, world.grounds, world.known_to_oci))
    assert await code_of(client.sandbox_status(sandbox)) is Code.NOT_FOUND


async def test_stop_and_remove_may_be_repeated(client: LocalClient) -> None:
    """Also of what never was."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    for _ in range(2):
        await client.call("StopContainer", container_id=container, timeout=1)
        await client.call("StopPodSandbox", pod_sandbox_id=sandbox)
    for _ in range(2):
        await client.call("RemoveContainer", container_id=container)
    for _ in range(2):
        await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)
