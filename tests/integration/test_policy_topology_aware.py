"""A relay with policy topology-aware: containers stay in their pools, and cold starts end."""

from pathlib import Path

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cli.render.pool_tree import owners_of_pools, pools_text
from interpose.core.model.cpuset import CpuSet
from interpose.resmgr.admin_view import policy_report
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

STATE = "state/policy-state.json"
TOPOLOGY_AWARE = """\
policy:
  Active: topology-aware
  ReservedResources: {CPU: "cpuset:0"}
"""
STATIC = 'policy: {Active: static, ReservedResources: {CPU: "cpuset:0"}}\n'
PODPOOLS = 'policy: {Active: podpools, ReservedResources: {CPU: "cpuset:0"}}\n'
COLD = {"cold-start.resource-policy.nri.io": "{duration: 1ms}"}


def write(folder: Path, text: str) -> str:
    """A policy document."""
    document = folder / "policy.yaml"
    document.write_text(text)
    document.chmod(0o644)
    return str(document)


async def settled(stack: PolicyStack) -> None:
    """Wait until every container has what it should have."""
    tracker = stack.tracker
    await eventually(lambda: not tracker.updaters.schedule(tuple(tracker.allocations.by_key)), "all to be in step")


async def switch(stack: PolicyStack, folder: Path, text: str, policy: str) -> None:
    """Another document counts."""
    write(folder, text)
    await eventually(lambda: stack.tracker.configuration.policy == policy, f"policy {policy}")
    await settled(stack)


def mems(stack: PolicyStack, container_id: str) -> str:
    """The memory nodes of a container at the runtime."""
    return str(stack.has(container_id).cpuset_mems)


@pytest.mark.parametrize("forget", [False, True])
async def test_containers_stay_in_their_pools(tmp_path: Path, forget: bool) -> None:
    """Across a restart, with a state file and without one, although other places are free by then."""
    runtime = FakeRuntime()
    config = write(tmp_path, TOPOLOGY_AWARE)
    async with policy_stack(tmp_path, machine("n4c16"), runtime=runtime, config=config) as stack:
        first, own, mixed = [await stack.run(name, milli) for name, milli in (("a", 1000), ("b", 2000), ("c", 1500))]
        assert [stack.cpus(one) for one in (first, own, mixed)] == ["4", "8-9", "12-15"]
        assert [mems(stack, one) for one in (first, own, mixed)] == ["1", "2", "3"]
        await stack.stop(first)
    if forget:
        (tmp_path / STATE).unlink()
    async with policy_stack(tmp_path, None, runtime=runtime, config=config) as stack:
        await settled(stack)
        assert [stack.cpus(one) for one in (own, mixed)] == ["8-9", "12-15"]
        assert [mems(stack, one) for one in (own, mixed)] == ["2", "3"]
        # The 500m in node 3 leave three of its CPUs; node 1 has four.
        assert stack.cpus(await stack.run("d", 4000)) == "4-7"


async def test_pools_are_shown_with_what_is_in_them(tmp_path: Path) -> None:
    """As the policy of the running relay has them; the picture has a letter for each node."""
    config = write(tmp_path, TOPOLOGY_AWARE)
    async with policy_stack(tmp_path, machine("n4c16"), config=config) as stack:
        for name, milli in (("a", 1000), ("b", 2000)):
            await stack.run(name, milli)
        report = policy_report(stack.interceptor, problems=[], state_file={})
    rows = [line.split() for line in pools_text(report).splitlines()]
    assert ["│", "*", "default/a/app", "-", "4", "1", "-"] in rows
    node = next(pool for pool in report["pool_details"] if pool["containers"] == ["default/b/app"])
    assert (node["cpus"], node["own"], node["free_milli"]) == ("10-11", "8-9", 2000)
    letters = {owner.title: str(owner.cpus) for owner in owners_of_pools(report).owners}
    assert letters["reserved"] == "0"
    assert letters[node["name"]] == "8-11"


async def test_policies_change_while_containers_run(tmp_path: Path) -> None:
    """From another one and to another one: CPUs of one's own stay where that is possible."""
    config = write(tmp_path, STATIC)
    async with policy_stack(tmp_path, machine("n4c16"), config=config) as stack:
        own, shares = await stack.run("own", 2000), await stack.run("shares", 500)
        before = stack.cpus(own)
        await switch(stack, tmp_path, TOPOLOGY_AWARE, "topology-aware")
        assert stack.cpus(own) == before
        assert mems(stack, own) == str(machine("n4c16").nodes_of(CpuSet.parse(before)))
        assert stack.cpus(shares) == "4-7"
        await switch(stack, tmp_path, PODPOOLS, "podpools")
        assert (stack.cpus(own), stack.cpus(shares)) == ("1-15", "1-15")
        await switch(stack, tmp_path, TOPOLOGY_AWARE, "topology-aware")
        assert (stack.cpus(own), stack.cpus(shares)) == ("4-5", "8-11")  # as if they had just come


async def test_a_cold_start_ends_by_itself(tmp_path: Path) -> None:
    """The container starts in persistent memory, and has ordinary memory as well when it has run for a while."""
    config = write(tmp_path, TOPOLOGY_AWARE)
    async with policy_stack(tmp_path, machine("c4pmem4"), config=config) as stack:
        pod = await stack.pod("cold", "burstable", annotations=COLD)
        container = await stack.create(pod, "app", milli=500)
        stack.tick()
        assert mems(stack, container) == "3"
        await stack.call(cri.StartContainerRequest(container_id=container))

        def warm() -> bool:
            stack.tick()
            return mems(stack, container) == "1,3"

        await eventually(warm, "ordinary memory")
