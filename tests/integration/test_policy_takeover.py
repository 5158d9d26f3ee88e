"""One relay takes over from another while containers run, and while some are being made."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.policy.cpu_watch import CpuWatch
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

# Packages 0-7 and 8-15, nodes of 4 CPUs, cores of two neighbours.
MACHINE = "n4c16"
STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
ALL = "0-15"
UPDATE = "UpdateContainerResources"


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Two relays, each with sockets and state of its own: what the second knows it has from the first, or asks."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    return tmp_path / "a", tmp_path / "b"


def memory_of(stack: PolicyStack) -> dict[str, object]:
    """What a successor gets, as it crosses the admin socket."""
    memory: dict[str, object] = json.loads(json.dumps(stack.parts.memory()))
    return memory


def own_cpus(stack: PolicyStack) -> list[str]:
    """What containers have alone, by the books."""
    return sorted(
        str(grant.exclusive) for grant in stack.tracker.allocations.policy.state.grants.values() if grant.exclusive
    )


async def test_a_successor_moves_nobody(folders: tuple[Path, Path]) -> None:
    """It knows everything the first one knew, without a file."""
    runtime = FakeRuntime()
    async with policy_stack(folders[0], machine(MACHINE), runtime=runtime, **STATIC) as old:
        names = [await old.run(f"db{n}", 1000 * (n + 1)) for n in range(3)]
        names.append(await old.run("web", 100, "burstable"))
        before = {one: old.cpus(one) for one in names}
        updates = runtime.calls[UPDATE]
        async with policy_stack(
            folders[1], machine(MACHINE), runtime=runtime, memory=memory_of(old), **STATIC
        ) as successor:
            old.parts.retire()
            assert {one: successor.cpus(one) for one in names} == before
            assert own_cpus(successor) == own_cpus(old)
            assert runtime.calls[UPDATE] == updates


async def test_cpus_of_a_create_in_flight_are_not_given_away(folders: tuple[Path, Path]) -> None:
    """The successor keeps them until the container is there, and then it is the container's."""
    watch = CpuWatch()
    runtime = FakeRuntime(observer=watch)
    async with policy_stack(folders[0], machine(MACHINE), runtime=runtime, **STATIC) as old:
        watch.follow(runtime, lambda: old.tracker)
        pod = await old.pod("db")
        stall = runtime.stall("CreateContainer")
        task = asyncio.create_task(old.create(pod, milli=2000))
        await stall.entered.wait()
        booked = own_cpus(old)
        async with policy_stack(
            folders[1], machine(MACHINE), runtime=runtime, memory=memory_of(old), **STATIC
        ) as successor:
            watch.follow(runtime, lambda: successor.tracker)
            old.parts.retire()
            assert own_cpus(successor) == booked
            (key,) = successor.tracker.allocations.by_key
            assert key in successor.tracker.creates
            for _ in range(10):  # it has patience: the old relay may take its time
                successor.tick()
            assert own_cpus(successor) == booked
            stall.release()
            made = await task
            other = await successor.run("other", 2000)
            assert [successor.cpus(made)] == booked
            assert successor.cpus(other) != successor.cpus(made)
            assert await successor.tracker.sync.resync()
            await eventually(lambda: key not in successor.tracker.creates, "the container to be known")
            assert successor.tracker.allocations.by_id[made] == key
            await successor.call(cri.RemoveContainerRequest(container_id=made))
            assert own_cpus(successor) == [successor.cpus(other)]
            assert watch.overlaps == []


async def test_a_create_in_flight_that_comes_to_nothing_is_given_up(folders: tuple[Path, Path]) -> None:
    """After as long as a kubelet waits for it."""
    runtime = FakeRuntime()
    async with policy_stack(folders[0], machine(MACHINE), runtime=runtime, **STATIC) as old:
        shared = await old.run("web", 100, "burstable")
        pod = await old.pod("db")
        stall = runtime.stall("CreateContainer")
        task = asyncio.create_task(old.create(pod, milli=2000))
        await stall.entered.wait()
        async with policy_stack(
            folders[1], machine(MACHINE), runtime=runtime, memory=memory_of(old), **STATIC
        ) as successor:
            old.parts.retire()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            for _ in range(121):
                successor.reconciler.tick()
            assert len(own_cpus(successor)) == 1
            successor.reconciler.tick()
            assert not own_cpus(successor)
            await successor.eventually_cpus(shared, ALL)


async def test_retired_books_write_nothing(folders: tuple[Path, Path]) -> None:
    """Whatever still passes the old relay: it decides nothing, and nobody is updated by it."""
    runtime = FakeRuntime()
    async with policy_stack(folders[0], machine(MACHINE), runtime=runtime, **STATIC) as old:
        shared = await old.run("web", 100, "burstable")
        own = await old.run("db", 2000)
        has = old.cpus(shared)
        assert await old.policy.checkpoint.flush()
        state = (folders[0] / "state/policy-state.json").read_bytes()
        old.parts.retire()
        updates = runtime.calls[UPDATE]
        pod = await old.pod("late")
        late = await old.create(pod, milli=2000)
        assert old.cpus(late) == "0"  # which nobody is given alone, whatever the successor has decided by now
        await old.stop(own)
        old.tick()
        assert runtime.calls[UPDATE] == updates
        assert old.cpus(shared) == has
        assert (folders[0] / "state/policy-state.json").read_bytes() == state


async def test_a_container_made_by_a_retired_relay_gets_its_cpus_from_the_successor(
    folders: tuple[Path, Path],
) -> None:
    """It came around the new books; a list shows it."""
    runtime = FakeRuntime()
    async with policy_stack(folders[0], machine(MACHINE), runtime=runtime, **STATIC) as old:
        shared = await old.run("web", 100, "burstable")
        async with policy_stack(
            folders[1], machine(MACHINE), runtime=runtime, memory=memory_of(old), **STATIC
        ) as successor:
            old.parts.retire()
            late = await old.create(await old.pod("late"), milli=2000)
            assert await successor.tracker.sync.resync()
            await eventually(lambda: len(CpuSet.parse(successor.cpus(late))) == 2, "CPUs of its own")
            assert own_cpus(successor) == [successor.cpus(late)]
            rest = CpuSet.parse(ALL) - CpuSet.parse(successor.cpus(late))
            await successor.eventually_cpus(shared, str(rest))


async def test_an_update_on_its_way_when_a_relay_retires_is_its_last(folders: tuple[Path, Path]) -> None:
    """It is not followed by another with a newer wish."""
    runtime = FakeRuntime()
    async with policy_stack(folders[0], machine(MACHINE), runtime=runtime, **STATIC) as old:
        await old.run("web", 100, "burstable")
        own = await old.run("db", 2000)
        stall = runtime.stall(UPDATE)
        await old.stop(own)
        await stall.entered.wait()
        updates = runtime.calls[UPDATE]
        await old.call(cri.RemoveContainerRequest(container_id=own))
        old.parts.retire()
        stall.release()
        await eventually(lambda: all(one.state == "idle" for one in old.tracker.updaters.by_key.values()), "the update")
        assert runtime.calls[UPDATE] == updates
