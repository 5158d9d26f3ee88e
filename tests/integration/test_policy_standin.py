"""A configuration that does not fit at the moment, or has yet to come: the node goes on, and nothing is lost by it."""

import json
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cli.relay.policy import policy_routes
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.names import NONE
from interpose.core.topology.synthetic import parse_text
from interpose.errors import ConfigError
from interpose.net.httpd.routes import ServerRequest, ServerResponse
from interpose.resmgr.state.checkpoint import load, reset_policy
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack
from tests.support.policy.sysfs_tree import write_sysfs

EIGHT = "1 sockets x 8 cores x 1 threads"
STATE = "state/policy-state.json"
POOLS = "pools: {shared: {cpuLists: [{Cpuset: 4-15, Socket: 0}]}}"
# Reserves six CPUs: with fewer than that it cannot be.
GREEDY = {"policy": "Active: static\nReservedResources: {CPU: 6}\n"}


@asynccontextmanager
async def booted(folder: Path, runtime: FakeRuntime, machine: str, **settings: Any) -> AsyncIterator[PolicyStack]:
    """A relay on a machine that may be another than the one it ran on before."""
    shutil.rmtree(folder / "host", ignore_errors=True)
    async with policy_stack(folder, parse_text(machine), runtime=runtime, **settings) as stack:
        yield stack


def plug(folder: Path, machine: str) -> None:
    """CPUs come and go."""
    shutil.rmtree(folder / "host")
    write_sysfs(parse_text(machine), folder / "host")


async def send(stack: PolicyStack, data: dict[str, str]) -> None:
    """The agent sends this."""
    assert stack.policy._applier is not None
    await stack.policy._applier.apply_agent_config(data, "n1")


async def problems(stack: PolicyStack) -> list[str]:
    """What a status shows, but for that this machine has no cgroups."""
    response = await policy_routes(stack.policy)["GET", "/v1/policy"](ServerRequest(method="GET", path="/v1/policy"))
    assert isinstance(response, ServerResponse)
    found: list[str] = json.loads(response.body)["problems"]
    return [one for one in found if not one.startswith(("note: cgroups cannot be read", "note: CFS quotas of pods"))]


async def followed(stack: PolicyStack, online: str) -> None:
    """Let time pass until the relay works with these CPUs."""

    def there() -> bool:
        stack.tick()
        return str(stack.tracker.topology.online) == online

    await eventually(there, f"CPUs {online}")


# -- what an agent sent


async def test_what_does_not_fit_for_one_boot_is_kept_and_nobody_is_moved(tmp_path: Path) -> None:
    """Containers keep their CPUs, the status says why, and on the next boot all is as before."""
    runtime = FakeRuntime()
    async with booted(tmp_path, runtime, EIGHT) as stack:
        await send(stack, GREEDY)
        own, shared = await stack.run("db", 2000), await stack.run("web", 100, "burstable")
        before = stack.cpus(own), stack.cpus(shared)
        assert before == ("6-7", "0-5")
    async with booted(tmp_path, runtime, f"{EIGHT}; offline 3-7") as stack:
        assert stack.tracker.configuration.policy == NONE
        (problem,) = await problems(stack)
        assert problem.startswith("another configuration should be in force: reserved resources: 6000m CPUs cannot be")
        late = await stack.run("late", 100, "burstable")
        assert (stack.cpus(own), stack.cpus(shared), stack.cpus(late)) == (*before, "")
    state = load(str(tmp_path / STATE)).state
    assert state is not None
    assert state.config == GREEDY
    async with booted(tmp_path, runtime, EIGHT) as stack:
        assert stack.tracker.configuration.policy == "static"
        assert await problems(stack) == []
        await stack.eventually_cpus(late, before[1])
        assert (stack.cpus(own), stack.cpus(shared)) == before


async def test_what_does_not_fit_is_tried_again_when_the_machine_changes(tmp_path: Path) -> None:
    """Containers have what they had before, not what a new decision would give them."""
    runtime = FakeRuntime()
    async with booted(tmp_path, runtime, EIGHT) as stack:
        await send(stack, {"policy": "Active: static\nReservedResources: {CPU: 4}\n"})
        first, second = await stack.run("first", 1000), await stack.run("second", 1000)
        await stack.stop(first)
        assert stack.cpus(second) == "5"
    async with booted(tmp_path, runtime, f"{EIGHT}; offline 1-4,6-7") as stack:
        assert stack.tracker.configuration.policy == NONE
        assert stack.cpus(second) == "5"
        plug(tmp_path, EIGHT)
        await followed(stack, "0-7")
        await eventually(lambda: stack.tracker.configuration.policy == "static", "the agent's policy")
        assert await problems(stack) == []
        assert stack.cpus(second) == "5"
        assert (
            str(stack.tracker.allocations.policy.state.grants[stack.tracker.allocations.by_id[second]].exclusive) == "5"
        )


async def test_what_stands_in_may_not_take_over_where_policies_may_not_be_switched(tmp_path: Path) -> None:
    """Then nobody decides; nor may the agent send another one."""
    runtime = FakeRuntime()
    fallback = tmp_path / "fallback.yaml"
    fallback.write_text("policy: {Active: static-plus, ReservedResources: {CPU: 1}}\n")
    group = tmp_path / "host/group"
    settings: dict[str, Any] = {"fallback": str(fallback), "switch": False}
    async with policy_stack(tmp_path, machine("n4c16"), runtime=runtime) as stack:
        group.mkdir()
        (group / "cpuset.cpus").write_text("0")
        await send(stack, {"policy": "Active: static\nReservedResources: {CPU: 'cgroup:/group'}\n"})
        own = await stack.run("db", 2000)
    shutil.rmtree(group)
    async with policy_stack(tmp_path, None, runtime=runtime, **settings) as stack:
        assert stack.tracker.configuration.policy == NONE
        with pytest.raises(ConfigError, match="containers run under policy static, and static-plus may not take over"):
            await send(stack, {"policy": "Active: static-plus\nReservedResources: {CPU: 1}\n"})
        assert stack.cpus(own) == "2-3"
        await send(stack, {"policy": "Active: static\nReservedResources: {CPU: 1}\n"})
        assert stack.tracker.configuration.policy == "static"
        assert stack.cpus(own) == "2-3"
    async with policy_stack(tmp_path, None, runtime=runtime, **settings) as stack:
        assert stack.tracker.configuration.policy == "static"


async def test_the_agent_can_turn_off_what_something_stands_in_for(tmp_path: Path) -> None:
    """Then containers get everything."""
    runtime = FakeRuntime()
    async with booted(tmp_path, runtime, EIGHT) as stack:
        await send(stack, GREEDY)
        own = await stack.run("db", 2000)
    async with booted(tmp_path, runtime, f"{EIGHT}; offline 3-5") as stack:
        assert stack.cpus(own) == "6-7"
        await send(stack, {"policy": "Active: none"})
        await stack.eventually_cpus(own, "0-2,6-7")


async def test_pools_may_come_with_the_agent(tmp_path: Path) -> None:
    """The relay starts without them, and works once they are there, also after a restart."""
    runtime = FakeRuntime()
    settings: dict[str, Any] = {"name": "static-pools", "config_socket": str(tmp_path / "config.sock")}
    async with policy_stack(tmp_path, machine("n4c16"), runtime=runtime, **settings) as stack:
        web = await stack.run("web", 100, "burstable")
        assert stack.cpus(web) == ""
        (problem,) = await problems(stack)
        assert "waits for pools from the agent" in problem
        await send(stack, {"policy.static-pools": POOLS})
        await stack.eventually_cpus(web, "4-15")
        assert [one for one in await problems(stack) if "waits" in one] == []
    async with policy_stack(tmp_path, None, runtime=runtime, **settings) as stack:
        assert stack.tracker.configuration.policy == "static-pools"


async def test_pools_that_are_said_to_be_somewhere_have_to_be_there(tmp_path: Path) -> None:
    """Or nobody can."""
    socket = str(tmp_path / "config.sock")
    cases: list[dict[str, Any]] = [{"pools_dir": "/nowhere", "config_socket": socket}, {"config_socket": "none"}]
    for settings in cases:
        with pytest.raises(ConfigError, match="its pools cannot be read"):
            async with policy_stack(tmp_path, machine("n4c16"), name="static-pools", **settings):
                pass


# -- switching


async def test_a_policy_that_may_not_be_switched_stays_at_run_time(tmp_path: Path) -> None:
    """As long as there are containers; from no policy to the first one is no switch."""
    async with policy_stack(tmp_path, machine("n4c16"), reserved="cpu=cpuset:0", switch=False) as stack:
        await send(stack, {"policy": "Active: static"})
        own = await stack.run("db", 2000)
        for other in ("static-plus", "none"):
            with pytest.raises(ConfigError, match=f"run under policy static, and {other} may not take over"):
                await send(stack, {"policy": f"Active: {other}"})
        assert (stack.tracker.configuration.policy, stack.cpus(own)) == ("static", "2-3")
        await stack.call(cri.RemoveContainerRequest(container_id=own))
        await send(stack, {"policy": "Active: static-plus"})
        assert stack.tracker.configuration.policy == "static-plus"


async def test_keys_that_flags_override_are_told(tmp_path: Path) -> None:
    """The agent's document is in force without them."""
    async with policy_stack(tmp_path, machine("n4c16"), name="static", reserved="cpu=cpuset:0") as stack:
        await send(stack, {"policy": "Active: static-plus\nReservedResources: {CPU: 4}\n"})
        assert await problems(stack) == [
            "note: agent of node n1: policy.Active: has no effect, test counts before it",
            "note: agent of node n1: policy.ReservedResources.CPU: has no effect, test counts before it",
        ]


# -- reserved CPUs that go


async def test_other_cpus_are_reserved_while_those_are_offline(tmp_path: Path) -> None:
    """Nobody is given CPUs that are gone, and all is as configured when they return. A restart changes nothing."""
    runtime = FakeRuntime()
    settings: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:6-7"}
    async with booted(tmp_path, runtime, EIGHT, **settings) as stack:
        web = await stack.run("web", 100, "burstable")
        plug(tmp_path, f"{EIGHT}; offline 6-7")
        await followed(stack, "0-5")
        await stack.eventually_cpus(web, "0-5")
        said = ["reserved CPUs 6-7 are offline, 2 others are reserved until they return"]
        assert await problems(stack) == said
        own = await stack.run("db", 4000)
        assert not CpuSet.parse(stack.cpus(own)) & stack.tracker.allocations.policy.pools()["reserved"]
        assert len(stack.tracker.allocations.policy.pools()["reserved"]) == 2
    async with booted(tmp_path, runtime, f"{EIGHT}; offline 6-7", **settings) as stack:
        assert await problems(stack) == said
        plug(tmp_path, EIGHT)
        await followed(stack, "0-7")
        assert await problems(stack) == []
        assert str(stack.tracker.allocations.policy.pools()["reserved"]) == "6-7"


async def test_a_machine_that_cannot_be_followed_is_told(tmp_path: Path) -> None:
    """The relay goes on, and catches up when it can."""
    async with booted(tmp_path, FakeRuntime(), EIGHT, name="static", reserved="cpu=6") as stack:
        plug(tmp_path, f"{EIGHT}; offline 4-7")

        def troubled() -> bool:
            stack.tick()
            return bool(stack.policy._machine_problem)

        await eventually(troubled, "trouble")
        (problem,) = await problems(stack)
        assert problem.startswith("CPU topology changed and the policy cannot adapt: reserved resources: 6000m")
        assert problem.endswith("it still works with CPUs 0-7")
        web = await stack.run("web", 100, "burstable")
        assert stack.cpus(web) == "0-7"
        plug(tmp_path, f"{EIGHT}; offline 7")
        await followed(stack, "0-6")
        await eventually(lambda: not stack.policy._machine_problem, "no trouble any more")
        assert await problems(stack) == []


# -- starting anew


async def test_what_containers_hold_is_forgotten_if_that_was_asked_for(tmp_path: Path) -> None:
    """Once: neither their notes nor the runtime's CPU sets count. The policy is not forgotten."""
    runtime = FakeRuntime()
    settings: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
    async with policy_stack(tmp_path, machine("n4c16"), runtime=runtime, **settings) as stack:
        first, second = await stack.run("first", 2000), await stack.run("second", 2000)
        await stack.stop(first)
        assert stack.cpus(second) == "4-5"
    reset_policy(str(tmp_path / STATE))
    with pytest.raises(ConfigError, match="containers run under policy static, and static-plus may not take over"):
        async with policy_stack(tmp_path, None, runtime=runtime, **{**settings, "name": "static-plus"}, switch=False):
            pass
    async with policy_stack(tmp_path, None, runtime=runtime, **settings) as stack:
        await stack.eventually_cpus(second, "2-3")
        third = await stack.run("third", 2000)
        await stack.stop(second)
    state = load(str(tmp_path / STATE)).state
    assert state is not None
    assert not state.reset
    async with policy_stack(tmp_path, None, runtime=runtime, **settings) as stack:
        assert stack.cpus(third) == "4-5"


async def test_what_is_to_be_forgotten_is_still_lifted(tmp_path: Path) -> None:
    """What a policy wrote is known to be its own, also if nothing of it shall be kept."""
    runtime = FakeRuntime()
    settings: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
    async with policy_stack(tmp_path, machine("n4c16"), runtime=runtime, **settings) as stack:
        own = await stack.run("db", 2000)
    reset_policy(str(tmp_path / STATE))
    async with policy_stack(tmp_path, None, runtime=runtime) as stack:
        await stack.eventually_cpus(own, "0-15")


async def test_cgroups_are_those_of_the_host(tmp_path: Path) -> None:
    """Wherever its file system is."""
    group = tmp_path / "host/sys/fs/cgroup/system.slice"
    group.mkdir(parents=True)
    (group / "cpuset.cpus.effective").write_text("0-1")
    async with policy_stack(tmp_path, machine("n4c16"), name="static", reserved="cpu=cgroup:/system.slice") as stack:
        assert stack.tracker.configuration.reserved == CpuSet.parse("0-1")
