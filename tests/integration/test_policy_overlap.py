"""Things that come at the wrong time: while a configuration changes or is taken back, and after the end of a relay."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cli.relay.policy import policy_routes
from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from interpose.net.grpc.status import Code, RpcError
from interpose.net.httpd.routes import ServerRequest, ServerResponse
from interpose.resmgr import service as policy_service
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.runtime.state import FakeContainer
from tests.support.policy.cpu_watch import CpuWatch
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack
from tests.support.policy.sysfs_tree import write_sysfs

MACHINE = machine("n4c16")
ALL = MACHINE.online
UPDATE = "UpdateContainerResources"


class Refusing(CpuWatch):
    """A kernel that does not take one container off its CPUs."""

    def __init__(self) -> None:
        super().__init__()
        self.refused = ""

    def updating(self, container: FakeContainer, patch: cri.LinuxContainerResources) -> None:
        """No, for one."""
        if container.id == self.refused:
            raise RpcError(Code.INVALID_ARGUMENT, "the kernel says no")
        super().updating(container, patch)


@asynccontextmanager
async def a_node(folder: Path) -> AsyncIterator[tuple[PolicyStack, Refusing]]:
    """A relay with what an agent sent once: CPU 0 is reserved. Nobody may share what is somebody's own."""
    watch = Refusing()
    runtime = FakeRuntime(observer=watch)
    async with policy_stack(folder, MACHINE, runtime=runtime, config_socket=str(folder / "c.sock")) as stack:
        await send(stack, "0")
        watch.follow(runtime, lambda: stack.tracker)
        yield stack, watch
        watch.look()
        assert watch.overlaps == []


async def send(stack: PolicyStack, reserved: str) -> None:
    """The agent sends another configuration."""
    assert stack.policy._applier is not None
    document = f"Active: static\nReservedResources: {{CPU: 'cpuset:{reserved}'}}\n"
    await stack.policy._applier.apply_agent_config({"policy": document}, "n1")


def without(topology: Topology, cpus: str) -> Topology:
    """The same machine with some CPUs unplugged."""
    gone = CpuSet.parse(cpus)
    return replace(
        topology,
        cpus=tuple(one for one in topology.cpus if one.id not in gone),
        nodes=tuple(replace(node, cpus=node.cpus - gone) for node in topology.nodes),
        offline=gone,
    )


async def in_step(stack: PolicyStack) -> None:
    """Wait until everybody has at the runtime what the books say."""

    def agreed() -> bool:
        allocations = stack.tracker.allocations
        return all(stack.cpus(one) == str(allocations.assignment(key).cpus) for one, key in allocations.by_id.items())

    await eventually(agreed, "books and runtime to agree")


async def standing(stack: PolicyStack, change: Callable[[], Any]) -> tuple[Any, "asyncio.Task[Any]"]:
    """Begin a change that stands still as soon as it moves a container."""
    stall = stack.runtime.stall(UPDATE)
    task = asyncio.create_task(change(), name="change")
    await stall.entered.wait()
    return stall, task


def _reserved(stack: PolicyStack, cpus: str) -> bool:
    return stack.tracker.configuration.reserved == CpuSet.parse(cpus)


async def test_another_configuration_while_one_is_taken_back(tmp_path: Path) -> None:
    """It waits for its turn: the first one is refused with its reason, the second one is in force as a whole."""
    async with a_node(tmp_path) as (stack, watch):
        first, second = await stack.run("first", 2000), await stack.run("second", 2000)
        shared = await stack.run("web", 100, "burstable")
        assert (stack.cpus(first), stack.cpus(second)) == ("2-3", "4-5")
        watch.refused = first
        watch.excused.add(first)
        stack.runtime.delay(UPDATE, 0.1)  # going there and back takes a while
        refused = asyncio.create_task(send(stack, "0-3"), name="refused change")
        for reserved in ("0-3", "0"):
            await eventually(partial(_reserved, stack, reserved), f"CPUs {reserved} to be reserved")
        assert not refused.done()
        watch.refused = ""
        other = asyncio.create_task(send(stack, "0,4-5"), name="another change")
        with pytest.raises(ConfigError, match="the kernel says no"):
            await refused
        await other
        assert stack.tracker.configuration.reserved == CpuSet.parse("0,4-5")
        await in_step(stack)
        watch.excused.clear()
        assert stack.cpus(first) == "2-3"
        assert not CpuSet.parse(stack.cpus(second)) & CpuSet.parse("0,2-5")
        assert CpuSet.parse(stack.cpus(shared)) == ALL - CpuSet.parse(stack.cpus(first)) - CpuSet.parse(
            stack.cpus(second)
        )
    async with policy_stack(tmp_path, None, runtime=stack.runtime, config_socket=str(tmp_path / "c.sock")) as stack:
        assert stack.tracker.configuration.reserved == CpuSet.parse("0,4-5")


async def test_cpus_that_go_while_a_configuration_changes(tmp_path: Path) -> None:
    """Both count in the end, whichever comes first; nobody is left on CPUs that are not there."""
    async with a_node(tmp_path) as (stack, _):
        first, second = await stack.run("first", 2000), await stack.run("second", 2000)
        await stack.run("web", 100, "burstable")
        stall, change = await standing(stack, lambda: send(stack, "0-3"))
        write_sysfs(without(MACHINE, "4-5,15"), tmp_path / "host")
        for _tick in range(10):
            stack.tick()
        stall.release()
        await change

        def followed() -> bool:
            stack.tick()
            return str(stack.tracker.topology.online) == "0-3,6-14"

        await eventually(followed, "the CPUs to be noticed")
        await in_step(stack)
        assert stack.tracker.configuration.reserved == CpuSet.parse("0-3")
        own = [CpuSet.parse(stack.cpus(one)) for one in (first, second)]
        assert [len(cpus) for cpus in own] == [2, 2]
        assert CpuSet.union(own) <= CpuSet.parse("6-14")


async def test_cpus_that_go_while_a_configuration_is_taken_back(tmp_path: Path) -> None:
    """The configuration of before, on the machine of now."""
    async with a_node(tmp_path) as (stack, watch):
        first, second = await stack.run("first", 2000), await stack.run("second", 2000)
        watch.refused = first
        watch.excused.add(first)
        stall, change = await standing(stack, lambda: send(stack, "0-3"))
        write_sysfs(without(MACHINE, "2-3"), tmp_path / "host")
        for _tick in range(10):
            stack.tick()
        stall.release()
        with pytest.raises(ConfigError, match="the kernel says no"):
            await change
        watch.refused = ""

        def followed() -> bool:
            stack.tick()
            return str(stack.tracker.topology.online) == "0-1,4-15"

        await eventually(followed, "the CPUs to be noticed")
        await in_step(stack)
        watch.excused.clear()
        assert stack.tracker.configuration.reserved == CpuSet.parse("0")
        assert stack.cpus(second) == "4-5"
        assert len(CpuSet.parse(stack.cpus(first)) & CpuSet.parse("0-1,4-15")) == 2


async def test_what_a_relay_sent_before_its_end_may_come_late(tmp_path: Path) -> None:
    """After the next one has looked at everything: it looks again."""
    settings: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0", "runtime": FakeRuntime()}
    async with policy_stack(tmp_path, MACHINE, **settings) as stack:
        shared, own = await stack.run("web", 100, "burstable"), await stack.run("db", 2000)
    async with policy_stack(tmp_path, None, **settings) as stack:
        stack.runtime.containers[shared].resources.cpuset_cpus = str(ALL)

        def put_right() -> bool:
            stack.tick()
            return CpuSet.parse(stack.cpus(shared)) == ALL - CpuSet.parse(stack.cpus(own))

        await eventually(put_right, "the shared CPUs to be those that are left")


async def shown(stack: PolicyStack, path: str) -> Any:
    """What the admin socket tells."""
    routes = policy_routes(stack.policy)
    name = ("GET", path) if ("GET", path) in routes else ("GET", f"{path.rpartition('/')[0]}/*")
    response = await routes[name](ServerRequest(method="GET", path=path, rest=path.rpartition("/")[2]))
    assert isinstance(response, ServerResponse)
    return json.loads(response.body)


async def test_a_clock_that_goes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What happened last is shown last, or first among refusals, whatever the time of day was."""
    day = [1_700_000_000.0]
    monkeypatch.setattr(policy_service, "time", SimpleNamespace(time=lambda: day[0]))
    async with policy_stack(tmp_path, MACHINE, name="static", reserved="cpu=cpuset:0") as stack:
        own = await stack.run("db", 2000)
        for cpus in (4, 3):
            day[0] -= 86_400
            linux = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=cpus * 100_000, cpu_shares=cpus * 1024)
            await stack.call(cri.UpdateContainerResourcesRequest(container_id=own, linux=linux))
        for name in ("one", "two"):
            day[0] -= 86_400
            pod = await stack.pod(name)
            with pytest.raises(grpc.aio.AioRpcError):
                await stack.create(pod, milli=16_000)
        about = await shown(stack, f"/v1/policy/containers/{own}")
        assert [event["at"][:10] for event in about["history"]] == ["2023-11-14", "2023-11-13", "2023-11-12"]
        assert about["decision"] == about["history"][-1]
        report = await shown(stack, "/v1/policy")
        assert [one["container"] for one in report["refused"]] == ["default/two/app", "default/one/app"]
        assert report["state_file"]["error"] == ""
    async with policy_stack(tmp_path, None, runtime=stack.runtime, name="static", reserved="cpu=cpuset:0") as stack:
        assert len(CpuSet.parse(stack.cpus(own))) == 3
