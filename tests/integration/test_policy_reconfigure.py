"""Another configuration or another machine while containers run: as a whole or not at all, and nobody overlaps."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static.options import StaticOptions
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from interpose.net.grpc.status import Code, RpcError
from interpose.resmgr.config.configuration import Configuration
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.runtime.state import FakeContainer
from tests.support.policy.cpu_watch import CpuWatch
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack
from tests.support.policy.sysfs_tree import write_sysfs

# Packages 0-7 and 8-15, nodes of 4 CPUs, cores of two neighbours; CPU 0 is never given to anybody alone.
MACHINE = "n4c16"
STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
ALL = CpuSet.parse("0-15")
UPDATE = "UpdateContainerResources"
DOCUMENT = "policy: {Active: %s, ReservedResources: {CPU: cpuset:%s}}\n"


class Watching(CpuWatch):
    """A kernel that does not take updates of some containers, or none that hold certain CPUs; it is watched."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[str] = set()

    def updating(self, container: FakeContainer, patch: cri.LinuxContainerResources) -> None:
        """No, for some."""
        if container.id in self.refused:
            raise RpcError(Code.INVALID_ARGUMENT, "the kernel says no")
        super().updating(container, patch)


@asynccontextmanager
async def watched(folder: Path, **settings: Any) -> AsyncIterator[tuple[PolicyStack, Watching]]:
    """A relay whose runtime is watched; nobody may share what is somebody's own."""
    watch = Watching()
    runtime = FakeRuntime(observer=watch)
    async with policy_stack(folder, machine(MACHINE), runtime=runtime, **(settings or STATIC)) as stack:
        watch.follow(runtime, lambda: stack.tracker)
        yield stack, watch
        watch.look()
        assert watch.overlaps == []


def static(reserved: str = "0", available: str = "", **options: bool) -> Configuration:
    """A configuration with policy static."""
    return Configuration(
        policy="static",
        reserved=CpuSet.parse(reserved),
        available=CpuSet.parse(available) if available else None,
        options=StaticOptions(**options),
        origin="test",
    )


def own_cpus(stack: PolicyStack) -> list[str]:
    """What containers have alone, by the books."""
    return sorted(
        str(grant.exclusive) for grant in stack.tracker.allocations.policy.state.grants.values() if grant.exclusive
    )


def without(topology: Topology, cpus: str) -> Topology:
    """The same machine with some CPUs unplugged."""
    gone = CpuSet.parse(cpus)
    return replace(
        topology,
        cpus=tuple(one for one in topology.cpus if one.id not in gone),
        nodes=tuple(replace(node, cpus=node.cpus - gone) for node in topology.nodes),
        offline=gone,
    )


async def looked(stack: PolicyStack, online: str) -> None:
    """Let time pass until the relay has noticed which CPUs there are."""

    def noticed() -> bool:
        stack.tick()
        return str(stack.tracker.topology.online) == online

    await eventually(noticed, f"CPUs {online}")


# -- accepted


async def test_a_configuration_is_in_force_when_the_change_returns(tmp_path: Path) -> None:
    """Who has to move has moved, who need not has not, and the others have the rest."""
    async with watched(tmp_path) as (stack, _):
        first, second = await stack.run("first", 2000), await stack.run("second", 2000)
        shared = await stack.run("web", 100, "burstable")
        kept, lost = stack.cpus(second), stack.cpus(first)
        assert (lost, kept) == ("2-3", "4-5")
        await stack.reconfigurer.apply(static("0-3"))
        assert stack.cpus(second) == kept
        assert not CpuSet.parse(stack.cpus(first)) & CpuSet.parse("0-3")
        assert sorted((stack.cpus(first), kept)) == own_cpus(stack)
        rest = ALL - CpuSet.parse(stack.cpus(first)) - CpuSet.parse(kept)
        assert stack.cpus(shared) == str(rest)


async def test_cpus_that_one_leaves_are_taken_by_others_after_that(tmp_path: Path) -> None:
    """The one that moves keeps nothing of what it had, so it cannot shrink first: the others wait for it."""
    async with watched(tmp_path) as (stack, watch):
        names = [await stack.run(f"db{n}", 2000) for n in range(4)]
        shared = [await stack.run(f"web{n}", 100, "burstable") for n in range(10)]
        looks = watch.looks
        await stack.reconfigurer.apply(static("0-7"))
        assert watch.looks > looks
        assert all(CpuSet.parse(stack.cpus(one)) <= CpuSet.parse("8-15") for one in names)
        assert len({stack.cpus(one) for one in shared}) == 1


async def test_what_comes_and_goes_meanwhile_is_in_the_new_books(tmp_path: Path) -> None:
    """A change takes as long as the runtime does; calls do not wait for it."""
    async with watched(tmp_path) as (stack, _):
        going = await stack.run("going", 2000)
        await stack.run("web", 100, "burstable")
        pod = await stack.pod("coming")
        stall = stack.runtime.stall(UPDATE)
        change = asyncio.create_task(stack.reconfigurer.apply(static("0-3")))
        await stall.entered.wait()
        create = asyncio.create_task(stack.create(pod, milli=4000))
        await eventually(lambda: len(own_cpus(stack)) == 2, "the create to be booked")
        stop = asyncio.create_task(stack.stop(going))
        await eventually(lambda: len(own_cpus(stack)) == 1, "the other one to be gone")
        stall.release()
        await change
        await stop
        coming = await create
        assert own_cpus(stack) == [stack.cpus(coming)]
        assert not CpuSet.parse(stack.cpus(coming)) & CpuSet.parse("0-3")
        await eventually(
            lambda: not stack.tracker.updaters.schedule(tuple(stack.tracker.allocations.by_key)), "all to be in step"
        )


# -- rejected


async def test_a_configuration_is_rejected_with_all_reasons(tmp_path: Path) -> None:
    """Every container that would lose its place is named; nothing has changed."""
    async with watched(tmp_path) as (stack, _):
        for name in ("first", "second"):
            await stack.run(name, 6000)
        before = (own_cpus(stack), stack.runtime.calls[UPDATE], stack.tracker.allocations)
        with pytest.raises(ConfigError) as caught:
            await stack.reconfigurer.apply(static("0-11"))
        assert [one.split(":")[0] for one in caught.value.problems] == [
            "container default/first/app",
            "container default/second/app",
        ]
        assert (own_cpus(stack), stack.runtime.calls[UPDATE], stack.tracker.allocations) == before
        assert stack.tracker.configuration.reserved == CpuSet.parse("0")


async def test_a_configuration_that_cannot_work_here_is_rejected(tmp_path: Path) -> None:
    """By the policy itself."""
    async with watched(tmp_path) as (stack, _):
        with pytest.raises(ConfigError, match="do not exist on this machine"):
            await stack.reconfigurer.apply(static("99"))
        with pytest.raises(ConfigError, match="cannot both be true"):
            await stack.reconfigurer.apply(static(full_pcpus_only=True, distribute_cpus_across_cores=True))
        assert stack.tracker.configuration.reserved == CpuSet.parse("0")


async def test_a_change_the_runtime_refuses_is_taken_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """One container cannot be updated: all of them are where they were."""
    async with watched(tmp_path) as (stack, watch):
        own = [await stack.run(f"db{n}", 2000) for n in range(3)]
        shared = await stack.run("web", 100, "burstable")
        before = {one: stack.cpus(one) for one in (*own, shared)}
        watch.refused.add(own[0])
        watch.excused.add(own[0])
        with caplog.at_level(logging.CRITICAL, "interpose"), pytest.raises(ConfigError) as caught:
            await stack.reconfigurer.apply(static("0-3"))
        assert caught.value.problems == [
            "container default/db0/app could not be updated: INVALID_ARGUMENT: the kernel says no"
        ]
        watch.refused.clear()
        assert stack.tracker.configuration.reserved == CpuSet.parse("0")
        for one, cpus in before.items():
            await stack.eventually_cpus(one, cpus)
        watch.excused.clear()


async def test_one_that_failed_before_does_not_stop_a_change(tmp_path: Path) -> None:
    """It is tried again and again anyway; the rest of the node goes on."""
    async with watched(tmp_path) as (stack, watch):
        shared = await stack.run("web", 100, "burstable")
        watch.refused.add(shared)
        watch.excused.add(shared)
        own = await stack.run("db", 2000)
        await stack.reconfigurer.apply(static("0-3"))
        assert not CpuSet.parse(stack.cpus(own)) & CpuSet.parse("0-3")
        watch.refused.clear()
        await stack.eventually_cpus(shared, str(ALL - CpuSet.parse(stack.cpus(own))))
        watch.excused.clear()


async def test_one_that_ended_meanwhile_does_not_stop_a_change(tmp_path: Path) -> None:
    """The runtime refuses to update what does not run; that is no reason."""
    async with watched(tmp_path) as (stack, watch):
        ended = await stack.run("ended", 2000)
        own = await stack.run("db", 2000)
        watch.refused.add(ended)
        stack.runtime.exit_container(ended, 0)
        await stack.reconfigurer.apply(static("0-3"))
        assert own_cpus(stack) == [stack.cpus(own)]


# -- with and without a policy


async def test_from_none_to_static_and_back_by_a_file(tmp_path: Path) -> None:
    """Containers get CPUs of their own, and have all of them again afterwards."""
    file = tmp_path / "policy.cfg"
    file.write_text(DOCUMENT % ("none", "0"))
    async with watched(tmp_path, config=str(file)) as (stack, watch):
        shared, own = await stack.run("web", 100, "burstable"), await stack.run("db", 2000)
        assert (stack.cpus(shared), stack.cpus(own)) == ("", "")
        watch.excused |= {shared, own}  # as long as they have everything
        file.write_text(DOCUMENT % ("static", "0"))
        await eventually(lambda: own_cpus(stack) and stack.cpus(own) == own_cpus(stack)[0], "CPUs of its own")
        await stack.eventually_cpus(shared, str(ALL - CpuSet.parse(stack.cpus(own))))
        watch.excused.clear()
        another = await stack.run("mq", 2000)
        assert own_cpus(stack) == sorted((stack.cpus(own), stack.cpus(another)))
        file.write_text("policy: {Active: static, ReservedResources: {CPU: cpuset:99}}\n")
        changing = stack.policy._applier
        assert changing is not None
        await eventually(lambda: changing.problems, "the file to be refused")
        assert len(own_cpus(stack)) == 2
        file.write_text(DOCUMENT % ("none", "0"))
        for one in (shared, own, another):
            await stack.eventually_cpus(one, str(ALL))
        assert stack.cpus(await stack.run("new", 2000)) == ""


# -- another machine


async def test_unplugged_cpus_move_their_containers_and_come_back(tmp_path: Path) -> None:
    """Only those move that have to; with the CPUs back, the shared pool has them."""
    everything = machine(MACHINE)
    async with watched(tmp_path) as (stack, _):
        own, other = await stack.run("db", 2000), await stack.run("mq", 2000)
        shared = await stack.run("web", 100, "burstable")
        assert (stack.cpus(own), stack.cpus(other)) == ("2-3", "4-5")
        write_sysfs(without(everything, "2-3,15"), tmp_path / "host")
        await looked(stack, "0-1,4-14")
        await eventually(lambda: stack.cpus(own) != "2-3", "the container to move")
        assert stack.cpus(other) == "4-5"
        moved = CpuSet.parse(stack.cpus(own))
        await stack.eventually_cpus(shared, str(CpuSet.parse("0-1,6-14") - moved))
        write_sysfs(everything, tmp_path / "host")
        await looked(stack, "0-15")
        await stack.eventually_cpus(shared, str(ALL - CpuSet.parse("4-5") - moved))
        assert stack.cpus(own) == str(moved)


async def test_containers_without_a_place_get_one_when_cpus_are_back(tmp_path: Path) -> None:
    """Until then they share, and show as problems; nobody is asked whether the machine may change."""
    everything = machine(MACHINE)
    async with watched(tmp_path) as (stack, _):
        first, second = await stack.run("first", 6000), await stack.run("second", 6000)
        write_sysfs(without(everything, "8-15"), tmp_path / "host")
        await looked(stack, "0-7")
        (homeless,) = stack.tracker.allocations.without_place
        fallback = str(stack.tracker.allocations.policy.fallback)
        lost = stack.tracker.allocations.by_key[homeless].id
        await stack.eventually_cpus(lost, fallback)
        write_sysfs(everything, tmp_path / "host")
        await looked(stack, "0-15")
        await eventually(lambda: len(own_cpus(stack)) == 2, "a place for both")
        both = (first, second)
        await eventually(lambda: all(len(CpuSet.parse(stack.cpus(one))) == 6 for one in both), "CPUs of their own")


async def test_a_machine_that_cannot_be_read_is_as_it_was(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Told once; when it can be read again it counts."""
    everything = machine(MACHINE)
    async with watched(tmp_path) as (stack, _):
        own = await stack.run("db", 2000)
        online = tmp_path / "host/sys/devices/system/cpu/online"
        online.write_text("nonsense\n")

        def told() -> int:
            stack.tick()
            return sum("policy cannot adapt" in one.getMessage() for one in caplog.records)

        await eventually(told, "the trouble to be told")
        looking = stack.policy._ticks
        await eventually(lambda: told() and stack.policy._ticks > looking + 20, "more looks")
        assert told() == 1
        assert stack.cpus(own) == "2-3"
        write_sysfs(without(everything, "15"), tmp_path / "host")
        await looked(stack, "0-14")
        assert stack.cpus(own) == "2-3"
