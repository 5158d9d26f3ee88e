"""The runtime is killed at every act of a pod's life, before the act is done and just after: the next start repairs."""

from collections.abc import Awaitable, Callable

import pytest

from interpose.cri.messages import cri
from interpose.net.grpc.status import RpcError
from interpose.node.runtime.service.core import LOST_CODE
from interpose.node.runtime.state.records import SandboxRecord
from interpose.testing.eventually import eventually
from tests.support.node.local_client import LocalClient
from tests.support.node.local_parts import KilledError, LocalWorld, Process

Story = Callable[[LocalClient, LocalWorld], Awaitable[None]]


async def run_a_pod(client: LocalClient, _world: LocalWorld) -> None:
    """Sandbox, two containers, one of them started."""
    sandbox = await client.run()
    await client.start(sandbox)
    await client.create(sandbox, "other")


async def stop_and_remove(client: LocalClient, world: LocalWorld) -> None:
    """As a kubelet does it."""
    sandbox = await client.run()
    first, second = await client.start(sandbox), await client.start(sandbox, "second")
    await client.call("StopContainer", container_id=first, timeout=5)
    world.end(second, 3)
    await client.call("StopPodSandbox", pod_sandbox_id=sandbox)
    await client.call("RemoveContainer", container_id=first)
    await client.call("RemoveContainer", container_id=second)
    await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)


async def remove_by_force(client: LocalClient, _world: LocalWorld) -> None:
    """Everything at once, while it runs."""
    sandbox = await client.run()
    await client.start(sandbox)
    await client.create(sandbox, "other")
    await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)


async def fail_and_try_again(client: LocalClient, world: LocalWorld) -> None:
    """Refusals on the way, each undone."""
    world.refuse["network up"] = "no addresses"
    with pytest.raises(RpcError):
        await client.run()
    world.refuse.clear()
    sandbox = await client.run()
    world.refuse["create bundle"] = "disk is full"
    with pytest.raises(RpcError):
        await client.create(sandbox)
    world.refuse.clear()
    container = await client.create(sandbox)
    world.refuse["run"] = "no such program"
    with pytest.raises(RpcError):
        await client.call("StartContainer", container_id=container)
    world.refuse.clear()


async def lose_the_shim(client: LocalClient, world: LocalWorld) -> None:
    """The shim goes, and what it had is cleared up."""
    sandbox = await client.run()
    await client.start(sandbox)
    world.lose_shim(sandbox)
    await client.call("StopPodSandbox", pod_sandbox_id=sandbox)
    await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)


async def change_resources(client: LocalClient, _world: LocalWorld) -> None:
    """A patch in the middle."""
    sandbox = await client.run()
    container = await client.start(sandbox)
    patch = cri.LinuxContainerResources(cpuset_cpus="1")
    await client.call("UpdateContainerResources", container_id=container, linux=patch)


STORIES = [run_a_pod, stop_and_remove, remove_by_force, fail_and_try_again, lose_the_shim, change_resources]


async def live(world: LocalWorld, story: Story, *, dies_at: int = 0, after: bool = False) -> Process:
    """A process that lives a story, as far as it gets."""
    process = Process(world, dies_at=dies_at, after=after)
    runtime = process.runtime()
    try:
        await runtime.start()
        await story(LocalClient(runtime), world)
        await runtime.close()
    except KilledError:
        process.die()
    except RpcError:
        assert process.dead, "only a killed process fails"
    world.refuse.clear()
    return process


async def check(world: LocalWorld) -> None:
    """A new process on this world: nothing leaked, nothing half made, and what is there can be used and removed."""
    process = Process(world)
    runtime = process.runtime()
    client = LocalClient(runtime)
    await runtime.start()
    assert world.leaks() == {}
    sandboxes = (await client.call("ListPodSandbox")).items
    for container in (await client.call("ListContainers")).containers:
        status = await client.status(container.id)
        assert (status.state == cri.CONTAINER_RUNNING) == (container.id in world.running())
        assert status.state != cri.CONTAINER_UNKNOWN
        assert container.id in world.bundles
        if status.state == cri.CONTAINER_EXITED:
            assert status.exit_code in (3, 128, 137, 143, LOST_CODE)
            assert status.finished_at > 0
    for sandbox in sandboxes:
        if sandbox.state == cri.SANDBOX_READY:
            assert all(
                sandbox.id in there for there in (world.shims, world.sandbox_files, world.attached, world.networks)
            )
            again = await client.create(sandbox.id, "again")
            await client.call("StartContainer", container_id=again)
        await client.call("RemovePodSandbox", pod_sandbox_id=sandbox.id)
    await client.run()  # the name is free in any case
    for sandbox in (await client.call("ListPodSandbox")).items:
        await client.call("RemovePodSandbox", pod_sandbox_id=sandbox.id)
    await eventually(lambda: not world.files, "all records to be gone")
    await runtime.close()
    assert world.leaks() == {}
    left = (world.shims, world.sandbox_files, world.attached, world.networks, world.bundles, world.known_to_oci)
    assert not any(left)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("story", STORIES, ids=lambda one: one.__name__)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_killed_at_every_act(story: Story, after: bool) -> None:
    """For every act of a story: the process dies there, another one starts, and the world is in order."""
    whole = await live(LocalWorld(), story)
    assert len(whole.acts) > 5
    for number in range(1, len(whole.acts) + 1):
        world = LocalWorld()
        await live(world, story, dies_at=number, after=after)
        await check(world)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_killed_at_every_act_of_the_repair(after: bool) -> None:
    """The process that repairs is killed as well, at every act of its own, and the third one repairs."""

    async def nothing(_client: LocalClient, _world: LocalWorld) -> None:
        """Only the start."""

    for first in range(3, 40, 3):
        for second in range(1, 12):
            world = LocalWorld()
            await live(world, remove_by_force, dies_at=first)
            repaired = await live(world, nothing, dies_at=second, after=after)
            await check(world)
            if not repaired.dead:
                break


async def test_containers_are_found_again() -> None:
    """A new process knows what runs, hears its end, and has kept what it was asked for."""
    world = LocalWorld()
    first = Process(world)
    runtime = first.runtime()
    await runtime.start()
    client = LocalClient(runtime)
    sandbox = await client.run()
    container, ended = await client.start(sandbox), await client.start(sandbox, "short")
    before = await client.status(container)
    first.die()
    world.end(ended, 3)
    runtime = Process(world).runtime()
    await runtime.start()
    client = LocalClient(runtime)
    assert await client.status(container) == before
    assert (await client.status(ended)).exit_code == 3
    assert (await client.sandbox_status(sandbox)).state == cri.SANDBOX_READY
    world.end(container, 7)
    assert (await client.status(container)).exit_code == 7
    await runtime.close()


async def test_networks_that_are_as_they_should_be_are_left_alone() -> None:
    """Only where something was under way its plugins are ended: of a pod that is well nothing is."""
    world = LocalWorld()
    first = Process(world)
    runtime = first.runtime()
    await runtime.start()
    client = LocalClient(runtime)
    good, bad = await client.run("good"), await client.run("bad")
    first.die()
    world.files = {
        key: data.replace(b'"ready"', b'"stopped"') if key[1] == bad else data for key, data in world.files.items()
    }
    runtime = Process(world).runtime()
    await runtime.start()
    assert world.ready_networks == [[], [good]]
    await runtime.close()


async def test_records_that_cannot_be_read_fail_the_start() -> None:
    """Before any orphan is removed."""
    world = LocalWorld()
    first = Process(world)
    runtime = first.runtime()
    await runtime.start()
    container = await LocalClient(runtime).start(await LocalClient(runtime).run())
    first.die()
    world.unreadable = "Input/output error"
    with pytest.raises(OSError, match="Input/output error"):
        await Process(world).runtime().start()
    assert world.running() == {container}
    world.unreadable = ""
    runtime = Process(world).runtime()
    await runtime.start()
    assert (await LocalClient(runtime).status(container)).state == cri.CONTAINER_RUNNING
    await runtime.close()


async def test_after_a_restart_of_the_machine() -> None:
    """Sandboxes are NOTREADY, what ran has ended in an unknown way, what had ended is as it was."""
    world = LocalWorld()
    first = Process(world)
    runtime = first.runtime()
    await runtime.start()
    client = LocalClient(runtime)
    sandbox = await client.run()
    running, ended = await client.start(sandbox), await client.start(sandbox, "short")
    world.end(ended, 3)
    await runtime.close()
    first.die()
    world.reboot()
    runtime = Process(world).runtime()
    await runtime.start()
    client = LocalClient(runtime)
    status = await client.status(running)
    assert (status.state, status.exit_code, status.reason) == (cri.CONTAINER_EXITED, 255, "Unknown")
    assert (await client.status(ended)).exit_code == 3
    assert (await client.sandbox_status(sandbox)).state == cri.SANDBOX_NOTREADY
    await client.call("StopPodSandbox", pod_sandbox_id=sandbox)
    assert not world.networks
    await client.call("RemovePodSandbox", pod_sandbox_id=sandbox)
    assert not world.files
    await runtime.close()


async def test_what_no_record_knows_is_swept_away() -> None:
    """Leftovers of a record that could not be read."""
    world = LocalWorld()
    runtime = Process(world).runtime()
    await runtime.start()
    await run_a_pod(LocalClient(runtime), world)
    await runtime.close()
    world.files.clear()
    runtime = Process(world).runtime()
    await runtime.start()
    assert not any((world.sandbox_files, world.bundles, world.networks, world.shims, world.known_to_oci))
    await runtime.close()


async def test_a_start_that_is_still_under_way() -> None:
    """The process before us asked for it: what comes of it is waited for."""
    world = LocalWorld()
    first = Process(world)
    runtime = first.runtime()
    await runtime.start()
    client = LocalClient(runtime)
    container = await client.start(await client.run())
    first.die()
    world.half_started.add(container)
    runtime = Process(world).runtime()
    await runtime.start()
    assert (await LocalClient(runtime).status(container)).state == cri.CONTAINER_RUNNING
    assert not world.half_started
    await runtime.close()


async def test_a_container_without_its_sandbox_is_removed() -> None:
    """Nobody could ever ask for it."""
    world = LocalWorld()
    runtime = Process(world).runtime()
    await runtime.start()
    sandbox = await LocalClient(runtime).run()
    await LocalClient(runtime).start(sandbox)
    await runtime.close()
    del world.files[SandboxRecord, sandbox]
    runtime = Process(world).runtime()
    await runtime.start()
    assert not world.files
    assert not any((world.bundles, world.known_to_oci, world.running()))
    await runtime.close()


async def test_what_cannot_be_repaired_does_not_keep_us_from_starting() -> None:
    """It is shown, and can be removed later; everything else is in order."""
    world = LocalWorld()
    first = Process(world)
    runtime = first.runtime()
    await runtime.start()
    client = LocalClient(runtime)
    good, bad = await client.run("good"), await client.run("bad")
    await client.call("StopContainer", container_id="none", timeout=0)
    first.die()
    world.lose_shim(bad)
    world.files = {
        key: data.replace(b'"ready"', b'"removing"') if key[1] == bad else data for key, data in world.files.items()
    }
    world.refuse["remove sandbox files"] = "device or resource busy"
    runtime = Process(world).runtime()
    await runtime.start()
    client = LocalClient(runtime)
    assert (await client.sandbox_status(good)).state == cri.SANDBOX_READY
    assert (await client.sandbox_status(bad)).state == cri.SANDBOX_NOTREADY
    world.refuse.clear()
    await client.call("RemovePodSandbox", pod_sandbox_id=bad)
    assert world.leaks() == {}
    await runtime.close()


async def test_a_shim_that_nothing_else_knows_is_ended(world: LocalWorld) -> None:
    """Neither a record nor files: only the process is left."""
    before = Process(world)
    runtime = before.runtime()
    await runtime.start()
    await LocalClient(runtime).run()
    before.die()
    world.files.clear()
    world.sandbox_files.clear()
    world.attached.clear()
    again = Process(world).runtime()
    await again.start()
    assert world.leaks() == {}
    await again.close()
    await runtime.close()
