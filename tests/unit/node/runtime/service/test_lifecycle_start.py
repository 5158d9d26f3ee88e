"""Starting containers."""

import asyncio

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.eventually import eventually
from tests.support.node.local_client import LocalClient, code_of
from tests.support.node.local_parts import LocalWorld, Process


async def test_an_end_before_the_start_is_done(client: LocalClient, world: LocalWorld) -> None:
    """A process may be gone before the runtime knows that it was there."""
    sandbox = await client.run()
    container = await client.create(sandbox)
    starting = asyncio.ensure_future(client.call("StartContainer", container_id=container))
    await eventually(lambda: world.running() == {container}, "the process")
    world.end(container, 1)
    await starting
    status = await client.status(container)
    assert (status.state, status.exit_code) == (cri.CONTAINER_EXITED, 1)
    assert status.finished_at >= status.started_at > 0


async def test_a_start_that_fails_ends_the_container(client: LocalClient, world: LocalWorld) -> None:
    """Exit code 128 with the OCI runtime's words; it cannot be started again."""
    container = await client.create(await client.run())
    world.refuse["run"] = 'exec: "/nope": no such file'
    with pytest.raises(RpcError, match="/nope"):
        await client.call("StartContainer", container_id=container)
    status = await client.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 128, "StartError")
    assert "/nope" in status.message
    world.refuse.clear()
    assert await code_of(client.call("StartContainer", container_id=container)) is Code.FAILED_PRECONDITION


async def test_a_start_goes_on_without_room_for_its_record(client: LocalClient, world: LocalWorld) -> None:
    """The disk fills up while it starts: it runs, it can be stopped, and the next process finds it by its shim."""
    container = await client.create(await client.run())
    starting = asyncio.ensure_future(client.call("StartContainer", container_id=container))
    await eventually(lambda: world.running() == {container}, "the process")
    world.full = True
    await starting
    assert (await client.status(container)).state == cri.CONTAINER_RUNNING
    again = Process(world).runtime()
    await again.start()
    assert (await LocalClient(again).status(container)).state == cri.CONTAINER_RUNNING
    await LocalClient(again).call("StopContainer", container_id=container, timeout=0)
    assert world.running() == set()
    await again.close()


async def test_a_start_cannot_be_begun_without_room(client: LocalClient, world: LocalWorld) -> None:
    """It may be tried again."""
    container = await client.create(await client.run())
    world.full = True
    with pytest.raises(RpcError, match="No space left"):
        await client.call("StartContainer", container_id=container)
    world.full = False
    await client.call("StartContainer", container_id=container)


async def test_a_start_that_fails_and_cannot_be_undone(client: LocalClient, world: LocalWorld) -> None:
    """It is shown as ended, and removing it undoes the rest."""
    container = await client.create(await client.run())
    world.refuse |= {"run": "no memory", "oci delete": "busy"}
    with pytest.raises(RpcError, match="no memory"):
        await client.call("StartContainer", container_id=container)
    assert (await client.status(container)).state == cri.CONTAINER_EXITED
    world.known_to_oci.add(container)
    assert await code_of(client.call("RemoveContainer", container_id=container)) is Code.UNKNOWN
    world.refuse.clear()
    await client.call("RemoveContainer", container_id=container)
    assert world.leaks() == {}


async def test_a_mistake_while_starting_ends_the_container(world: LocalWorld) -> None:
    """It is not left between created and running, where it could not be stopped."""

    async def mistaken(_sandbox_id: str, _path: str) -> None:
        raise ValueError("embedded null byte")

    runtime = Process(world).runtime(make_folder=mistaken)
    await runtime.start()
    client = LocalClient(runtime)
    container = await client.create(await client.run())
    assert await code_of(client.call("StartContainer", container_id=container)) is Code.INTERNAL
    assert (await client.status(container)).state == cri.CONTAINER_EXITED
    await runtime.close()
