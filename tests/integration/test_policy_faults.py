"""What goes wrong between a policy and its runtime: callers that leave, answers that get lost, updates that fail.

In all of it nobody ever has a CPU that another container has alone, but for those the relay itself counts as late.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.net.grpc.status import Code, RpcError
from interpose.resmgr import barriers
from interpose.resmgr.admin_view import policy_report
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import container_config, create_request, linux_resources
from interpose.testing.runtime.state import FakeContainer
from tests.support.policy.cpu_watch import CpuWatch
from tests.support.policy.machines import machine
from tests.support.policy.stack import MEMORY, PolicyStack, policy_stack

# Packages 0-7 and 8-15, nodes of 4 CPUs, cores of two neighbours; CPU 0 is never given to anybody alone.
MACHINE = "n4c16"
STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
ALL = "0-15"
ALL_CPUS = CpuSet.parse(ALL)
UPDATE = "UpdateContainerResources"


class Refusing:
    """A kernel that does not take updates of some containers."""

    def __init__(self) -> None:
        self.refused: set[str] = set()

    def changed(self, *_: object) -> None:
        """Nothing to do with it."""

    def updating(self, container: FakeContainer, _patch: cri.LinuxContainerResources) -> None:
        """No, for some."""
        if container.id in self.refused:
            raise RpcError(Code.INVALID_ARGUMENT, "the kernel says no")


@asynccontextmanager
async def watched(folder: Path, **more: Any) -> AsyncIterator[tuple[PolicyStack, CpuWatch]]:
    """A relay with policy static whose runtime is watched; nobody may share what is somebody's own."""
    watch = CpuWatch()
    runtime = FakeRuntime(observer=watch)
    async with policy_stack(folder, machine(MACHINE), runtime=runtime, **STATIC, **more) as stack:
        watch.follow(runtime, lambda: stack.tracker)
        yield stack, watch
        watch.look()
        assert watch.overlaps == []


def request_of(pod: tuple[str, cri.PodSandboxConfig], milli: int, name: str = "app") -> cri.CreateContainerRequest:
    """A create request, for who has more to say about the call than the stack does."""
    resources = linux_resources(cpu_request=milli, cpu_limit=milli, memory_limit=MEMORY)
    return create_request(pod[0], pod[1], container_config(pod[1], name, resources=resources))


def own_cpus(stack: PolicyStack) -> list[str]:
    """What containers have alone, by the books."""
    return [str(grant.exclusive) for grant in stack.tracker.allocations.policy.state.grants.values() if grant.exclusive]


async def cancel(task: "asyncio.Task[Any]") -> None:
    """Leave, as a caller does."""
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def listed(stack: PolicyStack) -> None:
    """The kubelet lists everything, and a second passes."""
    await stack.call(cri.ListPodSandboxRequest())
    await stack.call(cri.ListContainersRequest())
    stack.tick()


async def settled(stack: PolicyStack, count: int) -> None:
    """Wait until nothing is in doubt and so many containers are in the books."""

    def done() -> bool:
        stack.tick()
        allocations = stack.tracker.allocations
        held = allocations.by_key
        # With an id each: the relay may not have seen yet that the caller has left.
        return len(held) == len(allocations.by_id) == count and not any(key in stack.tracker.creates for key in held)

    await eventually(done, f"{count} containers in the books, none of them in doubt")


# -- the caller leaves


async def test_leaving_before_the_decision_books_nothing(tmp_path: Path) -> None:
    """The manager still looks at a neighbour when the caller goes."""
    async with watched(tmp_path) as (stack, _):
        pod = await stack.pod("db")
        first = await stack.create(pod, "first", milli=2000)
        stall = stack.runtime.stall("ContainerStatus")
        task = asyncio.create_task(stack.create(pod, "second", milli=2000))
        await stall.entered.wait()
        await cancel(task)
        stall.release()
        await settled(stack, 1)
        assert own_cpus(stack) == [stack.cpus(first)]
        assert stack.runtime.calls["CreateContainer"] == 1


async def test_leaving_while_others_shrink_gives_everything_back(tmp_path: Path) -> None:
    """The runtime was never asked, so there is nothing to doubt."""
    async with watched(tmp_path) as (stack, _):
        shared = await stack.run("web", 100, "burstable")
        pod = await stack.pod("db")
        stall = stack.runtime.stall(UPDATE)
        task = asyncio.create_task(stack.create(pod, milli=2000))
        await stall.entered.wait()
        await cancel(task)
        await eventually(lambda: not own_cpus(stack), "the booking to go")
        stall.release()
        await stack.eventually_cpus(shared, ALL)
        assert stack.runtime.calls["CreateContainer"] == 1  # that of the neighbour


async def test_leaving_during_a_create_that_did_not_happen(tmp_path: Path) -> None:
    """CPUs are kept until the runtime has said that there is no such container."""
    async with watched(tmp_path) as (stack, _):
        shared = await stack.run("web", 100, "burstable")
        pod = await stack.pod("db")
        stall = stack.runtime.stall("CreateContainer")
        task = asyncio.create_task(stack.create(pod, milli=2000))
        await stall.entered.wait()
        await cancel(task)
        assert len(own_cpus(stack)) == 1
        assert stack.cpus(shared) != ALL
        await settled(stack, 1)
        await stack.eventually_cpus(shared, ALL)


async def test_leaving_during_a_create_that_did_happen(tmp_path: Path) -> None:
    """The container is found, and has its CPUs."""
    async with watched(tmp_path) as (stack, _):
        pod = await stack.pod("db")
        stall = stack.runtime.stall("CreateContainer", "after")
        task = asyncio.create_task(stack.create(pod, milli=2000))
        await stall.entered.wait()
        await cancel(task)
        await settled(stack, 1)
        (made,) = stack.runtime.containers
        assert own_cpus(stack) == [stack.cpus(made)]
        assert list(stack.tracker.allocations.by_id) == [made]


# -- answers that get lost


@pytest.mark.parametrize("code", [Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED])
async def test_a_container_made_without_an_answer_keeps_its_cpus(tmp_path: Path, code: Code) -> None:
    """And nobody else gets them, from the first moment on."""
    async with watched(tmp_path) as (stack, _):
        pod = await stack.pod("db")
        stack.runtime.fail("CreateContainer", code, "lost", times=1, when="after")
        with pytest.raises(grpc.aio.AioRpcError):
            await stack.create(pod, milli=2000)
        (lost,) = stack.runtime.containers
        other = await stack.run("other", 2000)
        assert stack.cpus(other) != stack.cpus(lost)
        await settled(stack, 2)
        assert stack.tracker.updaters.by_key.keys() == stack.tracker.allocations.by_key.keys()
        await stack.stop(lost)
        await stack.call(cri.RemoveContainerRequest(container_id=lost))
        assert own_cpus(stack) == [stack.cpus(other)]


async def test_a_retry_that_is_refused_does_not_free_what_the_first_try_has(tmp_path: Path) -> None:
    """The name is taken, says the runtime: by the container of the first try."""
    async with watched(tmp_path) as (stack, _):
        pod = await stack.pod("db")
        stack.runtime.fail("CreateContainer", Code.UNAVAILABLE, "lost", times=1, when="after")
        for code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.UNKNOWN):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stack.create(pod, milli=2000)
            assert caught.value.code() is code
            assert len(own_cpus(stack)) == 1
        await settled(stack, 1)
        (made,) = stack.runtime.containers
        assert own_cpus(stack) == [stack.cpus(made)]


async def test_a_retry_of_a_create_that_did_not_happen_gets_the_same_cpus(tmp_path: Path) -> None:
    """They are still booked under its name."""
    async with watched(tmp_path) as (stack, _):
        pod = await stack.pod("db")
        stack.runtime.fail("CreateContainer", Code.UNAVAILABLE, "not done", times=1)
        with pytest.raises(grpc.aio.AioRpcError):
            await stack.create(pod, milli=2000)
        booked = own_cpus(stack)
        made = await stack.create(pod, milli=2000)
        assert [stack.cpus(made)] == booked
        await settled(stack, 1)
        assert own_cpus(stack) == booked


async def test_a_retry_in_doubt_of_a_known_container_is_settled(tmp_path: Path) -> None:
    """The container is there; that a second create got lost says nothing about it."""
    async with watched(tmp_path) as (stack, _):
        pod = await stack.pod("db")
        made = await stack.create(pod, milli=2000)
        stack.runtime.fail("CreateContainer", Code.UNAVAILABLE, "lost", times=1)
        with pytest.raises(grpc.aio.AioRpcError):
            await stack.create(pod, milli=2000)
        await settled(stack, 1)
        assert own_cpus(stack) == [stack.cpus(made)]


async def test_a_pod_removed_while_its_container_is_made(tmp_path: Path) -> None:
    """Whatever the answer, nothing is left in the books."""
    async with watched(tmp_path) as (stack, _):
        shared = await stack.run("web", 100, "burstable")
        pod = await stack.pod("db")
        stall = stack.runtime.stall("CreateContainer", "after")
        task = asyncio.create_task(stack.create(pod, milli=2000))
        await stall.entered.wait()
        await stack.call(cri.RemovePodSandboxRequest(pod_sandbox_id=pod[0]))
        stall.release()
        await task
        await listed(stack)
        await settled(stack, 1)
        await stack.eventually_cpus(shared, ALL)
        assert len(stack.tracker.updaters.by_key) == 1


# -- a runtime that is slow, or says no


async def test_a_slow_update_does_not_hold_a_create_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The create goes on after its time, counted as late; afterwards the newest wish wins."""
    monkeypatch.setattr(barriers, "_SHRINKING", 0.1)
    async with watched(tmp_path) as (stack, watch):
        shared = await stack.run("web", 100, "burstable")
        pods = [await stack.pod(name) for name in ("db", "mq")]
        stall = stack.runtime.stall(UPDATE)
        watch.excused.add(shared)
        made = [(await stack.call(request_of(pod, 2000))).container_id for pod in pods]
        assert stack.interceptor.counters.late == 2
        assert stack.cpus(shared) == ALL
        assert stall.waiting == 1  # never two at a time for one container
        stall.release()
        rest = ALL_CPUS - CpuSet.union(CpuSet.parse(stack.cpus(one)) for one in made)
        await stack.eventually_cpus(shared, str(rest))
        watch.excused.clear()


async def test_a_container_that_is_about_to_grow_is_waited_for(tmp_path: Path) -> None:
    """It is being told that it may have CPUs, which somebody else gets alone meanwhile."""
    async with watched(tmp_path) as (stack, _):
        shared = await stack.run("web", 100, "burstable")
        own = await stack.run("db", 2000)
        cpus = stack.cpus(own)
        pod = await stack.pod("next")
        stall = stack.runtime.stall(UPDATE)
        await stack.stop(own)  # answered after half a second: others do not wait longer for their CPUs
        task = asyncio.create_task(stack.create(pod, milli=2000))
        await eventually(lambda: own_cpus(stack) == [cpus], "the same CPUs to be booked again")
        assert stack.runtime.calls["CreateContainer"] == 2
        stall.release()
        assert stack.cpus(await task) == cpus
        assert stack.interceptor.counters.late == 0
        assert stack.cpus(shared) == str(ALL_CPUS - CpuSet.parse(cpus))


async def test_updates_that_fail_are_shown_tried_again_and_recover(tmp_path: Path) -> None:
    """The pause grows; what fails shows in the report; other containers go on."""
    async with watched(tmp_path) as (stack, watch):
        shared = await stack.run("web", 100, "burstable")
        watch.excused.add(shared)
        stack.runtime.fail(UPDATE, Code.INTERNAL, "the kernel says no")
        own = await stack.run("db", 2000)
        assert stack.cpus(own) != ""
        updater = stack.tracker.updaters.by_key[stack.tracker.allocations.by_id[shared]]
        await eventually(lambda: updater.attempts >= 3, "some attempts")
        report = policy_report(stack.interceptor, problems=[], state_file={})
        assert [(one["container"], one["error"]) for one in report["failing"]] == [
            ("default/web/app", "INTERNAL: the kernel says no")
        ]
        assert [one["state"] for one in report["assignments"]] == ["failing", "in step"]
        stack.runtime.clear()
        await stack.eventually_cpus(shared, str(ALL_CPUS - CpuSet.parse(stack.cpus(own))))
        watch.excused.clear()
        await eventually(lambda: not updater.error, "the writer to recover")
        assert not policy_report(stack.interceptor, problems=[], state_file={})["failing"]


async def test_a_container_the_runtime_does_not_know_leaves_the_books(tmp_path: Path) -> None:
    """It is found out when it shall be updated."""
    async with watched(tmp_path) as (stack, _):
        gone = await stack.run("web", 100, "burstable")
        await stack.run("db", 2000)
        stack.runtime.state.remove_container(stack.runtime.containers[gone])
        await stack.run("mq", 2000)
        assert stack.tracker.updaters.results["missing"] == 1
        assert gone not in stack.tracker.allocations.by_id
        assert len(stack.tracker.allocations.by_key) == 2


async def test_an_update_in_doubt_is_sent_again(tmp_path: Path) -> None:
    """Whether the runtime did it or not, after the second one it certainly has."""
    async with watched(tmp_path) as (stack, watch):
        shared = await stack.run("web", 100, "burstable")
        watch.excused.add(shared)
        stack.runtime.fail(UPDATE, Code.DEADLINE_EXCEEDED, "slow", times=1)
        own = await stack.run("db", 2000)
        await stack.eventually_cpus(shared, str(ALL_CPUS - CpuSet.parse(stack.cpus(own))))
        watch.excused.clear()
        assert stack.tracker.updaters.results["doubtful"] == 1


# -- the kubelet updates as well


async def test_updates_of_the_kubelet_and_ours_never_race(tmp_path: Path) -> None:
    """One container, one update at a time; the last one says what the policy wants."""
    async with watched(tmp_path) as (stack, _):
        shared = await stack.run("web", 100, "burstable")
        pod = await stack.pod("db")
        stall = stack.runtime.stall(UPDATE)
        linux = cri.LinuxContainerResources(cpu_shares=512)
        request = cri.UpdateContainerResourcesRequest(container_id=shared, linux=linux)
        update = asyncio.create_task(stack.call(request))
        await stall.entered.wait()
        create = asyncio.create_task(stack.create(pod, milli=2000))
        await eventually(lambda: own_cpus(stack), "the create to be booked")
        await asyncio.sleep(0)
        assert stall.waiting == 1
        assert stack.runtime.calls["CreateContainer"] == 1
        stall.release()
        await update
        own = await create
        rest = str(ALL_CPUS - CpuSet.parse(stack.cpus(own)))
        updates = [one.linux for one in stack.runtime.requests_of(UPDATE)]
        assert [(one.cpu_shares, one.cpuset_cpus) for one in updates] == [(512, ALL), (0, rest)]
        assert stack.has(shared).cpu_shares == 512


async def test_a_resize_the_runtime_refuses_is_taken_back(tmp_path: Path) -> None:
    """Books, neighbours and the container are as before."""
    refusing = Refusing()
    runtime = FakeRuntime(observer=refusing)
    async with policy_stack(tmp_path, machine(MACHINE), runtime=runtime, **STATIC) as stack:
        shared = await stack.run("web", 100, "burstable")
        own = await stack.run("db", 2000)
        before = (stack.cpus(own), stack.cpus(shared))
        refusing.refused.add(own)
        linux = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=400_000, cpu_shares=4096)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stack.call(cri.UpdateContainerResourcesRequest(container_id=own, linux=linux))
        assert caught.value.details() == "the kernel says no"
        assert own_cpus(stack) == [before[0]]
        await stack.eventually_cpus(shared, before[1])
        assert stack.cpus(own) == before[0]
        assert stack.tracker.allocations.by_key[stack.tracker.allocations.by_id[own]].request.milli == 2000


async def test_a_smaller_container_gives_up_cpus_before_others_get_them(tmp_path: Path) -> None:
    """Its update got lost: the others wait until it has certainly let go."""
    async with watched(tmp_path) as (stack, _):
        shared = await stack.run("web", 100, "burstable")
        own = await stack.run("db", 4000)
        lost = stack.runtime.stall(UPDATE)
        linux = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=200_000, cpu_shares=2048)
        task = asyncio.create_task(stack.call(cri.UpdateContainerResourcesRequest(container_id=own, linux=linux)))
        await lost.entered.wait()
        stack.runtime.fail(UPDATE, Code.UNAVAILABLE, "lost", times=1)
        held = stack.runtime.stall(UPDATE)
        lost.release()
        with pytest.raises(grpc.aio.AioRpcError):
            await task
        await held.entered.wait()
        assert [one.container_id for one in stack.runtime.requests_of(UPDATE)][-2:] == [own, own]
        held.release()
        await eventually(lambda: len(CpuSet.parse(stack.cpus(own))) == 2, "the container to be smaller")
        await stack.eventually_cpus(shared, str(ALL_CPUS - CpuSet.parse(stack.cpus(own))))


async def test_a_resize_whose_caller_leaves_while_others_shrink_is_taken_back(tmp_path: Path) -> None:
    """The runtime never heard of it."""
    async with watched(tmp_path) as (stack, _):
        shared = await stack.run("web", 100, "burstable")
        own = await stack.run("db", 2000)
        before = (stack.cpus(own), stack.cpus(shared))
        stall = stack.runtime.stall(UPDATE)
        linux = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=400_000, cpu_shares=4096)
        task = asyncio.create_task(stack.call(cri.UpdateContainerResourcesRequest(container_id=own, linux=linux)))
        await stall.entered.wait()
        await cancel(task)
        await eventually(lambda: own_cpus(stack) == [before[0]], "the resize to be taken back")
        stall.release()
        await stack.eventually_cpus(shared, before[1])
        assert stack.cpus(own) == before[0]


# -- things that happen behind the relay


async def test_newcomers_are_adopted(tmp_path: Path) -> None:
    """Made at the runtime by somebody else: they get what they are due as soon as a list shows them."""
    async with watched(tmp_path) as (stack, watch):
        await stack.run("db", 2000)
        (pod,) = stack.runtime.populate(1)
        (newcomer,) = pod.containers
        watch.overlaps.clear()  # nobody asked us
        watch.excused.add(newcomer)
        await listed(stack)
        await stack.eventually_cpus(newcomer, str(stack.tracker.allocations.policy.fallback))
        watch.excused.clear()
        assert stack.tracker.allocations.find(newcomer) is not None


async def test_what_was_removed_behind_the_relay_is_free(tmp_path: Path) -> None:
    """A list does not show it any more."""
    async with watched(tmp_path) as (stack, _):
        shared = await stack.run("web", 100, "burstable")
        own = await stack.run("db", 2000)
        stack.runtime.state.remove_container(stack.runtime.containers[own])
        await listed(stack)
        await stack.eventually_cpus(shared, ALL)
        assert not own_cpus(stack)


async def test_drift_is_corrected(tmp_path: Path) -> None:
    """Somebody wrote another CPU set at the runtime; a look at everything finds it."""
    async with watched(tmp_path) as (stack, watch):
        shared = await stack.run("web", 100, "burstable")
        await stack.run("db", 2000)
        wanted = stack.cpus(shared)
        watch.excused.add(shared)
        stack.runtime.containers[shared].resources.cpuset_cpus = ALL
        assert await stack.tracker.sync.resync(completely=True)
        await stack.eventually_cpus(shared, wanted)
        watch.excused.clear()


async def test_a_runtime_that_dies_and_returns_is_brought_in_step(tmp_path: Path) -> None:
    """While it is away nothing is lost; when it is back, what is due is done at once."""
    async with watched(tmp_path) as (stack, watch):
        shared = await stack.run("web", 100, "burstable")
        own = await stack.run("db", 2000)
        wanted = stack.cpus(shared)
        await stack.server.crash()
        stack.runtime.exit_container(own, 137)
        watch.excused.add(shared)
        stack.runtime.containers[shared].resources.cpuset_cpus = wanted.split(",")[0]
        await stack.server.come()
        await stack.eventually_cpus(shared, ALL)
        watch.excused.clear()
        assert not own_cpus(stack)


async def test_cpus_of_one_that_ended_unnoticed_are_found_when_they_are_needed(tmp_path: Path) -> None:
    """Before a container is refused, those that hold CPUs are looked at again."""
    async with watched(tmp_path) as (stack, _):
        first = await stack.run("first", 14000)
        stack.runtime.exit_container(first, 0)
        second = await stack.run("second", 14000)
        assert stack.cpus(second) == stack.cpus(first)
        assert not stack.interceptor.counters.refused


async def test_cpus_of_an_init_container_go_to_the_next_one(tmp_path: Path) -> None:
    """It has ended, which nobody has told yet: the pod's own CPUs are used again."""
    async with watched(tmp_path) as (stack, _):
        pod = await stack.pod("db")
        init = await stack.create(pod, "init", milli=8000)
        await stack.call(cri.StartContainerRequest(container_id=init))
        stack.runtime.exit_container(init, 0)
        main = await stack.create(pod, "main", milli=8000)
        assert stack.cpus(main) == stack.cpus(init)


# -- our own trouble


async def test_a_policy_that_fails_costs_nobody_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It gets CPUs that nobody has alone, stays there when they change, and shows as a problem."""
    async with watched(tmp_path) as (stack, _):
        await stack.run("db", 2000)

        def fail(*_: object) -> None:
            raise ZeroDivisionError("no idea")

        policy = stack.tracker.allocations.policy
        with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL, "interpose"):
            patched.setattr(policy, "allocate", fail)
            stray = await stack.run("web", 2000)
        assert stack.interceptor.counters.failures["CreateContainer"] == 1
        assert stack.cpus(stray) == str(policy.fallback)
        assert [stack.tracker.allocations.by_key[key].id for key in stack.tracker.allocations.without_place] == [stray]
        own = await stack.run("mq", 2000)
        assert not CpuSet.parse(stack.cpus(stray)) & CpuSet.parse(stack.cpus(own))
        problem = policy_report(stack.interceptor, problems=[], state_file={})["problems"][0]
        assert problem == "container default/web/app has no place under the policy"


async def test_a_create_waits_for_the_books_and_is_decided_then(tmp_path: Path) -> None:
    """The relay has just started, and the runtime has not listed its containers yet."""
    runtime = FakeRuntime()
    stall = runtime.stall("ListPodSandbox")
    async with watched_early(tmp_path, runtime) as stack:
        pod = await stack.pod("db")
        task = asyncio.create_task(stack.create(pod, milli=2000))
        await stall.entered.wait()
        assert own_cpus(stack) == []
        assert stack.runtime.calls["CreateContainer"] == 0
        stall.release()
        assert [stack.cpus(await task)] == own_cpus(stack)


async def test_without_books_a_create_gets_shared_cpus_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Later, when the books are there, it gets what it is due."""
    monkeypatch.setattr(barriers, "_RESTORE_TIMEOUT", 0.1)
    runtime = FakeRuntime()
    stall = runtime.stall("ListPodSandbox")
    async with watched_early(tmp_path, runtime) as stack:
        pod = await stack.pod("db")
        made = (await stack.call(request_of(pod, 2000))).container_id
        assert stack.cpus(made) == ALL
        assert stack.interceptor.counters.failures["CreateContainer"] == 1
        stall.release()
        await eventually(stack.tracker.ready.is_set, "the books")
        await eventually(lambda: len(CpuSet.parse(stack.cpus(made))) == 2, "CPUs of its own")
        assert own_cpus(stack) == [stack.cpus(made)]


@asynccontextmanager
async def watched_early(folder: Path, runtime: FakeRuntime) -> AsyncIterator[PolicyStack]:
    """A relay whose books are not made yet."""
    async with policy_stack(folder, machine(MACHINE), runtime=runtime, ready=False, **STATIC) as stack:
        yield stack
