"""Exits of containers and losses of sandboxes, as shims report them."""

import asyncio

import pytest

from interpose.cri.messages import cri
from interpose.testing.eventually import eventually
from tests.support.node.local_client import LocalClient
from tests.support.node.local_parts import LocalWorld


@pytest.mark.parametrize(
    ("code", "oom", "reason"), [(0, False, "Completed"), (3, False, "Error"), (137, True, "OOMKilled")]
)
async def test_ends_of_containers(client: LocalClient, world: LocalWorld, code: int, oom: bool, reason: str) -> None:
    """A container that ends by itself shows how, and the OCI runtime forgets it."""
    container = await client.start(await client.run())
    world.end(container, code, oom=oom)
    status = await client.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, code, reason)
    assert status.finished_at > status.started_at
    await eventually(lambda: not world.known_to_oci, "the OCI runtime to forget it")


async def test_a_sandbox_dies_with_its_shim(client: LocalClient, world: LocalWorld) -> None:
    """NOTREADY, and what ran in it is ended and marked as lost."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    world.lose_shim(sandbox)
    listed = (await client.call("ListPodSandbox")).items
    assert len(listed) == 1
    await eventually(lambda: not world.orphans, "the orphaned container to be killed")
    for _ in range(100):
        status = await client.status(container)
        if status.state == cri.CONTAINER_EXITED:
            break
        await asyncio.sleep(0.01)
    assert (status.exit_code, status.reason) == (255, "Unknown")
    assert (await client.sandbox_status(sandbox)).state == cri.SANDBOX_NOTREADY
    await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    assert not world.files
    assert world.leaks() == {}
