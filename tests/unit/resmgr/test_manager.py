"""The resource manager in the way of calls: what it decides, and what it leaves alone."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from interpose.api import cri_pb2 as cri
from interpose.relay.interceptor import CLIENT, Body, Call, Reply
from interpose.relay.messages import CriParser
from interpose.relay.methods import METHODS
from interpose.resmgr.configuration import Configuration
from interpose.resmgr.grants import ANNOTATION, read_note
from interpose.rpc.status import Code, RpcError
from interpose.store.requested import NOT_REQUESTED
from interpose.testing.eventually import eventually
from interpose.testing.pods import container_config, linux_resources, pod_config
from interpose.testing.policynode import PolicyNode

UPDATE = "UpdateContainerResources"


class Caller:
    """Sends calls through the manager to the node's runtime."""

    def __init__(self, node: PolicyNode) -> None:
        self.node = node
        self.passed: list[str] = []

    async def __call__(self, request: Any, *, raw: bytes | None = None, **more: Any) -> Reply:
        """The reply; `raw` are the bytes that came, if they are no such message."""
        name = type(request).__name__.removesuffix("Request")
        method = METHODS[name]
        body = Body(request.SerializeToString() if raw is None else raw, CriParser(f"{name}Request"))
        call = Call(method=method, path=b"/", body=body, **more)

        async def proceed() -> Reply:
            self.passed.append(name)
            try:
                answer = await self.node.call(name, body.data())
            except RpcError as error:
                return Reply(code=error.code, message=error.message)
            return Reply(code=0, body=Body(answer, CriParser(f"{name}Response")))

        return await self.node.manager.intercept(call, proceed)

    def pod(self, name: str) -> tuple[str, cri.PodSandboxConfig]:
        """A Guaranteed pod at the runtime."""
        config = pod_config(name, qos="guaranteed")
        return self.node.runtime.state.run_sandbox(config, "runc").id, config

    async def create(self, pod: tuple[str, cri.PodSandboxConfig], milli: int, **more: Any) -> Reply:
        """A container in a pod."""
        resources = linux_resources(cpu_request=milli, cpu_limit=milli, memory_limit=1 << 20)
        config = container_config(pod[1], resources=resources)
        request = cri.CreateContainerRequest(pod_sandbox_id=pod[0], config=config, sandbox_config=pod[1])
        return await self(request, **more)


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """Packages 0-7 and 8-15, cores of two neighbours; CPU 0 is reserved. One container shares."""
    node = PolicyNode()
    node.add("web", 100, "burstable")
    await node.start()
    await node.in_step()
    yield node
    await node.close()


@pytest.fixture
def caller(node: PolicyNode) -> Caller:
    """Sends calls."""
    return Caller(node)


def resize(container_id: str, cpus: int) -> cri.UpdateContainerResourcesRequest:
    """The kubelet wants so many CPUs for a container."""
    linux = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=cpus * 100_000, cpu_shares=cpus * 1024)
    return cri.UpdateContainerResourcesRequest(container_id=container_id, linux=linux)


async def test_without_a_policy_it_stands_in_nobodys_way(node: PolicyNode) -> None:
    """And with one, only where containers come, change and go."""
    assert "CreateContainer" in node.manager.methods
    assert "StartContainer" not in node.manager.methods
    await node.books.change(Configuration(policy="none"))
    assert node.manager.methods == ()


async def test_calls_of_our_own_pass(node: PolicyNode, caller: Caller) -> None:
    """Whoever of us makes them."""
    reply = await caller.create(caller.pod("db"), 2000, origin="store")
    assert node.cpus(reply.response.container_id) == ""
    assert CLIENT == "client"


async def test_a_create_is_decided_written_and_confirmed(node: PolicyNode, caller: Caller) -> None:
    """Others have shrunk by then; the container carries a note of its grant."""
    reply = await caller.create(caller.pod("db"), 2000)
    made = reply.response.container_id
    assert node.cpus(made) == "2-3"
    note = read_note(node.runtime.containers[made].config.annotations[ANNOTATION])
    assert note is not None
    assert str(note.grant.exclusive) == "2-3"
    assert made in node.books.ledger.by_id


async def test_a_refusal_says_why_and_nothing_passes(node: PolicyNode, caller: Caller) -> None:
    """It is remembered for whoever asks."""
    reply = await caller.create(caller.pod("db"), 16000)
    assert reply.code == Code.RESOURCE_EXHAUSTED
    assert reply.message.startswith("policy static: ")
    assert caller.passed == []
    assert [(one.title, one.times) for one in node.manager.refused] == [("default/db/app", 1)]


async def test_one_that_is_tried_again_and_again_is_remembered_once(node: PolicyNode, caller: Caller) -> None:
    """It must not push out the others."""
    pods = [caller.pod("db"), caller.pod("api")]
    for pod in (*pods, pods[0], pods[0]):
        await caller.create(pod, 16000)
    assert [(one.title, one.times) for one in node.manager.refused] == [("default/api/app", 1), ("default/db/app", 3)]
    assert node.manager.refused[-1].decision.refusal == node.manager.refused[-1].refusal


async def test_of_a_pod_nobody_knows_the_runtime_says_so_itself(caller: Caller) -> None:
    """There is nothing to decide."""
    reply = await caller.create(("nope", pod_config("nope")), 2000)
    assert reply.code == Code.NOT_FOUND
    assert caller.passed == ["CreateContainer"]


async def test_what_cannot_be_read_passes(node: PolicyNode, caller: Caller) -> None:
    """The runtime may know better."""
    for request in (cri.CreateContainerRequest(), cri.UpdateContainerResourcesRequest(), cri.StopContainerRequest()):
        with pytest.raises(Exception, match="parsing"):
            await caller(request, raw=b"\xff\xff")
    assert len(caller.passed) == 3
    assert not node.manager.failures


async def test_nobody_waits_longer_than_half_of_what_is_left(node: PolicyNode, caller: Caller) -> None:
    """A caller without a deadline waits for ever, we do not."""
    stall = node.runtime.stall(UPDATE)
    reply = await caller.create(caller.pod("db"), 2000, deadline=0.1)
    assert reply.code == Code.OK
    assert node.manager.late == 1
    stall.release()
    await node.in_step()


async def test_when_deciding_fails_shared_cpus_are_given(
    node: PolicyNode, caller: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Before the booking and after it; the booking is gone then."""
    fallback = str(node.books.ledger.policy.fallback)

    def fail(*_: object) -> None:
        raise ZeroDivisionError("oh")

    for name in ("make_request", "write_create"):
        with monkeypatch.context() as patched, caplog.at_level(logging.CRITICAL, "interpose"):
            patched.setattr(f"interpose.resmgr.manager.{name}", fail)
            reply = await caller.create(caller.pod(name), 2000)
        assert node.cpus(reply.response.container_id) == fallback
    assert node.manager.failures["CreateContainer"] == 2
    assert node.own == []


async def test_a_runtime_that_says_no_frees_the_booking(node: PolicyNode, caller: Caller) -> None:
    """One of which nobody knows does not."""
    pod = caller.pod("db")
    node.runtime.fail("CreateContainer", Code.INVALID_ARGUMENT, "no", times=1)
    assert (await caller.create(pod, 2000)).code == Code.INVALID_ARGUMENT
    assert node.own == []
    node.runtime.fail("CreateContainer", Code.UNAVAILABLE, "gone", times=1)
    await caller.create(pod, 2000)
    assert node.own == ["2-3"]
    (key,) = (key for key in node.books.ledger.held if node.books.in_doubt(key))
    assert (await caller.create(pod, 2000)).code == Code.OK
    assert not node.books.in_doubt(key)


async def test_a_late_no_does_not_free_what_another_attempt_got(node: PolicyNode, caller: Caller) -> None:
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
    assert (await node.manager.intercept(call, proceed)).code == Code.OK
    assert any(node.books.in_doubt(key) for key in node.books.ledger.held)


async def test_retired_it_decides_nothing(node: PolicyNode, caller: Caller) -> None:
    """A successor will."""
    node.books.retire()
    reply = await caller.create(caller.pod("db"), 2000)
    assert node.cpus(reply.response.container_id) == "0-15"
    assert node.own == []


# -- updates


async def test_a_resize_is_booked_and_constrained(node: PolicyNode, caller: Caller) -> None:
    """The policy's CPU set is in the very update of the kubelet."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    reply = await caller(resize(made, 4))
    assert reply.code == Code.OK
    assert len(node.own[0].split("-")) == 2
    sent = [one.linux for one in node.runtime.requests_of(UPDATE) if one.container_id == made]
    assert [(one.cpu_quota, one.cpuset_cpus) for one in sent] == [(400_000, node.own[0])]


async def test_a_resize_that_does_not_fit_is_refused(node: PolicyNode, caller: Caller) -> None:
    """And everything stays."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    assert (await caller(resize(made, 16))).code == Code.RESOURCE_EXHAUSTED
    assert (node.own, node.cpus(made)) == (["2-3"], "2-3")


async def test_values_that_nobody_wants_are_no_resize(node: PolicyNode, caller: Caller) -> None:
    """Somebody puts them right, and says so."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    await caller(resize(made, 4), metadata=lambda: (NOT_REQUESTED,))
    assert node.own == ["2-3"]
    assert node.cpus(made) == "2-3"


async def test_updates_of_strangers_pass(caller: Caller) -> None:
    """The runtime says what there is to say."""
    assert (await caller(resize("nope", 4))).code == Code.NOT_FOUND


async def test_a_runtime_that_cannot_be_asked_does_not_stop_an_update(node: PolicyNode, caller: Caller) -> None:
    """It goes as it came."""
    node.runtime.fail("ContainerStatus", Code.UNAVAILABLE, "gone")
    assert (await caller(resize("nope", 4))).code == Code.NOT_FOUND


async def test_an_update_whose_caller_leaves_is_in_doubt(node: PolicyNode, caller: Caller) -> None:
    """What the container has is found out by sending it again."""
    made = (await caller.create(caller.pod("db"), 4000)).response.container_id
    await node.sync.resync()
    (shared,) = (one for one in node.runtime.containers if one != made)
    before = node.cpus(shared)
    stall = node.runtime.stall(UPDATE)
    task = asyncio.create_task(caller(resize(made, 2)))
    await stall.entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert node.cpus(shared) == before
    stall.release()
    await node.in_step()
    await eventually(lambda: node.cpus(made) == node.own[0], "the container to have what it should")
    assert len(node.cpus(shared)) >= len(before)


async def test_what_others_wanted_is_counted(node: PolicyNode, caller: Caller) -> None:
    """By field, and by who wanted it."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    request = cri.UpdateContainerResourcesRequest(container_id=made)
    request.linux.cpuset_cpus = "0-15"
    await caller(request)
    assert node.manager.overrides == {("cpuset_cpus", "the caller"): 1}
    assert node.cpus(made) == "2-3"


# -- containers go


async def test_what_ends_is_free_when_the_call_returns(node: PolicyNode, caller: Caller) -> None:
    """One that was never started can still be, so stopping it frees nothing; removing does."""
    pod = caller.pod("db")
    made = (await caller.create(pod, 2000)).response.container_id
    await node.sync.resync()
    await caller(cri.StopContainerRequest(container_id=made))
    assert node.own == ["2-3"]
    await caller(cri.RemoveContainerRequest(container_id=made))
    assert node.own == []


async def test_a_pod_takes_its_containers_with_it(node: PolicyNode, caller: Caller) -> None:
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


async def test_a_stop_that_failed_frees_nothing(node: PolicyNode, caller: Caller) -> None:
    """It runs on."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    node.runtime.fail("RemoveContainer", Code.INTERNAL, "no", times=1)
    await caller(cri.RemoveContainerRequest(container_id=made))
    assert node.own == ["2-3"]
    await caller(cri.RemoveContainerRequest(container_id="nope"))
    assert node.own == ["2-3"]
