"""Relays with pools of pods: containers have the CPUs of their pool, also after restarts and changes of the policy."""

from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

MACHINE = "n4c16"
STATE = "state/policy-state.json"
PODPOOLS = """\
policy:
  Active: podpools
  ReservedResources: {CPU: "cpuset:0"}
  podpools:
    Pools:
    - {Name: pair, CPU: 2, MaxPods: 1, Instances: 2}
"""
DYNAMIC = """\
policy:
  Active: dynamic-pools
  ReservedResources: {CPU: "cpuset:0"}
  dynamic-pools:
    DynamicPoolTypes:
    - {Name: busy, Namespaces: [busy-*]}
    - {Name: calm}
"""
BALLOONS = """\
policy:
  Active: balloons
  ReservedResources: {CPU: "cpuset:0"}
  balloons:
    balloonTypes:
    - {name: crew, namespaces: [default], maxCPUs: 3, preferNewBalloons: true}
"""
STATIC = 'policy: {Active: static, ReservedResources: {CPU: "cpuset:0"}}\n'
NONE = "policy: {Active: none}\n"
PAIR = {"pool.podpools.cri-resource-manager.intel.com": "pair"}
CALM = {"dynamic-pool.dynamic-pools.cri-resource-manager.intel.com": "calm"}


@pytest.fixture
def document(tmp_path: Path) -> Path:
    """A policy document."""
    return tmp_path / "policy.yaml"


def write(document: Path, text: str) -> Path:
    document.write_text(text)
    document.chmod(0o644)
    return document


async def settled(stack: PolicyStack) -> None:
    """Wait until every container has what it should have."""
    tracker = stack.tracker
    await eventually(lambda: not tracker.updaters.schedule(tuple(tracker.allocations.by_key)), "all to be in step")


async def switch(stack: PolicyStack, document: Path, text: str, policy: str) -> None:
    """Another document counts."""
    write(document, text)
    await eventually(lambda: stack.tracker.configuration.policy == policy, f"policy {policy}")
    await settled(stack)


async def run_pod(stack: PolicyStack, name: str, milli: int = 500, count: int = 1, **more: object) -> list[str]:
    """A Burstable pod with some containers that run: their ids."""
    pod = await stack.pod(name, "burstable", **more)
    found = [await stack.create(pod, f"c{number}", milli=milli) for number in range(count)]
    for container in found:
        await stack.call(cri.StartContainerRequest(container_id=container))
    return found


@pytest.mark.parametrize("forget", [False, True])
async def test_pods_stay_in_their_instances(tmp_path: Path, document: Path, forget: bool) -> None:
    """Across a restart, with a state file and without one; those in pool default for a full one too."""
    runtime = FakeRuntime()
    write(document, PODPOOLS)
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, config=str(document)) as stack:
        ids = [one for name in ("a", "b", "c") for one in await run_pod(stack, name, count=2, annotations=PAIR)]
        assert [stack.cpus(one) for one in ids] == ["2-3", "2-3", "4-5", "4-5", "1,6-15", "1,6-15"]
        assert [stack.has(one).cpuset_mems for one in ids[::2]] == ["0", "1", "0-3"]
        for one in ids[:2]:
            await stack.stop(one)
    if forget:
        (tmp_path / STATE).unlink()
    async with policy_stack(tmp_path, None, runtime=runtime, config=str(document)) as stack:
        await settled(stack)
        assert [stack.cpus(one) for one in ids[2:]] == ["4-5", "4-5", "1,6-15", "1,6-15"]
        (new,) = await run_pod(stack, "d", annotations=PAIR)
        assert stack.cpus(new) == "2-3"


async def test_policies_change_while_pods_run(tmp_path: Path, document: Path) -> None:
    """From any to any, and off: nobody is drained, and everybody has what the policy says."""
    write(document, PODPOOLS)
    async with policy_stack(tmp_path, machine(MACHINE), config=str(document)) as stack:
        (pair,) = await run_pod(stack, "p", annotations={**PAIR, **CALM})
        own = await stack.run("own", 2000)
        assert (stack.cpus(pair), stack.cpus(own)) == ("2-3", "1,6-15")
        await switch(stack, document, DYNAMIC, "dynamic-pools")
        calm = CpuSet.parse(stack.cpus(pair))
        assert len(calm) == 1
        assert CpuSet.parse(stack.cpus(own)) == CpuSet.parse("1-15") - calm
        await switch(stack, document, STATIC, "static")
        alone = CpuSet.parse(stack.cpus(own))
        assert len(alone) == 2
        assert CpuSet.parse(stack.cpus(pair)) == CpuSet.parse("0-15") - alone
        await switch(stack, document, PODPOOLS, "podpools")
        assert (stack.cpus(pair), stack.cpus(own)) == ("2-3", "1,6-15")
        await switch(stack, document, NONE, "none")
        assert (stack.cpus(pair), stack.cpus(own)) == ("0-15", "0-15")


def write_stat(tmp_path: Path, busy: dict[int, int], idle: int) -> None:
    """What /proc/stat of the host says."""
    folder = tmp_path / "host/proc"
    folder.mkdir(exist_ok=True)
    text = "".join(f"cpu{cpu} {busy.get(cpu, 0)} 0 0 {idle - busy.get(cpu, 0)} 0 0 0 0 0 0\n" for cpu in range(16))
    (folder / "stat").write_text(text)


async def test_pools_follow_the_load_and_a_restart_keeps_them(tmp_path: Path, document: Path) -> None:
    """Who works has the CPUs that nobody needs; a new relay, which knows no load yet, leaves everything as it is."""
    runtime = FakeRuntime()
    write(document, DYNAMIC)
    settings: dict[str, Any] = {"config": str(document), "rebalance_interval": 1.0}
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, **settings) as stack:
        (busy,) = await run_pod(stack, "b", 1000, namespace="busy-1")
        (calm,) = await run_pod(stack, "c", 1000, annotations=CALM)
        (rest,) = await run_pod(stack, "r", 0)
        assert len(CpuSet.parse(stack.cpus(busy))) == 1
        assert not stack.policy.problems()
        stack.tick()
        await eventually(lambda: bool(stack.policy.problems()), "the missing file to be told")
        assert "the load of CPUs cannot be read" in stack.policy.problems()[0]
        write_stat(tmp_path, {}, 100)
        stack.tick()
        await eventually(lambda: not stack.policy.problems(), "the file to be read")
        write_stat(tmp_path, dict.fromkeys(CpuSet.parse(stack.cpus(busy)), 100), 200)

        def moved() -> bool:
            stack.tick()
            return len(CpuSet.parse(stack.cpus(busy))) == 13

        await eventually(moved, "the pool to grow")
        await settled(stack)
        before = [CpuSet.parse(stack.cpus(one)) for one in (busy, calm, rest)]
        assert [len(cpus) for cpus in before] == [13, 1, 1]
        assert CpuSet.union(before) == CpuSet.parse("1-15")
        family = next(one for one in stack.policy.collect() if one.name == "interpose_policy_load_moves_total")
        assert [sample.value for sample in family.samples] == [1]  # type: ignore[union-attr]
    async with policy_stack(tmp_path, None, runtime=runtime, **settings) as stack:
        await settled(stack)
        assert [CpuSet.parse(stack.cpus(one)) for one in (busy, calm, rest)] == before
        # Requests take back what the load gave.
        (more,) = await run_pod(stack, "m", 4000, annotations=CALM)
        await settled(stack)
        assert len(CpuSet.parse(stack.cpus(more))) == 5
        assert len(CpuSet.parse(stack.cpus(busy))) == 9
        assert stack.cpus(more) == stack.cpus(calm)


async def test_more_than_there_is_is_refused_by_the_call(tmp_path: Path, document: Path) -> None:
    """The kubelet is told what there is, and tries again."""
    write(document, DYNAMIC)
    async with policy_stack(tmp_path, machine(MACHINE), config=str(document)) as stack:
        await run_pod(stack, "a", 14000, namespace="busy-1")
        with pytest.raises(Exception, match="pool calm would need 4 CPUs: of 15 in all, pools need busy 14, calm 4"):
            await run_pod(stack, "b", 4000, annotations=CALM)


async def test_balloons_are_where_they_were(tmp_path: Path, document: Path) -> None:
    """Across a restart, after one has shrunk: node 0 has three CPUs besides the reserved one, then comes node 1."""
    runtime = FakeRuntime()
    write(document, BALLOONS)
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, config=str(document)) as stack:
        first = await run_pod(stack, "a", milli=1000, count=3)
        assert [stack.cpus(one) for one in first] == ["1-3"] * 3
        (second,) = await run_pod(stack, "b", milli=1500)
        assert (stack.cpus(second), stack.has(second).cpuset_mems) == ("4-5", "1")
        await stack.stop(first[0])
        await settled(stack)
        shrunk = stack.cpus(first[1])
        assert len(CpuSet.parse(shrunk)) == 2
    async with policy_stack(tmp_path, None, runtime=runtime, config=str(document)) as stack:
        await settled(stack)
        assert [stack.cpus(one) for one in (*first[1:], second)] == [shrunk, shrunk, "4-5"]


async def test_balloons_take_over_from_other_policies_and_back(tmp_path: Path, document: Path) -> None:
    """Nobody is drained; one with CPUs of its own keeps them in its balloon, and has as many of its own again."""
    write(document, STATIC)
    async with policy_stack(tmp_path, machine(MACHINE), config=str(document)) as stack:
        own, (other,) = await stack.run("own", 2000), await run_pod(stack, "b", milli=1500)
        alone = stack.cpus(own)
        await switch(stack, document, BALLOONS, "balloons")
        assert stack.cpus(own) == alone
        assert len(CpuSet.parse(stack.cpus(other))) == 2
        await switch(stack, document, STATIC, "static")
        assert len(CpuSet.parse(stack.cpus(own))) == 2
        assert CpuSet.parse(stack.cpus(other)) == CpuSet.parse("0-15") - CpuSet.parse(stack.cpus(own))
