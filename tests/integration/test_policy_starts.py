"""Updates that meet StartContainer, on a runtime that loses them as containerd does: the cgroup has what is wanted.

The fake runtime makes the cgroup of a container when its start begins, and an update before the start has ended changes
only what it tells. `cgroup_cpus` is the kernel's truth.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.cli.relay.policy import policy_routes
from interpose.core.policy.request import Key
from interpose.hooks.api.hookpoint import HookPoint
from interpose.net.grpc.status import Code
from interpose.net.httpd.routes import ServerRequest, ServerResponse
from interpose.resmgr.admin_view import policy_report
from interpose.testing.eventually import WAIT_LIMIT, eventually, pass_deadline
from interpose.testing.fakenode import FakeNode, PlainCgroups
from interpose.testing.hookserver import FakeHookServer, register, serve_hooks
from tests.support.policy.checks import at_rest, differences, own_cpus, second
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

MACHINE = "n4c16"  # CPU 0 is never given to anybody alone
STATIC: dict[str, Any] = {"name": "static", "reserved": "cpu=cpuset:0"}
START, UPDATE = "StartContainer", "UpdateContainerResources"
ALL, REST = "0-15", "0-1,4-15"


@pytest.fixture
async def stack(tmp_path: Path) -> AsyncIterator[PolicyStack]:
    """A relay with the policy static."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as running:
        yield running


async def settled(stack: PolicyStack) -> None:
    """Wait until the books, the runtime and the cgroups are the same."""
    await eventually(lambda: not differences(stack) and at_rest(stack), "everything to be as it should be")


def start(stack: PolicyStack, container_id: str, **more: Any) -> "asyncio.Task[Any]":
    """A start on its way."""
    return asyncio.ensure_future(stack.call(cri.StartContainerRequest(container_id=container_id), **more))


async def ended(call: "asyncio.Task[Any]") -> "asyncio.Task[Any]":
    """The call, when it has ended, well or not."""
    await asyncio.wait([call])
    return call


async def shared_container(stack: PolicyStack) -> str:
    """A container that shares all CPUs, made and not started."""
    return await stack.create(await stack.pod("web", "burstable"), milli=100)


async def test_an_update_waits_for_the_start_of_its_container(stack: PolicyStack) -> None:
    """Somebody gets CPUs alone while another one is being started; its create waits for that."""
    web, db = await shared_container(stack), await stack.pod("db")
    stall = stack.runtime.stall(START, "during")
    starting = start(stack, web)
    await stall.entered.wait()
    creating = asyncio.ensure_future(stack.create(db, milli=2000))
    await eventually(lambda: own_cpus(stack) == ["2-3"], "the decision")
    for _ in range(20):
        await asyncio.sleep(0)
    assert (stack.runtime.calls[UPDATE], creating.done()) == (0, False)
    stall.release()
    await starting
    own = await creating
    assert (stack.cgroup_cpus(web), stack.cpus(own)) == (REST, "2-3")
    assert stack.runtime.calls[UPDATE] == 1


async def test_a_start_waits_for_an_update_of_its_container(stack: PolicyStack) -> None:
    """It is on its way when the start comes."""
    web = await shared_container(stack)
    stall = stack.runtime.stall(UPDATE)
    await stack.run("db", 2000)  # nobody has to wait for one that does not run
    await stall.entered.wait()
    starting = start(stack, web)
    for _ in range(50):
        await asyncio.sleep(0)
    assert stack.runtime.calls[START] == 1  # that of the other one
    stall.release()
    await starting
    assert stack.cgroup_cpus(web) == REST
    assert stack.runtime.calls[UPDATE] == 1


async def test_an_update_and_a_start_that_meet_all_the_same(stack: PolicyStack) -> None:
    """The start has waited for as long as it could: when both have ended the update is sent again."""
    web = await shared_container(stack)
    updating, starting = stack.runtime.stall(UPDATE), stack.runtime.stall(START, "during")
    db = await stack.pod("db")
    await stack.create(db, milli=2000)
    await updating.entered.wait()
    begun = start(stack, web, timeout=WAIT_LIMIT)
    await starting.entered.wait()
    updating.release()
    await eventually(lambda: stack.cpus(web) == REST, "the runtime to have taken the update")
    starting.release()
    await asyncio.gather(begun, return_exceptions=True)
    await eventually(lambda: stack.cgroup_cpus(web) == REST, "the kernel to have it")
    await settled(stack)


async def test_an_update_of_the_kubelet_keeps_the_order_too(stack: PolicyStack) -> None:
    """Its values and the policy's are there in the end."""
    web = await shared_container(stack)
    stall = stack.runtime.stall(START, "during")
    starting = start(stack, web)
    await stall.entered.wait()
    linux = cri.LinuxContainerResources(memory_limit_in_bytes=512 << 20)
    updating = asyncio.ensure_future(stack.call(cri.UpdateContainerResourcesRequest(container_id=web, linux=linux)))
    creating = asyncio.ensure_future(stack.run("db", 2000))
    await eventually(lambda: own_cpus(stack) == ["2-3"], "the decision")
    stall.release()
    await asyncio.gather(starting, updating, creating, return_exceptions=True)
    await settled(stack)
    in_force = stack.runtime.containers[web].in_force
    assert (in_force.memory_limit_in_bytes, in_force.cpuset_cpus) == (512 << 20, REST)


@pytest.mark.parametrize("how", ["deadline", "cancelled", "connection"])
async def test_a_start_whose_reply_is_lost_is_in_flight_until_the_status_says_otherwise(
    stack: PolicyStack, how: str
) -> None:
    """The runtime goes on with it: an update that comes then is not lost."""
    web = await shared_container(stack)
    stall = stack.runtime.stall(START, "during")
    if how == "deadline":
        starting = await pass_deadline(lambda timeout: ended(start(stack, web, timeout=timeout)), stall.entered.is_set)
    else:
        starting = start(stack, web)
        await stall.entered.wait()
    if how == "cancelled":
        starting.cancel()
    elif how == "connection":
        await stack.server.crash()
        await stack.server.come()
    with pytest.raises((grpc.aio.AioRpcError, asyncio.CancelledError)):
        await starting
    await eventually(lambda: stack.tracker.starts.in_flight(web), "the start to be in doubt")
    db = await stack.pod("db")
    creating = asyncio.ensure_future(stack.create(db, milli=2000))
    await eventually(lambda: own_cpus(stack) == ["2-3"], "the decision")
    assert stack.runtime.calls[UPDATE] == 0
    stall.release()
    await creating
    await eventually(lambda: stack.cgroup_cpus(web) == REST, "the kernel to have it")
    await settled(stack)


async def test_a_start_that_an_earlier_relay_sent(tmp_path: Path) -> None:
    """It was killed: the next one finds a container that waits, and it begins to run later."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        web = await shared_container(stack)
        stall = stack.runtime.stall(START, "during")
        starting = start(stack, web)
        await stall.entered.wait()
    await asyncio.gather(starting, return_exceptions=True)
    async with policy_stack(tmp_path, None, runtime=stack.runtime, **STATIC) as stack:
        assert stack.tracker.starts.in_flight(web)
        db = await stack.pod("db")
        await stack.create(db, milli=2000)
        await eventually(lambda: stack.cpus(web) == REST, "the update")  # nobody starts it, by all looks
        stall.release()
        await eventually(lambda: stack.runtime.containers[web].state == cri.CONTAINER_RUNNING, "the start to end")
        assert stack.cgroup_cpus(web) == ALL  # lost, as the runtime knew it when the start began
        await second(stack)  # the kubelet's list shows that it runs
        await eventually(lambda: stack.cgroup_cpus(web) == REST, "the kernel to have it")
        await settled(stack)


async def test_many_at_the_same_time(stack: PolicyStack) -> None:
    """Four that share and one that does not, created and started at once, again and again."""
    stack.runtime.delay(START, 0.003, "during")
    for number in range(10):
        names = [(f"web{number}-{one}", 100, "burstable") for one in range(4)]
        made = await asyncio.gather(
            *(stack.run(name, milli, "burstable") for name, milli, _ in names), stack.run(f"db{number}", 2000)
        )
        found = [stack.cgroup_cpus(one) for one in made]
        assert found == [found[0]] * 4 + own_cpus(stack)
        assert not set(found[0].split(",")) & set(found[4].split(","))
        for one in made:
            await stack.stop(one)


# -- what the kernel has


@pytest.fixture
async def on_cgroups(tmp_path: Path) -> AsyncIterator[tuple[PolicyStack, FakeNode]]:
    """The same with cgroups as files, which the relay can read."""
    node = FakeNode(PlainCgroups(tmp_path / "host/sys/fs/cgroup", 2, "0-15"))
    async with policy_stack(tmp_path, machine(MACHINE), runtime=node.runtime, **STATIC) as running:
        yield running, node


async def shown(stack: PolicyStack, ref: str) -> dict[str, Any]:
    """What explain shows."""
    routes = policy_routes(stack.policy)
    request = ServerRequest(method="GET", path="/v1/policy/containers/*", rest=ref)
    response = await routes["GET", "/v1/policy/containers/*"](request)
    assert isinstance(response, ServerResponse)
    about: dict[str, Any] = json.loads(response.body)
    return about


def write_cpus(node: FakeNode, container_id: str, cpus: str) -> None:
    """Somebody writes into a cgroup."""
    Path(node.cgroups.root, node.directory(container_id), "cpuset.cpus").write_text(f"{cpus}\n")


def read_cpus(node: FakeNode, container_id: str) -> str:
    """What is there."""
    return Path(node.cgroups.root, node.directory(container_id), "cpuset.cpus").read_text().strip()


async def test_what_the_kernel_lost_is_found_and_written_again(
    on_cgroups: tuple[PolicyStack, FakeNode], caplog: pytest.LogCaptureFixture
) -> None:
    """By the later looks alone; counted, and told once."""
    stack, node = on_cgroups
    web = await stack.run("web", 100, "burstable")
    await stack.run("db", 2000)
    stack.tick()
    await eventually(lambda: stack.tracker.cgroups.confirmed == 2, "the kernel to be asked")
    assert (await shown(stack, web))["confirmed_by"] == "kernel"
    write_cpus(node, web, ALL)
    for _ in range(60):  # everybody is looked at within a minute
        stack.tick()
        await asyncio.sleep(0.02)
    await eventually(lambda: read_cpus(node, web) == REST, "the value to be written again")
    assert stack.tracker.updaters.repairs["cgroup"] == 1
    said = [one for one in caplog.records if "did not have what was written" in one.getMessage()]
    assert [one.levelno for one in said] == [logging.WARNING]


async def test_what_an_earlier_relay_lost_is_found_at_the_start(tmp_path: Path) -> None:
    """It was killed: the runtime tells what it was told, and the cgroup has something else."""
    node = FakeNode(PlainCgroups(tmp_path / "host/sys/fs/cgroup", 2, "0-15"))
    async with policy_stack(tmp_path, machine(MACHINE), runtime=node.runtime, **STATIC) as stack:
        web = await stack.run("web", 100, "burstable")
        await stack.run("db", 2000)
    write_cpus(node, web, ALL)
    async with policy_stack(tmp_path, None, runtime=node.runtime, **STATIC) as stack:
        stack.tick()
        await eventually(lambda: read_cpus(node, web) == REST, "the value to be written again")


async def test_in_step_is_what_the_kernel_has(on_cgroups: tuple[PolicyStack, FakeNode]) -> None:
    """Who asks about a container hears the truth of that moment."""
    stack, node = on_cgroups
    web = await stack.run("web", 100, "burstable")
    stall = stack.runtime.stall(UPDATE)
    write_cpus(node, web, "0")
    about = await shown(stack, web)
    assert (about["state"], about["cgroup"]["cpuset.cpus"]) == ("writing", "0")
    stall.release()
    await eventually(lambda: read_cpus(node, web) == ALL, "the value to be written again")
    await eventually(lambda: at_rest(stack), "the update to end")
    assert (await shown(stack, web))["confirmed_by"] == "kernel"


async def test_a_value_that_somebody_keeps_replacing_is_held_back(
    on_cgroups: tuple[PolicyStack, FakeNode], caplog: pytest.LogCaptureFixture
) -> None:
    """And told of once, with its owner."""
    stack, node = on_cgroups
    web = await stack.run("web", 100, "burstable")
    for _ in range(30):
        write_cpus(node, web, "0")
        await shown(stack, web)
        await asyncio.sleep(0.01)
    updates = stack.runtime.calls[UPDATE]
    assert 2 <= updates <= 4
    said = [one for one in caplog.records if "held back" in one.getMessage()]
    assert len(said) == 1
    (problem,) = [one for one in policy_problems(stack) if "in turn" in one]
    assert problem.startswith("container default/web/app: policy static and somebody else")
    assert (await shown(stack, web))["state"] == "failing"


async def test_an_update_around_the_relay_that_comes_again_and_again_is_held_back(stack: PolicyStack) -> None:
    """A hook server without a relay, say, that wants something else at each of its rounds."""
    web = await stack.run("web", 100, "burstable")
    update = cri.UpdateContainerResourcesRequest(container_id=web, linux=cri.LinuxContainerResources(cpuset_cpus="0"))
    theirs = 30
    for _ in range(theirs):
        await stack.runtime.call(UPDATE, update)
        await stack.tracker.sync.refresh(web)
        await eventually(
            lambda: stack.tracker.updaters.by_key[web_key(stack, web)].state != "writing", "our update to end"
        )
    assert 2 <= stack.runtime.calls[UPDATE] - theirs <= 5
    (problem,) = [one for one in policy_problems(stack) if "in turn" in one]
    assert "CPUs 0" in problem


def web_key(stack: PolicyStack, container_id: str) -> Key:
    """How the books know a container."""
    return stack.tracker.allocations.by_id[container_id]


def policy_problems(stack: PolicyStack) -> list[str]:
    """What a status shows."""
    problems: list[str] = policy_report(stack.interceptor, problems=[], state_file={})["problems"]
    return problems


async def test_without_cgroups_the_runtime_is_believed(stack: PolicyStack) -> None:
    """And reports say so."""
    web = await stack.run("web", 100, "burstable")
    stack.tick()
    await eventually(lambda: stack.tracker.cgroups.unreadable, "a look at the cgroups")
    about = await shown(stack, web)
    assert (about["state"], about["confirmed_by"]) == ("in step", "runtime")
    assert any("cannot be read" in one for one in policy_problems(stack))


# -- a stop whose hook takes its time


async def test_a_slow_hook_after_a_stop_raises_no_alarm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The runtime has answered: the record says so at once, and nobody takes the container back into the books."""
    caplog.set_level(logging.WARNING)
    plugin = FakeHookServer()
    stall = plugin.stall(HookPoint.POST_STOP_CONTAINER)
    async with (
        policy_stack(tmp_path, machine(MACHINE), hooks=True, **STATIC) as stack,
        serve_hooks(tmp_path / "h.sock", plugin),
    ):
        own, web = await stack.run("db", 2000), await stack.run("web", 100, "burstable")
        register(tmp_path / "hookserver.d", "h", tmp_path / "h.sock", hooks=[HookPoint.POST_STOP_CONTAINER])
        await eventually(lambda: stack.parts.built is not None and stack.parts.built.plugins.all, "the registration")
        stopping = asyncio.ensure_future(stack.stop(own))
        await stall.entered.wait()
        await stack.eventually_cpus(web, ALL)
        decisions, updates = dict(stack.tracker.allocations.outcomes), stack.runtime.calls[UPDATE]
        for _ in range(10):  # before anybody has looked at the runtime again
            stack.tick()
        assert (own_cpus(stack), dict(stack.tracker.allocations.outcomes)) == ([], decisions)
        stall.release()
        await stopping
        assert stack.runtime.calls[UPDATE] == updates
    assert not [one for one in caplog.records if one.name.startswith("interpose.resmgr")]


# -- an exclusive create among many


async def test_a_create_waits_as_long_as_others_make_room(tmp_path: Path) -> None:
    """Hundreds of updates take longer than one may: nobody who runs is on its CPUs when it is made."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        made = [await stack.run(f"web{one}", 100, "burstable") for one in range(60)]
        waits = [await shared_container(stack)]
        stack.runtime.delay(UPDATE, 0.4)  # eight at a time: three seconds for all
        db = await stack.pod("db")
        await stack.create(db, milli=2000)
        assert {stack.cgroup_cpus(one) for one in made} == {REST}
        assert (stack.interceptor.counters.late, sum(stack.tracker.overlaps.seconds.counts)) == (0, 0)
        stack.runtime.delay(UPDATE, 0)
        await stack.eventually_cpus(waits[0], REST)
        await settled(stack)


async def test_an_overlap_is_measured(tmp_path: Path) -> None:
    """Somebody does not give up its CPUs in time."""
    async with policy_stack(tmp_path, machine(MACHINE), **STATIC) as stack:
        web = await stack.run("web", 100, "burstable")
        stall = stack.runtime.stall(UPDATE)
        await stack.run("db", 2000)
        assert (stack.interceptor.counters.late, stack.tracker.overlaps.seconds.sum) == (1, 0.0)
        stall.release()
        await stack.eventually_cpus(web, REST)
        await eventually(lambda: sum(stack.tracker.overlaps.seconds.counts) == 1, "the overlap to end")
        assert stack.tracker.overlaps.seconds.sum > 0


async def test_one_that_waits_to_be_started_is_not_waited_for_and_loses_cpus_before_it_runs(stack: PolicyStack) -> None:
    """Its update comes after the create of the other one, and before its own start."""
    web = await shared_container(stack)
    stack.runtime.fail(UPDATE, Code.INTERNAL, "busy", times=1)
    db = await stack.pod("db")
    await stack.create(db, milli=2000)
    assert stack.interceptor.counters.late == 0
    await start(stack, web)
    assert stack.cgroup_cpus(web) == REST
