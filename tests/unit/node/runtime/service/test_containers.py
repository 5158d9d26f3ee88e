"""Containers: created, undone, changed."""

import json

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.pods import container_config, pod_config
from tests.support.node.local_client import LocalClient, code_of
from tests.support.node.local_parts import IMAGE, LocalWorld


async def test_a_container_that_fails_is_undone(client: LocalClient, world: LocalWorld) -> None:
    """As a sandbox."""
    sandbox = await client.run()
    world.refuse["create bundle"] = "disk is full"
    with pytest.raises(RpcError, match="disk is full"):
        await client.create(sandbox)
    assert (await client.call("ListContainers")).containers == []
    assert world.leaks() == {}
    world.refuse.clear()
    await client.create(sandbox)


async def test_resources_are_patched(client: LocalClient, world: LocalWorld) -> None:
    """What the message does not say stays; the configuration and the status follow."""
    container = await client.start(await client.run())
    before = (await client.status(container)).resources.linux
    patch = cri.LinuxContainerResources(cpuset_cpus="1")
    await client.call("UpdateContainerResources", container_id=container, linux=patch)
    after = (await client.status(container)).resources.linux
    assert (after.cpuset_cpus, after.cpu_shares) == ("1", before.cpu_shares)
    assert world.bundles[container]["linux"]["resources"] == {"cpu": {"cpus": "1"}}


async def test_an_update_that_is_refused_changes_nothing(client: LocalClient, world: LocalWorld) -> None:
    """The status shows the old ones, and so does the configuration."""
    container = await client.start(await client.run())
    world.refuse["oci update"] = "cpuset.cpus: invalid argument"
    patch = cri.LinuxContainerResources(cpuset_cpus="99")
    with pytest.raises(RpcError, match="invalid argument"):
        await client.call("UpdateContainerResources", container_id=container, linux=patch)
    assert (await client.status(container)).resources.linux.cpuset_cpus == ""
    assert world.bundles[container]["linux"]["resources"] == {"cpu": {"cpus": ""}}


async def test_containers_that_see_another_ones_processes(client: LocalClient, world: LocalWorld) -> None:
    """The target runs in the same sandbox; its process is what the namespace is taken from."""
    sandbox, elsewhere = await client.run(), await client.run("other")
    target = await client.start(sandbox)
    stranger = await client.start(elsewhere, pod="other")
    config = container_config(pod_config("web"), "debug")
    config.image.image = IMAGE
    options = config.linux.security_context.namespace_options
    options.pid, options.target_id = cri.TARGET, target
    answer = await client.call("CreateContainer", pod_sandbox_id=sandbox, config=config)
    pid = json.loads((await client.call("ContainerStatus", container_id=target, verbose=True)).info["info"])["pid"]
    assert world.bundles[answer.container_id]["target"] == pid
    config.metadata.attempt, options.target_id = 1, stranger
    assert await code_of(client.call("CreateContainer", pod_sandbox_id=sandbox, config=config)) is Code.INVALID_ARGUMENT
    options.target_id = answer.container_id
    assert (
        await code_of(client.call("CreateContainer", pod_sandbox_id=sandbox, config=config)) is Code.FAILED_PRECONDITION
    )


async def test_a_container_that_cannot_be_undone_is_kept(client: LocalClient, world: LocalWorld) -> None:
    """Until whoever asked for it removes it."""
    sandbox = await client.run()
    world.refuse.update({"create bundle": "disk is full", "remove bundle": "disk is gone"})
    assert await code_of(client.create(sandbox)) is Code.UNKNOWN
    (kept,) = (await client.call("ListContainers")).containers
    assert await code_of(client.call("StartContainer", container_id=kept.id)) is Code.FAILED_PRECONDITION
    assert await code_of(client.call("RemoveContainer", container_id=kept.id)) is Code.UNKNOWN
    world.refuse.clear()
    await client.call("RemoveContainer", container_id=kept.id)
    await client.create(sandbox)


async def test_updates_that_make_no_sense(client: LocalClient, world: LocalWorld) -> None:
    """Of what has ended, and for another system; before the start only the configuration changes."""
    sandbox = await client.run()
    waiting, ended = await client.create(sandbox), await client.start(sandbox, "ended")
    patch = cri.LinuxContainerResources(cpuset_cpus="1")
    await client.call("UpdateContainerResources", container_id=waiting, linux=patch)
    assert world.bundles[waiting]["linux"]["resources"] == {"cpu": {"cpus": "1"}}
    windows = client.call("UpdateContainerResources", container_id=waiting, windows={"cpu_count": 1})
    assert await code_of(windows) is Code.UNIMPLEMENTED
    world.end(ended)
    late = client.call("UpdateContainerResources", container_id=ended, linux=patch)
    assert await code_of(late) is Code.FAILED_PRECONDITION


async def test_numbers_that_make_no_sense_are_refused_first(client: LocalClient, world: LocalWorld) -> None:
    """Nothing is noted of them, neither in a record nor in a configuration."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    bundle = json.dumps(world.bundles[container])
    for patch in (cri.LinuxContainerResources(oom_score_adj=1001), cri.LinuxContainerResources(cpu_shares=-1)):
        update = client.call("UpdateContainerResources", container_id=container, linux=patch)
        assert await code_of(update) is Code.INVALID_ARGUMENT
    assert json.dumps(world.bundles[container]) == bundle
    assert (await client.status(container)).resources.linux.oom_score_adj != 1001
    config = container_config(pod_config("web"), "negative")
    config.image.image = IMAGE
    config.linux.resources.memory_swap_limit_in_bytes = -2
    world.refuse["create bundle"] = "it came too far"
    create = client.call("CreateContainer", pod_sandbox_id=sandbox, config=config)
    assert await code_of(create) is Code.INVALID_ARGUMENT


async def test_a_log_too_deep_in_its_folder_is_refused(client: LocalClient) -> None:
    """By CreateContainer, not by the start."""
    sandbox = await client.run()
    config = container_config(pod_config("web"), "deep")
    config.image.image, config.log_path = IMAGE, "a/" * 1000 + "x"
    create = client.call("CreateContainer", pod_sandbox_id=sandbox, config=config)
    assert await code_of(create) is Code.INVALID_ARGUMENT


async def test_an_update_without_room_for_its_record_is_taken_back(client: LocalClient, world: LocalWorld) -> None:
    """What the record says is what is in force."""
    container = await client.start(await client.run())
    world.full = True
    patch = cri.LinuxContainerResources(cpuset_cpus="1")
    with pytest.raises(RpcError, match="No space left"):
        await client.call("UpdateContainerResources", container_id=container, linux=patch)
    assert (await client.status(container)).resources.linux.cpuset_cpus == ""
    assert world.bundles[container]["linux"]["resources"] == {"cpu": {"cpus": ""}}
