"""Sandboxes: run, stopped, kept when they cannot be undone."""

import json

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.eventually import eventually
from tests.support.node.local_client import LocalClient, code_of
from tests.support.node.local_parts import LocalWorld, Process


async def test_a_stopped_sandbox(client: LocalClient, world: LocalWorld) -> None:
    """Its containers are killed, its network is given back, and nothing can be made in it."""
    sandbox = await client.run()
    container, waiting = await client.start(sandbox), await client.create(sandbox, "waiting")
    await client.call("StopPodSandbox", pod_sandbox_id=sandbox)
    pod = await client.sandbox_status(sandbox)
    assert (pod.state, pod.network.ip) == (cri.SANDBOX_NOTREADY, "")
    assert (await client.status(container)).exit_code == 137
    assert not any((world.shims, world.networks, world.attached))
    assert await code_of(client.create(sandbox, "more")) is Code.FAILED_PRECONDITION
    assert await code_of(client.call("StartContainer", container_id=waiting)) is Code.FAILED_PRECONDITION


async def test_names_are_reserved(client: LocalClient) -> None:
    """The same attempt twice is refused; another attempt is not; a removed one is free again."""
    sandbox = await client.run()
    assert await code_of(client.run()) is Code.ALREADY_EXISTS
    await client.run(attempt=1)
    container = await client.create(sandbox)
    assert await code_of(client.create(sandbox)) is Code.ALREADY_EXISTS
    await client.create(sandbox, attempt=1)
    await client.call("RemoveContainer", container_id=container)
    await client.create(sandbox)


@pytest.mark.parametrize("act", ["create sandbox files", "launch shim", "attach pause process", "network up"])
async def test_a_sandbox_that_fails_is_undone(client: LocalClient, world: LocalWorld, act: str) -> None:
    """The caller sees the words of whoever refused; nothing remains; the name is free."""
    world.refuse[act] = "no way"
    with pytest.raises(RpcError, match="no way") as caught:
        await client.run()
    assert caught.value.code is Code.UNKNOWN
    assert not world.files
    assert world.leaks() == {}
    world.refuse.clear()
    await client.run()


async def test_a_sandbox_that_cannot_be_undone_is_kept(client: LocalClient, world: LocalWorld) -> None:
    """It is NOTREADY, so whoever asked for it can try to remove it again."""
    world.refuse.update({"network up": "no addresses", "network down": "no way back"})
    assert await code_of(client.run()) is Code.UNKNOWN
    (item,) = (await client.call("ListPodSandbox")).items
    assert item.state == cri.SANDBOX_NOTREADY
    world.refuse.clear()
    await client.call("RemovePodSandbox", pod_sandbox_id=item.id)
    assert not world.files
    assert world.leaks() == {}


async def test_resources_of_a_pod_are_noted(client: LocalClient) -> None:
    """They are in the verbose answer."""
    sandbox = await client.run()
    resources = cri.LinuxContainerResources(cpu_shares=512)
    await client.call("UpdatePodSandboxResources", pod_sandbox_id=sandbox, resources=resources)
    answer = await client.call("PodSandboxStatus", pod_sandbox_id=sandbox, verbose=True)
    assert json.loads(answer.info["info"])["resources"] == {"cpu_shares": 512}


async def test_host_network_and_no_network(client: LocalClient, world: LocalWorld) -> None:
    """A pod in the node's network by its wish has no address; one that gets none of its own has the node's."""
    host = await client.run("host", host_network=True)
    world.pod_network = False
    shared = await client.run("shared")
    assert (await client.sandbox_status(host)).network.ip == ""
    assert (await client.sandbox_status(shared)).network.ip == "192.0.2.1"
    assert not world.networks


async def test_a_full_disk_keeps_nobody_from_making_room(client: LocalClient, world: LocalWorld) -> None:
    """Nothing is begun, but what is there can be stopped and removed."""
    sandbox, other = await client.run(), await client.run("other")
    container, second = await client.start(sandbox), await client.start(sandbox, "second")
    world.full = True
    assert await code_of(client.run("more")) is Code.UNKNOWN
    await client.call("StopContainer", container_id=container, timeout=1)
    await client.call("RemoveContainer", container_id=container)
    await client.call("StopPodSandbox", pod_sandbox_id=sandbox)
    assert (await client.sandbox_status(sandbox)).state == cri.SANDBOX_NOTREADY
    assert (await client.status(second)).state == cri.CONTAINER_EXITED
    await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    await client.call("RemovePodSandbox", pod_sandbox_id=other)
    assert (world.files, world.leaks()) == ({}, {})


async def test_a_shim_dies_on_a_full_disk(client: LocalClient, world: LocalWorld) -> None:
    """What is shown is so, on disk or not; the next process comes to the same."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    world.full = True
    world.lose_shim(sandbox)
    await eventually(lambda: not world.running(), "the end of what ran")
    assert (await client.sandbox_status(sandbox)).state == cri.SANDBOX_NOTREADY
    assert (await client.status(container)).state == cri.CONTAINER_EXITED
    again = Process(world).runtime()
    await again.start()
    assert (await LocalClient(again).sandbox_status(sandbox)).state == cri.SANDBOX_NOTREADY
    assert (await LocalClient(again).status(container)).state == cri.CONTAINER_EXITED
    await again.close()


async def test_a_holder_that_dies_at_once(client: LocalClient, world: LocalWorld) -> None:
    """Before it has a place of its own: there is no sandbox then, and nothing of it is left."""
    world.short_lived = True
    with pytest.raises(RpcError, match="holds its namespaces has died"):
        await client.run()
    assert (world.files, world.leaks()) == ({}, {})
