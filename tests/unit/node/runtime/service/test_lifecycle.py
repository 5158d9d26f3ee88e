"""Stopping containers: ask, wait, insist."""

import asyncio

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import RpcError
from interpose.node.runtime.service import lifecycle
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.node.local_client import LocalClient
from tests.support.node.local_parts import LocalWorld, Process


async def test_stop_asks_first(client: LocalClient, world: LocalWorld) -> None:
    """With a grace the stop signal is enough."""
    container = await client.start(await client.run())
    await client.call("StopContainer", container_id=container, timeout=30)
    status = await client.status(container)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 143, "Error")
    await eventually(lambda: not world.known_to_oci, "the OCI runtime to forget it")


async def test_stop_insists(client: LocalClient, world: LocalWorld) -> None:
    """Without a grace, or when it is over, the container is killed."""
    world.stubborn = True
    sandbox = await client.run()
    first, second = await client.start(sandbox), await client.start(sandbox, "second")
    await client.call("StopContainer", container_id=first, timeout=0)
    await client.call("StopContainer", container_id=second, timeout=1)
    assert [(await client.status(one)).exit_code for one in (first, second)] == [137, 137]


async def test_a_shorter_stop_does_not_wait_for_a_longer_one(client: LocalClient, world: LocalWorld) -> None:
    """The first stop gives half a minute; a second one without a grace ends both."""
    world.stubborn = True
    container = await client.start(await client.run())
    async with asyncio.TaskGroup() as group:
        group.create_task(client.call("StopContainer", container_id=container, timeout=3600))
        await asyncio.sleep(0)
        await client.call("StopContainer", container_id=container, timeout=0)
    assert (await client.status(container)).exit_code == 137


async def test_what_does_not_end_is_ended_by_its_cgroup(
    client: LocalClient, world: LocalWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that hangs is given some time; what is around it is killed then. If that fails too, it is said."""
    monkeypatch.setattr(lifecycle, "KILL_TIMEOUT", 0.01)
    world.hanging = True
    sandbox = await client.run()
    first, second = await client.start(sandbox), await client.start(sandbox, "second")
    await client.call("StopContainer", container_id=first, timeout=0)
    assert (await client.status(first)).exit_code == 137
    world.refuse["kill all"] = "they do not end"
    with pytest.raises(RpcError, match="they do not end"):
        await client.call("StopContainer", container_id=second, timeout=0)
    assert (await client.status(second)).state == cri.CONTAINER_RUNNING
    world.refuse.clear()
    world.hanging = False


async def test_the_shim_dies_with_the_signal_in_its_hands(world: LocalWorld) -> None:
    """Nobody will tell of the end: it is not waited for, and what still runs is ended."""
    process = Process(world)
    runtime = process.runtime()
    await runtime.start()
    client = LocalClient(runtime)
    sandbox = await client.run()
    container = await client.start(sandbox)
    world.hanging = True
    stopping_it = asyncio.ensure_future(client.call("StopPodSandbox", pod_sandbox_id=sandbox))
    await eventually(lambda: "signal 9" in process.acts, "the signal")
    world.lose_shim(sandbox)
    async with asyncio.timeout(WAIT_LIMIT):
        await stopping_it
    assert world.running() == set()
    assert (await client.status(container)).state == cri.CONTAINER_EXITED
    await runtime.close()
