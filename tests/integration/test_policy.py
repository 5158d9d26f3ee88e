"""A policy in the way of calls, over a fake runtime: from the first create to the last removal."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.status import Code
from interpose.resmgr.state.grant_annotation import ANNOTATION, read_note
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.policy.machines import machine
from tests.support.policy.stack import policy_stack

STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
# Packages 0-7 and 8-15, nodes of 4 CPUs, cores of two neighbours.
MACHINE = "n4c16"


async def test_every_container_has_its_cpus_from_birth(tmp_path: Path) -> None:
    """Whole CPUs of its own for a Guaranteed one, all others share the rest; the create request says so already."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        shared = await stack.run("web", 300, "burstable")
        own = await stack.run("db", 2000)
        assert stack.cpus(shared) != ""
        assert stack.runtime.containers[own].config.linux.resources.cpuset_cpus == stack.cpus(own)
        assert len(stack.cpus(own).replace("-", ",").split(",")) == 2
        assert stack.cpus(shared) == str(stack.tracker.allocations.policy.state.pool("shared"))
        note = read_note(stack.runtime.containers[own].config.annotations[ANNOTATION])
        assert note is not None
        assert str(note.grant.exclusive) == stack.cpus(own)


async def test_others_have_shrunk_before_the_runtime_is_asked(tmp_path: Path) -> None:
    """At no moment two containers have a CPU that one of them has alone."""
    runtime = FakeRuntime()
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, **STATIC) as stack:
        shared = [await stack.run(f"web{n}", 100, "burstable") for n in range(5)]
        pod = await stack.pod("db")
        before = {one: stack.cpus(one) for one in shared}
        own = await stack.create(pod, milli=1000)
        seen = [(one, stack.cpus(one)) for one in shared]
        assert all(before[one] != now for one, now in seen)
        assert all(stack.cpus(own) not in now.split(",") for _, now in seen)


async def test_what_ends_gives_back_before_it_is_answered(tmp_path: Path) -> None:
    """Stopping frees CPUs, and the others have them when the call returns."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        shared = await stack.run("web", 100, "burstable")
        everything = stack.cpus(shared)
        own = await stack.run("db", 4000)
        assert stack.cpus(shared) != everything
        await stack.stop(own)
        assert stack.cpus(shared) == everything


async def test_an_exit_nobody_called_for_frees_cpus(tmp_path: Path) -> None:
    """Lists tell of it."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        shared = await stack.run("web", 100, "burstable")
        everything = stack.cpus(shared)
        own = await stack.run("db", 4000)
        stack.runtime.exit_container(own, 1)
        await stack.call(cri.ListPodSandboxRequest())
        await stack.call(cri.ListContainersRequest())
        stack.tick()
        await stack.eventually_cpus(shared, everything)


async def test_a_refused_create_leaves_nothing_behind(tmp_path: Path) -> None:
    """The runtime says no: the CPUs are free again, the others have them back."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        shared = await stack.run("web", 100, "burstable")
        everything = stack.cpus(shared)
        pod = await stack.pod("db")
        with pytest.raises(grpc.aio.AioRpcError):
            await stack.create(pod, milli=2000, image="no/such:image")
        await stack.eventually_cpus(shared, everything)
        assert len(stack.tracker.allocations.by_key) == 1


async def test_more_than_there_is_is_refused_by_name(tmp_path: Path) -> None:
    """With the policy's reason, and nothing changes."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        pod = await stack.pod("db")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stack.create(pod, milli=16000)
        assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert caught.value.details().startswith("policy static: ")
        assert not stack.tracker.allocations.by_key


async def test_a_restart_moves_nobody(tmp_path: Path) -> None:
    """With the state file and without it: annotation and runtime know the same."""
    runtime = FakeRuntime()
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, **STATIC) as stack:
        names = [await stack.run(f"db{n}", 1000 * (n + 1)) for n in range(3)]
        names.append(await stack.run("web", 100, "burstable"))
        await stack.stop(names[0])
        before = {one: stack.cpus(one) for one in names}
    updates = len(runtime.requests_of("UpdateContainerResources"))
    for forget in (False, True):
        if forget:
            (tmp_path / "state/policy-state.json").unlink()
        async with policy_stack(tmp_path, None, runtime=runtime, **STATIC) as stack:
            assert {one: stack.cpus(one) for one in names} == before
            held = stack.tracker.allocations.policy.state
            assert sorted(str(grant.exclusive) for grant in held.grants.values() if grant.exclusive) == sorted(
                before[one] for one in names[1:3]
            )
    assert len(runtime.requests_of("UpdateContainerResources")) == updates


async def test_a_create_in_doubt_keeps_its_cpus_until_it_is_settled(tmp_path: Path) -> None:
    """The caller left: nobody gets these CPUs until the runtime has said that there is no such container."""
    runtime = FakeRuntime()
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, **STATIC) as stack:
        pod = await stack.pod("db")
        runtime.fail("CreateContainer", Code.UNAVAILABLE, "gone", times=1)
        with pytest.raises(grpc.aio.AioRpcError):
            await stack.create(pod, milli=2000)
        assert len(stack.tracker.allocations.by_key) == 1

        def settled() -> bool:
            stack.tick()
            return not stack.tracker.allocations.by_key

        await eventually(settled, "the create to be settled")


async def test_a_resize_is_honoured_and_constrained(tmp_path: Path) -> None:
    """More CPUs of its own next to those it has; fewer give some back; the kubelet's other values pass."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        shared = await stack.run("web", 100, "burstable")
        own = await stack.run("db", 2000)
        before = stack.cpus(own)
        linux = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=400_000, cpu_shares=4096)
        await stack.call(cri.UpdateContainerResourcesRequest(container_id=own, linux=linux))
        grown = stack.has(own)
        assert (grown.cpu_quota, grown.cpu_shares) == (-1, 4096)
        assert set(stack.tracker.allocations.policy.state.grants[stack.tracker.allocations.by_id[own]].exclusive)
        assert len(stack.tracker.allocations.policy.state.grants[stack.tracker.allocations.by_id[own]].exclusive) == 4
        assert grown.cpuset_cpus == str(stack.tracker.allocations.assignment(stack.tracker.allocations.by_id[own]).cpus)
        linux = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=200_000, cpu_shares=2048, cpuset_cpus="0-15")
        await stack.call(cri.UpdateContainerResourcesRequest(container_id=own, linux=linux))
        assert stack.cpus(own) == before
        assert stack.cpus(shared) == str(stack.tracker.allocations.policy.state.pool("shared"))
        assert stack.interceptor.counters.overrides["cpuset_cpus", "the caller"] == 1
