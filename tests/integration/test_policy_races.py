"""Calls that meet each other, and callers that leave at any moment: in the end books and runtime are the same.

Everything here is over in an instant on a node; what goes wrong in that instant would stay for ever.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.policy.static.options import StaticOptions
from interpose.hooks.api.hookpoint import HookPoint
from interpose.net.grpc.status import Code
from interpose.resmgr.config.configuration import Configuration
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.hookserver import FakeHookServer, register, response_to, serve_hooks
from interpose.testing.pods import container_config, create_request, linux_resources
from tests.support.policy.checks import at_rest, differences, own_cpus, second
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

# Packages 0-7 and 8-15, nodes of 4 CPUs, cores of two neighbours; CPU 0 is never given to anybody alone.
MACHINE = "n4c16"
STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
STATIC_PLUS: dict[str, Any] = {"name": "static-plus", "reserved": "cpu=cpuset:0"}
ALL = "0-15"
CREATE, UPDATE = "CreateContainer", "UpdateContainerResources"
# All moments are for long runs (make soak).
THOROUGH = bool(os.environ.get("INTERPOSE_THOROUGH"))


def resize(container_id: str, milli: int, *, limit: bool = True) -> cri.UpdateContainerResourcesRequest:
    """The kubelet wants so much for a container."""
    linux = linux_resources(cpu_request=milli, cpu_limit=milli if limit else 0)
    return cri.UpdateContainerResourcesRequest(container_id=container_id, linux=linux)


async def in_step(stack: PolicyStack, settled: Callable[[], bool] = lambda: True) -> None:
    """Seconds pass until books and runtime are the same, nothing is under way, and what was in doubt is settled."""
    deadline = asyncio.get_running_loop().time() + WAIT_LIMIT
    while asyncio.get_running_loop().time() < deadline:
        await second(stack)
        await asyncio.sleep(0.01)
        if not differences(stack) and at_rest(stack) and settled():
            return
    assert differences(stack) == []
    assert at_rest(stack)
    assert settled()


@asynccontextmanager
async def hooked(stack: PolicyStack, point: HookPoint, **sets: int) -> AsyncIterator[None]:
    """A hook server that writes fields of the resources in one kind of call."""

    def answer(request: Any) -> Any:
        response = response_to(request)
        for name, value in sets.items():
            setattr(response.container_resources, name, value)
        return response

    async with serve_hooks(stack.folder / "h.sock", FakeHookServer(answer)):
        register(stack.folder / "hookserver.d", "h", stack.folder / "h.sock", hooks=[point])
        await eventually(
            lambda: stack.parts.built is not None and any(one.name == "h" for one in stack.parts.built.plugins.all),
            "the hook server to be registered",
        )
        yield


# -- a create or a resize that ends while others shrink for it


@pytest.mark.parametrize("how", ["the caller leaves", "the pod is stopped"])
async def test_what_others_gave_up_for_nothing_they_get_back(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Their update is on its way when the booking goes, and arrives later."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        shared = await stack.run("web", 100, "burstable")
        pod = await stack.pod("db")
        stall = stack.runtime.stall(UPDATE)
        task = asyncio.create_task(stack.create(pod, milli=2000))
        await stall.entered.wait()
        if how == "the caller leaves":
            task.cancel()
        else:
            await stack.call(cri.StopPodSandboxRequest(pod_sandbox_id=pod[0]))
        await eventually(lambda: not own_cpus(stack), "the booking to go")
        stall.release()
        await asyncio.gather(task, return_exceptions=True)
        await eventually(lambda: stack.runtime.calls[UPDATE] == 2, "a second update")
        await stack.eventually_cpus(shared, ALL)
        # A pod that is stopped is nothing to make a noise about.
        assert not stack.interceptor.counters.failures
        assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


async def test_a_stopped_pod_whose_container_is_made_all_the_same(tmp_path: Path) -> None:
    """The runtime does not mind: the container gets what it is due as one that came around us."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        await stack.run("web", 100, "burstable")
        pod = await stack.pod("db")
        stall = stack.runtime.stall(UPDATE)
        task = asyncio.create_task(stack.create(pod, milli=2000))
        await stall.entered.wait()
        stack.tracker.release([key for key in stack.tracker.allocations.by_key if key.pod_id == pod[0]])
        stall.release()
        made = await task
        await eventually(lambda: own_cpus(stack) == [stack.cpus(made)], "CPUs of its own")
        await in_step(stack)


# -- hook servers


async def test_a_hook_server_does_not_take_cpus_away(tmp_path: Path) -> None:
    """It sets shares in an update that is about memory: the container keeps its CPUs."""
    async with policy_stack(tmp_path, machine(MACHINE), hooks=True, **STATIC) as stack:
        own = await stack.run("db", 2000)
        async with hooked(stack, HookPoint.PRE_UPDATE_CONTAINER_RESOURCES, cpu_shares=1536):
            linux = cri.LinuxContainerResources(memory_limit_in_bytes=512 << 20)
            await stack.call(cri.UpdateContainerResourcesRequest(container_id=own, linux=linux))
        assert own_cpus(stack) == [stack.cpus(own)] == ["2-3"]
        assert stack.has(own).cpu_shares == 1536


async def test_a_hook_server_does_not_give_cpus(tmp_path: Path) -> None:
    """Neither in an update nor in a create whose caller asks for nothing."""
    async with policy_stack(tmp_path, machine(MACHINE), hooks=True, **STATIC_PLUS) as stack:
        some = await stack.run("db", 2500, "burstable")
        (before,) = own_cpus(stack)
        async with hooked(stack, HookPoint.PRE_UPDATE_CONTAINER_RESOURCES, cpu_shares=10240):
            linux = cri.LinuxContainerResources(memory_limit_in_bytes=512 << 20)
            await stack.call(cri.UpdateContainerResourcesRequest(container_id=some, linux=linux))
        assert own_cpus(stack) == [before]


async def test_a_caller_that_asks_for_nothing_gets_nothing_alone(tmp_path: Path) -> None:
    """What a hook server fills in is for the runtime."""
    amounts = {"cpu_shares": 2048, "cpu_period": 100_000, "cpu_quota": 200_000, "memory_limit_in_bytes": 1 << 28}
    async with policy_stack(tmp_path, machine(MACHINE), hooks=True, **STATIC) as stack:
        pod = await stack.pod("db")
        config = container_config(pod[1], "app", resources=cri.LinuxContainerResources())
        async with hooked(stack, HookPoint.PRE_CREATE_CONTAINER, **amounts):
            made = (await stack.call(create_request(pod[0], pod[1], config))).container_id
        assert stack.has(made).cpu_quota == 200_000
        assert (stack.cpus(made), own_cpus(stack)) == (ALL, [])


# -- values of the kubelet that we do not decide about


async def test_after_a_change_of_policy_resizes_are_the_kubelets_again(tmp_path: Path) -> None:
    """The policy before wrote shares; they were put back, and from then on the kubelet's count at once."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC_PLUS) as stack:
        some = await stack.run("db", 2500, "burstable")
        assert stack.has(some).cpu_shares == 512
        await stack.reconfigurer.apply(
            Configuration(policy="static", reserved=1000, options=StaticOptions(), origin="test")
        )
        assert stack.has(some).cpu_shares == 2560
        for milli in (4000, 1000):
            updates = stack.runtime.calls[UPDATE]
            await stack.call(resize(some, milli, limit=False))
            assert stack.has(some).cpu_shares == milli * 1024 // 1000
            await in_step(stack)
            assert stack.runtime.calls[UPDATE] == updates + 1


async def test_the_first_resize_after_a_change_of_policy_is_not_too_late(tmp_path: Path) -> None:
    """It comes while the shares of the policy before are still there."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC_PLUS) as stack:
        some = await stack.run("db", 2500, "burstable")
        stall = stack.runtime.stall(UPDATE)
        static = Configuration(policy="static", reserved=1000, options=StaticOptions(), origin="test")
        change = asyncio.create_task(stack.reconfigurer.apply(static))
        await stall.entered.wait()
        update = asyncio.create_task(stack.call(resize(some, 4000, limit=False)))
        stall.release()
        await change
        await update
        assert stack.has(some).cpu_shares == 4096
        await in_step(stack)
        assert stack.has(some).cpu_shares == 4096


async def test_after_a_create_in_doubt_shares_are_the_kubelets(tmp_path: Path) -> None:
    """The store found the container; what is in it is not all ours."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        pod = await stack.pod("db")
        stack.runtime.fail(CREATE, Code.UNAVAILABLE, "lost", times=1, when="after")
        with pytest.raises(grpc.aio.AioRpcError):
            await stack.create(pod, milli=2000)
        (made,) = stack.runtime.containers
        await in_step(stack)
        await stack.call(cri.StartContainerRequest(container_id=made))
        await stack.call(resize(made, 3000))
        (sent,) = (one.linux for one in stack.runtime.requests_of(UPDATE))
        assert (sent.cpu_shares, sent.cpu_quota, sent.cpuset_cpus) == (3072, -1, own_cpus(stack)[0])


# -- others that do not make room


async def test_a_shrink_that_failed_is_not_taken_for_done(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The container is created all the same, but not in silence."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        shared = await stack.run("web", 100, "burstable")
        stack.runtime.fail(UPDATE, Code.INTERNAL, "the kernel says no")
        own = await stack.run("db", 2000)
        assert (stack.cpus(shared), stack.cpus(own)) == (ALL, "2-3")
        assert stack.interceptor.counters.late == 1
        assert "Container did not wait any longer for others to give up its CPUs" in caplog.messages
        stack.runtime.clear()
        await in_step(stack)


async def test_one_that_is_born_with_cpus_of_others_loses_them_before_it_runs(tmp_path: Path) -> None:
    """Somebody else got them alone while the runtime was making it."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        web, db = await stack.pod("web", "burstable"), await stack.pod("db")
        stall = stack.runtime.stall(CREATE)
        first = asyncio.create_task(stack.create(web, milli=100))
        await stall.entered.wait()
        second_ = asyncio.create_task(stack.create(db, milli=2000))
        await eventually(lambda: stall.waiting == 2, "both creates to be at the runtime")
        stack.runtime.delay(UPDATE, 0.2)
        stall.release()
        shared, own = await first, await second_
        assert (stack.cpus(shared), stack.cpus(own)) == ("0-1,4-15", "2-3")
        assert stack.interceptor.counters.late == 0


async def test_one_that_keeps_cpus_of_others_is_counted(tmp_path: Path) -> None:
    """It could not be updated in time."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        web, db = await stack.pod("web", "burstable"), await stack.pod("db")
        stall = stack.runtime.stall(CREATE)
        first = asyncio.create_task(stack.create(web, milli=100))
        await stall.entered.wait()
        second_ = asyncio.create_task(stack.create(db, milli=2000))
        await eventually(lambda: stall.waiting == 2, "both creates to be at the runtime")
        stack.runtime.fail(UPDATE, Code.INTERNAL, "the kernel says no")
        stall.release()
        await asyncio.gather(first, second_)
        assert stack.interceptor.counters.late == 1
        stack.runtime.clear()
        await in_step(stack)


# -- updates in doubt


@pytest.mark.parametrize("when", ["before", "after"])
async def test_an_update_in_doubt_is_settled(tmp_path: Path, when: str) -> None:
    """It happened or it did not: the books follow the runtime."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        own = await stack.run("db", 2000)
        stack.runtime.fail(UPDATE, Code.DEADLINE_EXCEEDED, "slow", times=1, when=when)
        with pytest.raises(grpc.aio.AioRpcError):
            await stack.call(resize(own, 4000))
        cpus, expected = (2, "2-3") if when == "before" else (4, "1-4")
        # The reservation holds, and is the runtime's too, until the record of the container was read.
        await in_step(stack, lambda: own_cpus(stack) == [expected])
        assert (stack.has(own).cpu_quota, stack.has(own).cpu_shares) == (-1, cpus * 1024)
        assert stack.cpus(own) == expected


# -- our own trouble


@pytest.mark.parametrize("part", ["release", "confirm"])
async def test_books_that_failed_once_are_put_right(
    tmp_path: Path, part: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is booked for ever, and nobody stays outside."""

    def fail(*_: object) -> None:
        raise KeyError("oh")

    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        shared = await stack.run("web", 100, "burstable")
        pod = await stack.pod("db")
        with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL, "interpose"):
            patched.setattr(stack.tracker, part, fail)
            own = await stack.create(pod, milli=2000)
            await stack.call(cri.StartContainerRequest(container_id=own))
            if part == "release":
                await stack.stop(own)
                await stack.call(cri.RemoveContainerRequest(container_id=own))
        await in_step(stack)
        if part == "confirm":
            assert own_cpus(stack) == [stack.cpus(own)]
            await stack.stop(own)
        assert own_cpus(stack) == []
        await stack.eventually_cpus(shared, ALL)


# -- callers that leave at every moment


Act = Callable[[PolicyStack, tuple[str, cri.PodSandboxConfig], str], Awaitable[object]]
ACTS: dict[str, Act] = {
    "create": lambda stack, pod, _: stack.create(pod, milli=2000),
    "grow": lambda stack, _, made: stack.call(resize(made, 4000)),
    "shrink": lambda stack, _, made: stack.call(resize(made, 1000)),
    "stop": lambda stack, _, made: stack.stop(made),
}
STEPS = range(60) if THOROUGH else (*range(12), *range(12, 60, 8))


@pytest.mark.parametrize("slow", [False, True], ids=["quick runtime", "slow runtime"])
@pytest.mark.parametrize("act", ACTS)
async def test_a_caller_may_leave_at_any_moment(tmp_path: Path, act: str, slow: bool) -> None:
    """After so many turns of the loop, or so much time: at last the runtime has what is booked."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        shared = await stack.run("web", 100, "burstable")
        for step in STEPS:
            pod = await stack.pod(f"db{step}")
            made = "" if act == "create" else await stack.create(pod, milli=2000)
            if made:
                await stack.call(cri.StartContainerRequest(container_id=made))
            for method in (CREATE, UPDATE, "StopContainer"):
                stack.runtime.delay(method, 0.005 if slow else 0)
            task = asyncio.ensure_future(ACTS[act](stack, pod, made))
            for _ in range(step):
                await asyncio.sleep(0.0005 if slow else 0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await in_step(stack)
            await stack.call(cri.RemovePodSandboxRequest(pod_sandbox_id=pod[0]))
            await in_step(stack)
            assert (own_cpus(stack), stack.cpus(shared)) == ([], ALL), f"at step {step}"
