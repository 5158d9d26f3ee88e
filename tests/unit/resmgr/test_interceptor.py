"""The resource manager in the way of calls: what it decides, and what it leaves alone."""

import asyncio
import logging
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.constraints import make_setup
from interpose.core.policy.decision import Assignment, Decision, Grant
from interpose.core.policy.request import Request
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.policy import StaticPolicy
from interpose.core.topology.hints import TopologyHint
from interpose.core.topology.topology import Topology
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.net.grpc.status import Code
from interpose.relay.api import CLIENT, Body, Call, Reply
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.hints.devices import DeviceHint
from interpose.resmgr.hints.resolver import HintResolver
from interpose.resmgr.hints.rules import HintPath
from interpose.resmgr.state.grant_annotation import ANNOTATION, read_note
from interpose.testing.eventually import eventually
from interpose.testing.pods import container_config, linux_resources, pod_config
from tests.support.policy.manager_caller import ManagerCaller
from tests.support.policy.node import PolicyNode, static

UPDATE = "UpdateContainerResources"


async def test_without_a_policy_it_stands_in_nobodys_way(node: PolicyNode) -> None:
    """And with one, only where containers come, change and go."""
    assert "CreateContainer" in node.interceptor.methods
    assert "ContainerStatus" not in node.interceptor.methods
    await node.reconfigurer.apply(Configuration(policy="none"))
    assert node.interceptor.methods == ()


async def test_what_others_got_is_lost_before_a_start(node: PolicyNode, caller: ManagerCaller) -> None:
    """It has CPUs of its maker's time; one that nobody knows, or that cannot be read, is started as it is."""
    (key,) = node.tracker.allocations.by_key
    held = node.tracker.allocations.by_key[key]
    await caller.create(caller.pod("db"), 2000)
    node.runtime.containers[held.id].resources.cpuset_cpus = "0-15"
    node.tracker.updaters.by_key[key].written = Assignment(cpus=CpuSet.parse("0-15"))
    await caller(cri.StartContainerRequest(container_id=held.id))
    assert node.cpus(held.id) == "0-1,4-15"
    await caller(cri.StartContainerRequest(container_id="nobody"))
    await caller(cri.StartContainerRequest(container_id=held.id), unreadable="compressed")
    assert caller.passed[-3:] == ["StartContainer"] * 3
    assert not node.interceptor.counters.failures


async def test_a_start_goes_on_whatever_happens_here(
    node: PolicyNode, caller: ManagerCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bug of ours is counted."""
    (held,) = node.tracker.allocations.by_key.values()

    def fail(_: object) -> bool:
        raise KeyError("oh")

    monkeypatch.setattr(node.tracker.updaters, "exceeds", fail)
    await caller(cri.StartContainerRequest(container_id=held.id))
    assert caller.passed == ["StartContainer"]
    assert node.interceptor.counters.failures == {"StartContainer": 1}


async def test_calls_of_our_own_pass(node: PolicyNode, caller: ManagerCaller) -> None:
    """Whoever of us makes them."""
    reply = await caller.create(caller.pod("db"), 2000, origin="store")
    assert node.cpus(reply.response.container_id) == ""
    assert CLIENT == "client"


async def test_a_create_is_decided_written_and_confirmed(node: PolicyNode, caller: ManagerCaller) -> None:
    """Others have shrunk by then; the container carries a note of its grant."""
    reply = await caller.create(caller.pod("db"), 2000)
    made = reply.response.container_id
    assert node.cpus(made) == "2-3"
    note = read_note(node.runtime.containers[made].config.annotations[ANNOTATION])
    assert note is not None
    assert str(note.grant.exclusive) == "2-3"
    assert made in node.tracker.allocations.by_id


async def test_a_refusal_says_why_and_nothing_passes(node: PolicyNode, caller: ManagerCaller) -> None:
    """It is remembered for whoever asks."""
    reply = await caller.create(caller.pod("db"), 16000)
    assert reply.code == Code.RESOURCE_EXHAUSTED
    assert reply.message.startswith("policy static: ")
    assert caller.passed == []
    assert [(refused.title, refused.times) for refused in node.interceptor.counters.refused] == [("default/db/app", 1)]


async def test_one_that_is_tried_again_and_again_is_remembered_once(node: PolicyNode, caller: ManagerCaller) -> None:
    """It must not push out the others."""
    pods = [caller.pod("db"), caller.pod("api")]
    for pod in (*pods, pods[0], pods[0]):
        await caller.create(pod, 16000)
    assert [(refused.title, refused.times) for refused in node.interceptor.counters.refused] == [
        ("default/api/app", 1),
        ("default/db/app", 3),
    ]
    assert node.interceptor.counters.refused[-1].decision.refusal == node.interceptor.counters.refused[-1].refusal


@pytest.mark.parametrize("pod_id", ["nope", ""])
async def test_of_a_pod_nobody_knows_the_runtime_says_so_itself(
    node: PolicyNode, caller: ManagerCaller, pod_id: str
) -> None:
    """There is nothing to decide. Docker makes the container: it takes nothing from anybody, and brings no note."""
    sent: list[cri.CreateContainerRequest] = []

    def forge(request: cri.CreateContainerRequest) -> None:
        request.config.annotations[ANNOTATION] = "{}"
        sent.append(request)

    reply = await caller.create((pod_id, pod_config("nope")), 2000, edit=forge)
    assert reply.code != Code.OK
    assert caller.passed == ["CreateContainer"]
    assert ANNOTATION not in sent[0].config.annotations
    assert sent[0].config.linux.resources.cpuset_cpus == str(node.tracker.fallback_cpus)


async def test_what_cannot_be_read_passes(node: PolicyNode, caller: ManagerCaller) -> None:
    """The runtime may know better."""
    for request in (cri.CreateContainerRequest(), cri.UpdateContainerResourcesRequest(), cri.StopContainerRequest()):
        with pytest.raises(Exception, match="parsing"):
            await caller(request, raw=b"\xff\xff")
    assert len(caller.passed) == 3
    assert not node.interceptor.counters.failures


@pytest.mark.parametrize("request_", [cri.CreateContainerRequest(), cri.UpdateContainerResourcesRequest()])
async def test_what_only_the_runtime_can_read_is_refused(caller: ManagerCaller, request_: Any) -> None:
    """Nobody could say whose CPUs it takes."""
    reply = await caller(request_, unreadable="a key twice")
    assert reply.code == Code.INVALID_ARGUMENT
    assert reply.message == "policy static: the request cannot be read: a key twice"
    assert caller.passed == []


async def test_nobody_waits_longer_than_half_of_what_is_left(node: PolicyNode, caller: ManagerCaller) -> None:
    """A caller without a deadline waits for ever, we do not."""
    stall = node.runtime.stall(UPDATE)
    reply = await caller.create(caller.pod("db"), 2000, deadline=0.1)
    assert reply.code == Code.OK
    assert node.interceptor.counters.late == 1
    stall.release()
    await node.in_step()


async def test_when_deciding_fails_shared_cpus_are_given(
    node: PolicyNode, caller: ManagerCaller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the booking and after it; the booking is gone then."""
    fallback = str(node.tracker.allocations.policy.fallback)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("oh")

    for name in ("make_request", "write_create"):
        with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL, "interpose"):
            patched.setattr(f"interpose.resmgr.interceptor.{name}", fail)
            reply = await caller.create(caller.pod(name), 2000)
        assert node.cpus(reply.response.container_id) == fallback
    assert node.interceptor.counters.failures["CreateContainer"] == 2
    assert node.own == []


async def test_a_runtime_that_says_no_frees_the_booking(node: PolicyNode, caller: ManagerCaller) -> None:
    """One of which nobody knows does not."""
    pod = caller.pod("db")
    node.runtime.fail("CreateContainer", Code.INVALID_ARGUMENT, "no", times=1)
    assert (await caller.create(pod, 2000)).code == Code.INVALID_ARGUMENT
    assert node.own == []
    node.runtime.fail("CreateContainer", Code.UNAVAILABLE, "gone", times=1)
    await caller.create(pod, 2000)
    assert node.own == ["2-3"]
    (key,) = (key for key in node.tracker.allocations.by_key if key in node.tracker.creates)
    assert (await caller.create(pod, 2000)).code == Code.OK
    assert key not in node.tracker.creates


async def test_a_late_no_does_not_free_what_another_attempt_got(node: PolicyNode, caller: ManagerCaller) -> None:
    """Two creates of one name at once: the runtime makes one of them."""
    pod = caller.pod("db")
    stall = node.runtime.stall("CreateContainer")
    first = asyncio.create_task(caller.create(pod, 2000))
    await stall.entered.wait()
    node.runtime.clear("CreateContainer")
    second = await caller.create(pod, 2000)
    replies = {(await first).code, second.code}
    assert replies == {Code.OK, Code.UNKNOWN}
    assert node.own == ["2-3"]


async def test_an_answer_that_cannot_be_read_leaves_doubt(node: PolicyNode) -> None:
    """The container is there, only nobody knows its id."""
    pod_config_ = pod_config("db", qos="guaranteed")
    sandbox = node.runtime.state.run_sandbox(pod_config_, "runc").id
    resources = linux_resources(cpu_request=2000, cpu_limit=2000, memory_limit=1)
    request = cri.CreateContainerRequest(
        pod_sandbox_id=sandbox, config=container_config(pod_config_, resources=resources), sandbox_config=pod_config_
    )
    body = Body(request.SerializeToString(), CriParser("CreateContainerRequest"))

    async def proceed() -> Reply:
        return Reply(code=0, body=Body(b"\xff", CriParser("CreateContainerResponse")))

    call = Call(method=METHODS["CreateContainer"], path=b"/", body=body)
    assert (await node.interceptor.intercept(call, proceed)).code == Code.OK
    assert any(key in node.tracker.creates for key in node.tracker.allocations.by_key)


async def test_a_pod_that_is_stopped_while_others_make_room(node: PolicyNode, caller: ManagerCaller) -> None:
    """Nothing has failed: the runtime says what there is to say."""
    pod = caller.pod("db")
    stall = node.runtime.stall(UPDATE)
    task = asyncio.create_task(caller.create(pod, 2000))
    await stall.entered.wait()
    await caller(cri.StopPodSandboxRequest(pod_sandbox_id=pod[0]))
    stall.release()
    assert (await task).code != Code.OK
    assert not node.interceptor.counters.failures
    await node.in_step()
    assert [node.cpus(container_id) for container_id in node.runtime.containers] == ["0-15"]


async def test_other_books_that_have_no_place_for_it(node: PolicyNode, caller: ManagerCaller) -> None:
    """They came while others made room: the container is made without a place, and is in the books."""
    stall = node.runtime.stall(UPDATE)
    task = asyncio.create_task(caller.create(caller.pod("db"), 14000))
    await stall.entered.wait()
    change = asyncio.create_task(node.reconfigurer.apply(static("0-7"), forced=True))
    await eventually(lambda: node.tracker.allocations.without_place, "the new books")
    stall.release()
    made = (await task).response.container_id
    await change
    key = node.tracker.allocations.by_id[made]
    assert node.tracker.allocations.without_place == (key,)
    assert ANNOTATION not in node.runtime.containers[made].config.annotations
    assert node.cpus(made) == str(node.tracker.allocations.policy.fallback)


async def test_a_booking_that_cannot_be_taken_back_is_in_doubt(
    node: PolicyNode, caller: ManagerCaller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Until it is known that there is no such container."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("oh")

    node.runtime.fail("CreateContainer", Code.INVALID_ARGUMENT, "no", times=1)
    with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL, "interpose"):
        patched.setattr(node.tracker, "release", fail)
        assert (await caller.create(caller.pod("db"), 2000)).code == Code.INVALID_ARGUMENT
    (key,) = (key for key in node.tracker.allocations.by_key if key in node.tracker.creates)
    for _ in range(2):
        node.reconciler.tick()
    assert key not in node.tracker.allocations.by_key
    await node.in_step()


async def test_who_leaves_while_others_make_room_leaves_nothing(node: PolicyNode, caller: ManagerCaller) -> None:
    """And who leaves while the runtime is asked leaves doubt."""
    for method, doubts in ((UPDATE, 0), ("CreateContainer", 1)):
        stall = node.runtime.stall(method)
        task = asyncio.create_task(caller.create(caller.pod(method.lower()), 2000))
        await stall.entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        stall.release()
        node.runtime.clear(method)
        assert sum(key in node.tracker.creates for key in node.tracker.allocations.by_key) == doubts
        assert len(node.own) == doubts
        await node.in_step()


async def test_retired_it_decides_nothing(node: PolicyNode, caller: ManagerCaller) -> None:
    """A successor will: until then the container has reserved CPUs, which nobody is given alone."""
    node.tracker.retire()
    reply = await caller.create(caller.pod("db"), 2000)
    assert node.cpus(reply.response.container_id) == "0"
    assert node.own == []


# -- containers go


async def test_what_ends_is_free_when_the_call_returns(node: PolicyNode, caller: ManagerCaller) -> None:
    """One that was never started can still be, so stopping it frees nothing; removing does."""
    pod = caller.pod("db")
    made = (await caller.create(pod, 2000)).response.container_id
    await node.sync.resync()
    await caller(cri.StopContainerRequest(container_id=made))
    assert node.own == ["2-3"]
    await caller(cri.RemoveContainerRequest(container_id=made))
    assert node.own == []


async def test_a_pod_takes_its_containers_with_it(node: PolicyNode, caller: ManagerCaller) -> None:
    """Those of which nobody knows whether they exist as well."""
    pod = caller.pod("db")
    await caller.create(pod, 2000)
    await caller(cri.StopPodSandboxRequest(pod_sandbox_id=pod[0]))
    assert node.own == []
    other = caller.pod("other")
    node.runtime.fail("CreateContainer", Code.UNAVAILABLE, "lost", times=1)
    await caller.create(other, 2000)
    await caller(cri.RemovePodSandboxRequest(pod_sandbox_id=other[0]))
    assert node.own == []


async def test_a_stop_that_failed_frees_nothing(node: PolicyNode, caller: ManagerCaller) -> None:
    """The container still runs on its CPUs."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    node.runtime.fail("RemoveContainer", Code.INTERNAL, "no", times=1)
    await caller(cri.RemoveContainerRequest(container_id=made))
    assert node.own == ["2-3"]
    await caller(cri.RemoveContainerRequest(container_id="nope"))
    assert node.own == ["2-3"]


# -- Docker: sandboxes end alone, and names are not unique


@pytest.mark.parametrize("method", [cri.StopPodSandboxRequest, cri.RemovePodSandboxRequest])
async def test_a_sandbox_that_ends_alone_frees_nothing(node: PolicyNode, caller: ManagerCaller, method: Any) -> None:
    """Its containers live on."""
    pod = caller.pod("db")
    await caller.create(pod, 2000)
    await caller(method(pod_sandbox_id=pod[0]), alone=True)
    assert node.own == ["2-3"]
    await caller(method(pod_sandbox_id=pod[0]))
    assert node.own == []


async def test_a_twin_of_one_that_lives_is_another_container(node: PolicyNode, caller: ManagerCaller) -> None:
    """It gets CPUs of its own."""
    pod = caller.pod("db")
    first = (await caller.create(pod, 2000)).response.container_id
    await node.sync.resync()
    node.runtime.fail("CreateContainer", Code.INVALID_ARGUMENT, "no", times=1)
    assert (await caller.create(pod, 2000)).code == Code.INVALID_ARGUMENT
    assert node.own == ["2-3"]
    node.runtime.fail("CreateContainer", Code.UNAVAILABLE, "gone", times=1)
    await caller.create(pod, 2000)
    assert node.own == ["2-3", "4-5"]
    assert [
        (key.duplicate, held.id) for key, held in node.tracker.allocations.by_key.items() if key.pod_id == pod[0]
    ] == [
        (0, first),
        (1, ""),
    ]


async def test_one_that_the_runtime_has_lost_has_no_twin(node: PolicyNode, caller: ManagerCaller) -> None:
    """Its name is free: it is looked at before anything is decided."""
    pod = caller.pod("db")
    first = (await caller.create(pod, 100)).response.container_id
    await node.sync.resync()
    node.runtime.state.remove_container(node.runtime.containers[first])
    second = (await caller.create(pod, 100)).response.container_id
    assert [key.duplicate for key in node.tracker.allocations.by_key if key.pod_id == pod[0]] == [0]
    assert first not in node.store.containers
    assert second in node.tracker.allocations.by_id


async def patient(ended: asyncio.Future[None]) -> None:
    """A limit of looking up hints that is never reached."""
    await ended


class HintReader(StaticPolicy):
    """Policy static that remembers the hints of the requests that it sees."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup, StaticOptions())
        self.seen: list[tuple[TopologyHint, ...]] = []

    def allocate(self, request: Request, held: Grant | None = None) -> Decision:
        self.seen.append(request.hints)
        return super().allocate(request, held)


@pytest.mark.parametrize(("name", "hinted"), [("external", True), ("static", False)])
async def test_hints_are_looked_up_for_policies_that_read_them(
    name: str, hinted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Others need not wait for that. Why some are missing is in the log."""
    found = TopologyHint(provider="/sys/devices/x", nodes=CpuSet.of((1,)))

    def find(path: HintPath) -> tuple[DeviceHint, ...]:
        if path.path == "/bug":
            raise KeyError("oh")
        return (DeviceHint("/sys/devices/x/disk", found),)

    def make(configuration: Configuration, topology: Topology) -> HintReader:
        return HintReader(make_setup(topology, configuration.available, configuration.reserved))

    chosen = Configuration(policy=name, reserved=CpuSet.of((0,)), origin="test")
    node = PolicyNode(configuration=chosen, make=make, hints=HintResolver(find, limit=patient))
    await node.start()
    caller = ManagerCaller(node)
    pod = caller.pod("db")
    config = container_config(pod[1], resources=linux_resources(cpu_request=100))
    config.mounts.extend(cri.Mount(host_path=path, container_path=path) for path in ("/data", "/bug"))
    reply = await caller(cri.CreateContainerRequest(pod_sandbox_id=pod[0], config=config, sandbox_config=pod[1]))
    policy = node.tracker.allocations.policy
    assert isinstance(policy, HintReader)
    assert reply.code == Code.OK
    assert policy.seen == [(found,) if hinted else ()]
    assert ("Topology hints of a container are missing" in caplog.text) is hinted
    await node.close()


async def test_a_pod_is_resized_as_a_whole(
    node: PolicyNode, caller: ManagerCaller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its containers are decided again, with what they ask for themselves; a bug of ours fails no call."""
    pod = caller.pod("db")
    pod[1].linux.resources.CopyFrom(linux_resources(cpu_request=2000, cpu_limit=4000))
    made = (await caller.create(pod, 4000)).response.container_id
    held = node.tracker.allocations.find(made)
    assert held is not None
    assert held.request.pod_amounts is not None
    assert (held.request.milli, held.request.pod_amounts.milli) == (0, 2000)
    larger = linux_resources(cpu_request=3000, cpu_limit=4000)
    request = cri.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod[0], resources=larger)
    assert (await caller(request)).code == Code.OK
    assert held.request.pod_amounts.milli == 3000
    assert held.request.milli == 0

    def fail(*_: object) -> None:
        raise KeyError("oh")

    monkeypatch.setattr(node.tracker, "observe_pod", fail)
    assert (await caller(request)).code == Code.OK
    assert node.interceptor.counters.failures == {"UpdatePodSandboxResources": 1}
    gone = cri.UpdatePodSandboxResourcesRequest(pod_sandbox_id="nobody")
    assert (await caller(gone)).code != Code.OK
    assert (await caller(request, unreadable="compressed")).code == Code.OK
