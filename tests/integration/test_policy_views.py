"""What a kubelet sees of containers whose CPUs a policy gives: what it asked for, whatever happened in between.

A kubelet that resizes in place compares the status of a container with its own wishes. Showing it CPU sets and shares
of a policy would make it update the container for ever.
"""

from collections.abc import Collection, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.handlers import Handlers
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

MACHINE = "n4c16"
RESERVED = "cpu=cpuset:0"
PERIOD = 100_000


class Shown(NamedTuple):
    """What a status says about the CPUs of a container."""

    cpus: str
    shares: int
    quota: int


def shown(status: Any) -> Shown:
    """Out of a status."""
    linux = status.resources.linux
    return Shown(linux.cpuset_cpus, linux.cpu_shares, linux.cpu_quota)


async def seen(stack: PolicyStack, container_id: str) -> Shown:
    """By a kubelet, which may look at containers or at whole pods and sees the same."""
    alone = (await stack.call(cri.ContainerStatusRequest(container_id=container_id))).status
    pod = stack.runtime.containers[container_id].sandbox_id
    whole = await stack.call(cri.PodSandboxStatusRequest(pod_sandbox_id=pod))
    for one in whole.containers_statuses:
        if one.id == container_id:
            assert shown(one) == shown(alone)
    return shown(alone)


async def resize(stack: PolicyStack, container_id: str, milli: int, limit: int) -> None:
    """As a kubelet does."""
    linux = cri.LinuxContainerResources(
        cpu_period=PERIOD, cpu_quota=limit * PERIOD // 1000, cpu_shares=milli * 1024 // 1000
    )
    await stack.call(cri.UpdateContainerResourcesRequest(container_id=container_id, linux=linux))


@pytest.mark.parametrize("forget", [False, True], ids=["remembered", "forgotten"])
@pytest.mark.parametrize("policy", ["static", "static-plus"])
async def test_a_kubelet_sees_what_it_asked_for(tmp_path: Path, policy: str, forget: bool) -> None:
    """From birth, when others move it, after a resize and after a restart, with a state file and without one."""
    runtime = FakeRuntime()
    settings: dict[str, Any] = {"name": policy, "reserved": RESERVED, "runtime": runtime}
    async with policy_stack(tmp_path, machine(MACHINE), **settings) as stack:
        web = await stack.run("web", 2500, "burstable")
        small = await stack.run("small", 500, "burstable")
        db = await stack.run("db", 2000)
        before = {one: await seen(stack, one) for one in (web, small, db)}
        assert before == {web: Shown("", 2560, 0), small: Shown("", 512, 0), db: Shown("", 2048, 2 * PERIOD)}
        assert all(stack.cpus(one) for one in before)
        assert policy == "static" or stack.has(web).cpu_shares == 512
    for life in range(2):
        if forget:
            (tmp_path / "state/policy-state.json").unlink()
        async with policy_stack(tmp_path, None, **settings) as stack:
            assert {one: await seen(stack, one) for one in before} == before
            await stack.stop(await stack.run(f"guest{life}", 3000))
            assert {one: await seen(stack, one) for one in before} == before
    async with policy_stack(tmp_path, None, **settings) as stack:
        await resize(stack, web, 3500, 0)
        await resize(stack, db, 4000, 4000)
        after = before | {web: Shown("", 3584, 0), db: Shown("", 4096, 4 * PERIOD)}
        assert {one: await seen(stack, one) for one in before} == after
    if forget:
        (tmp_path / "state/policy-state.json").unlink()
    async with policy_stack(tmp_path, None, **settings) as stack:
        if forget and policy == "static-plus":
            # The runtime knows the shares of the policy only: nobody remembers this resize but the kubelet, which sees
            # that it is not there and asks again.
            assert await seen(stack, web) == before[web]
            await resize(stack, web, 3500, 0)
        assert {one: await seen(stack, one) for one in before} == after


# -- both versions of CRI


class OldRuntime(FakeRuntime):
    """Has only some versions of CRI."""

    versions: tuple[str, ...] = ()

    def handlers(self, versions: Iterable[str] = (), without: Collection[str] = ()) -> Handlers:
        """Of its own versions."""
        return super().handlers(self.versions, without)


@pytest.mark.parametrize(
    ("kubelet", "versions"), [("v1alpha2", ("v1alpha2",)), ("v1alpha2", ("v1", "v1alpha2")), ("v1", ("v1",))]
)
async def test_versions_of_cri(tmp_path: Path, kubelet: str, versions: tuple[str, ...]) -> None:
    """A policy decides, moves others, resizes, gives back and takes over whichever version kubelet and runtime have."""
    runtime = OldRuntime()
    runtime.versions = versions
    settings: dict[str, Any] = {"name": "static", "reserved": RESERVED, "runtime": runtime}
    async with policy_stack(tmp_path, machine(MACHINE), **settings) as stack:
        stack.call = partial(stack.call, version=kubelet)  # type: ignore[assignment]
        web = await stack.run("web", 100, "burstable")
        everything = stack.cpus(web)
        db = await stack.run("db", 2000)
        assert (stack.cpus(db), stack.cpus(web)) == ("2-3", "0-1,4-15")
        await resize(stack, db, 4000, 4000)
        assert (len(stack.tracker.allocations.policy.state.grants[stack.tracker.allocations.by_id[db]].exclusive)) == 4
        assert await seen(stack, db) == Shown("", 4096, 4 * PERIOD)
        before = {one: stack.cpus(one) for one in (web, db)}
    async with policy_stack(tmp_path, None, **settings) as stack:
        stack.call = partial(stack.call, version=kubelet)  # type: ignore[assignment]
        assert {one: stack.cpus(one) for one in before} == before
        await stack.stop(db)
        assert stack.cpus(web) == everything
