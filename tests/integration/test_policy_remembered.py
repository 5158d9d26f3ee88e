"""What is still known of containers after a restart: which pool they named, and that they were resized."""

import json
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static_pools.options import Pool, PoolCpuList, PoolsOptions
from interpose.resmgr.config.configuration import Configuration
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

MACHINE = "n4c16"
STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
STATE = "state/policy-state.json"
POOLS = """
pools:
  exclusive:
    exclusive: true
    cpuLists: [{Cpuset: "2,3", Socket: 0}, {Cpuset: "4,5", Socket: 0}, {Cpuset: "8,9", Socket: 1}]
  shared: {cpuLists: [{Cpuset: "6,7", Socket: 0}, {Cpuset: "12-15", Socket: 1}]}
  infra: {cpuLists: [{Cpuset: "0-1", Socket: 0}]}
"""
# What containers say, and the CPUs they get for it. The last one names no pool.
SAID = {
    "cmk isolate --pool=exclusive -- run": "2-3",
    "cmk isolate --pool=infra run": "0-1",
    "cmk isolate --pool=shared --socket-id=1 run": "12-15",
    "cmk isolate --pool=shared --no-affinity run": "",
    "run": "6-7",
}
EXTENDED = {
    "intel.com/resources": json.dumps({"containers": {"app": {"requests": {"cmk.intel.com/exclusive-cores": "1"}}}})
}


@pytest.fixture
def pools(tmp_path: Path) -> dict[str, Any]:
    """Settings with pools in a file."""
    file = tmp_path / "pools.yaml"
    file.write_text(POOLS)
    return {"name": "static-pools", "pools_file": str(file)}


async def started(stack: PolicyStack) -> dict[str, str]:
    """A container for everything that can be said; their ids with their CPUs."""
    ids = {}
    for number, (said, cpus) in enumerate(SAID.items()):
        pod = await stack.pod(f"p{number}", "burstable", annotations=EXTENDED)
        one = await stack.create(pod, milli=100, command=said.split())
        await stack.call(cri.StartContainerRequest(container_id=one))
        ids[one] = cpus
    assert {one: stack.cpus(one) for one in ids} == ids
    return ids


def loose(stack: PolicyStack) -> int:
    """How many containers are not bound by the books."""
    return sum(not grant.pinned for grant in stack.tracker.allocations.policy.state.grants.values())


async def settled(stack: PolicyStack) -> None:
    """Wait until every container has what it should have."""
    tracker = stack.tracker
    await eventually(lambda: not tracker.updaters.schedule(tuple(tracker.allocations.by_key)), "all to be in step")


@pytest.mark.parametrize("forget", [False, True])
async def test_containers_stay_in_the_pools_they_named(tmp_path: Path, pools: dict[str, Any], forget: bool) -> None:
    """Across restarts, with a state file and without one, and when they are resized in between."""
    runtime = FakeRuntime()
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, **pools) as stack:
        ids = await started(stack)
    for shares in (300, 400):
        if forget:
            (tmp_path / STATE).unlink()
        async with policy_stack(tmp_path, None, runtime=runtime, **pools) as stack:
            await settled(stack)
            assert {one: stack.cpus(one) for one in ids} == ids
            assert loose(stack) == 1
            for one in ids:
                update = cri.LinuxContainerResources(cpu_shares=shares)
                await stack.call(cri.UpdateContainerResourcesRequest(container_id=one, linux=update))
            assert {one: stack.cpus(one) for one in ids} == ids


async def test_a_successor_knows_the_pools_they_named(tmp_path: Path, pools: dict[str, Any]) -> None:
    """As after a restart."""
    runtime = FakeRuntime()
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    async with policy_stack(tmp_path / "a", machine(MACHINE), runtime=runtime, **pools) as old:
        ids = await started(old)
        memory = json.loads(json.dumps(old.parts.memory()))
        async with policy_stack(tmp_path / "b", machine(MACHINE), runtime=runtime, memory=memory, **pools) as successor:
            old.parts.retire()
            await settled(successor)
            assert {one: successor.cpus(one) for one in ids} == ids
            assert loose(successor) == 1


def configuration(infra: str) -> Configuration:
    """The same pools, with other CPUs for one of them."""

    def pool(*lists: tuple[str, int], exclusive: bool = False) -> Pool:
        given = (PoolCpuList(cpus=CpuSet.parse(text), text=text, socket=socket) for text, socket in lists)
        return Pool(exclusive=exclusive, lists=tuple(given))

    made = {
        "exclusive": pool(("2,3", 0), ("4,5", 0), ("8,9", 1), exclusive=True),
        "shared": pool(("6,7", 0), ("12-15", 1)),
        "infra": pool((infra, 0)),
    }
    return Configuration(policy="static-pools", options=PoolsOptions(pools=made), origin="test")


async def test_pools_and_policies_may_change_after_a_restart(tmp_path: Path, pools: dict[str, Any]) -> None:
    """Who named a pool follows it, also when another policy was in force in between."""
    runtime = FakeRuntime()
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, **pools) as stack:
        ids = await started(stack)
    moved = {one: "1" if cpus == "0-1" else cpus for one, cpus in ids.items()}
    async with policy_stack(tmp_path, None, runtime=runtime, **pools) as stack:
        await stack.reconfigurer.apply(configuration("1"))
        assert {one: stack.cpus(one) for one in ids} == moved
        await stack.reconfigurer.apply(Configuration(policy="none", origin="test"))
        await stack.reconfigurer.apply(configuration("1"))
        grants = stack.tracker.allocations.policy.state.grants.values()
        assert sorted(grant.details["asked"] for grant in grants) == ["", "exclusive", "infra", "shared", "shared"]
        assert loose(stack) == 1


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize(("before", "after"), [(2000, 4000), (4000, 2000), (4000, 1500), (1500, 2000)])
async def test_a_resize_outlives_a_state_file(tmp_path: Path, damaged: bool, before: int, after: int) -> None:
    """What the runtime has is newer than the note of the creation, which knows nothing of it."""
    runtime = FakeRuntime()
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, **STATIC) as stack:
        own, shared = await stack.run("db", before), await stack.run("web", 100, "burstable")
        update = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=after * 100, cpu_shares=after * 1024 // 1000)
        await stack.call(cri.UpdateContainerResourcesRequest(container_id=own, linux=update))
        has = {one: stack.cpus(one) for one in (own, shared)}
        assert (len(CpuSet.parse(has[own])) == after // 1000) is (after % 1000 == 0)
    if damaged:
        (tmp_path / STATE).write_text("{")
    else:
        (tmp_path / STATE).unlink()
    async with policy_stack(tmp_path, None, runtime=runtime, **STATIC) as stack:
        await settled(stack)
        assert {one: stack.cpus(one) for one in (own, shared)} == has
        assert sorted(held.request.milli for held in stack.tracker.allocations.by_key.values()) == [100, after]
