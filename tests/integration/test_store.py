"""Records of a running relay: kept live, rebuilt after restarts, settled when the outcome is unknown."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.pod import Container, ContainerState, Pod
from interpose.core.model.resources import LinuxResources
from interpose.cri.store.requested import ANNOTATION
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.net.grpc.server import serve
from interpose.net.grpc.status import Code
from interpose.relay.api import Call, Proceed, Reply
from interpose.relay.exit_watcher import ExitWatcher
from interpose.relay.internal_calls import InternalCalls
from interpose.relay.store_updater import StoreUpdater
from interpose.testing.eventually import eventually, pass_deadline
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import container_config, create_request, linux_resources, pod_config, run_request
from interpose.testing.runtime.queries import FakeIdentity
from interpose.testing.serve import serve_runtime
from interpose.testing.stack import Stack, relay_stack
from tests.support.lab.cri import CriClient, EventListener
from tests.support.net.byte_seams import Caller, Stub

SETTLE_PAUSE = 0.05


@dataclass
class Node:
    """A relay that keeps records, and a client of it."""

    runtime: FakeRuntime
    stack: Stack
    store: Store
    sync: Synchronizer
    exits: ExitWatcher
    clock: list[float]
    caller: Caller

    async def call(self, method: str, request: Any, **more: Any) -> Any:
        """A call that succeeds; the parsed response."""
        reply = await self.caller(request.SerializeToString(), path=_path(method), **more)
        return getattr(cri, f"{method}Response").FromString(reply.message(1 << 25))

    async def code(self, method: str, request: Any, **more: Any) -> int:
        """The status code of a call."""
        reply = await self.caller(request.SerializeToString(), path=_path(method), **more)
        return reply.status.code if reply.status is not None else 0

    async def run(self, name: str = "web") -> tuple[str, cri.PodSandboxConfig]:
        """A pod."""
        config = pod_config(name, labels={"app": name}, annotations={"note": "1"})
        return (await self.call("RunPodSandbox", run_request(config, "runc"))).pod_sandbox_id, config

    async def create(self, pod_id: str, config: cri.PodSandboxConfig, name: str = "app") -> str:
        """A container."""
        container = container_config(
            config,
            name,
            envs={"A": "1=2", "B": ""},
            resources=linux_resources(cpu_request=500, cpu_limit=1000, memory_limit=64 << 20),
        )
        response = await self.call("CreateContainer", create_request(pod_id, config, container))
        return str(response.container_id)

    async def pod_with_container(self) -> tuple[str, str]:
        """Both, started."""
        pod_id, config = await self.run()
        container_id = await self.create(pod_id, config)
        await self.call("StartContainer", cri.StartContainerRequest(container_id=container_id))
        return pod_id, container_id

    async def rebuilt(self) -> Store:
        """What a relay that starts now would know."""
        store = Store()
        sync = Synchronizer(store, InternalCalls(self.stack.relay, "test", None))
        assert await sync.resync()
        await sync.close()
        return store


def _path(method: str) -> bytes:
    return f"/runtime.v1.RuntimeService/{method}".encode()


@asynccontextmanager
async def node(scratch: Path, runtime: FakeRuntime, *above: Any) -> AsyncIterator[Node]:
    """Everything but the runtime's own socket."""
    store = Store()
    parts: dict[str, InternalCalls] = {}

    async def ask(method: str, message: bytes) -> bytes:
        return await parts["calls"](method, message)

    sync = Synchronizer(store, ask, settle_pause=SETTLE_PAUSE)
    bookkeeper = StoreUpdater(store, sync)
    clock = [0.0]
    stacks: list[Stack] = []
    exits = ExitWatcher(sync, lambda: clock[0], lambda: stacks[0].relay.refresh())
    async with relay_stack(
        scratch / "relay.sock", scratch / "runtime.sock", interceptors=[*above, bookkeeper], taps=[exits]
    ) as stack:
        stacks.append(stack)
        parts["calls"] = InternalCalls(stack.relay, "store", bookkeeper)
        stack.runtime.on_up = lambda: sync.resync_soon(completely=True)
        caller = Caller(stack.socket)
        try:
            yield Node(runtime, stack, store, sync, exits, clock, caller)
        finally:
            await caller.upstream.close()
            await sync.close()


@pytest.fixture
async def served(scratch: Path) -> AsyncIterator[FakeRuntime]:
    """A runtime on its socket."""
    runtime = FakeRuntime()
    async with serve_runtime(scratch / "runtime.sock", runtime):
        yield runtime


@pytest.fixture
async def it(scratch: Path, served: FakeRuntime) -> AsyncIterator[Node]:
    """A relay without other interceptors."""
    async with node(scratch, served) as it:
        await eventually(lambda: it.sync.in_step, "the run at the first connection")
        yield it


async def pin(call: Call, proceed: Proceed) -> Reply:
    """Somebody who changes what containers get and where pods go."""
    if call.method.name == "RunPodSandbox":
        call.request.config.linux.cgroup_parent = "/elsewhere"
    elif call.method.name == "CreateContainer":
        call.request.config.linux.resources.cpuset_cpus = "2-3"
        call.request.config.linux.resources.cpu_shares = 7
    else:
        call.request.linux.cpuset_cpus = "4"
    return await proceed()


PINNED = ("RunPodSandbox", "CreateContainer", "UpdateContainerResources")


# -- life


async def test_full_life(it: Node) -> None:
    """Each confirmed step changes the record, removal ends it."""
    pod_id, config = await it.run()
    pod = it.store.pods[pod_id]
    assert (pod.name, pod.namespace, pod.uid) == ("web", "default", config.metadata.uid)
    assert (pod.runtime_handler, pod.ready, pod.annotations) == ("runc", True, {"note": "1"})
    assert pod.cgroup_parent == pod.requested_cgroup_parent == config.linux.cgroup_parent
    container_id = await it.create(pod_id, config)
    container = it.store.containers[container_id]
    assert (container.pod_id, container.name, container.state) == (pod_id, "app", ContainerState.CREATED)
    assert container.envs == (("A", b"1=2"), ("B", b""))
    assert container.resources.memory_limit_in_bytes == 64 << 20
    assert not container.diverges
    await it.call("StartContainer", cri.StartContainerRequest(container_id=container_id))
    assert it.store.containers[container_id].state is ContainerState.RUNNING
    await it.call("StopContainer", cri.StopContainerRequest(container_id=container_id))
    assert it.store.containers[container_id].state is ContainerState.EXITED
    await it.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=pod_id))
    assert not it.store.pods[pod_id].ready
    await it.call("RemoveContainer", cri.RemoveContainerRequest(container_id=container_id))
    assert not it.store.containers
    await it.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=pod_id))
    assert not it.store.pods


async def test_stopping_a_pod_ends_its_containers(it: Node) -> None:
    """The runtime kills them with the pod."""
    pod_id, container_id = await it.pod_with_container()
    await it.call("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=pod_id))
    assert it.store.containers[container_id].state is ContainerState.EXITED


async def test_failed_calls_change_nothing(it: Node) -> None:
    """Records stay through failed stops and removals, and none appears for a failed create."""
    pod_id, container_id = await it.pod_with_container()
    before = (dict(it.store.pods), dict(it.store.containers))
    methods = ("StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox", "UpdateContainerResources")
    for method in (*methods, "CreateContainer", "RunPodSandbox"):
        it.runtime.fail(method, Code.INTERNAL)
    for method, request in (
        ("StopContainer", cri.StopContainerRequest(container_id=container_id)),
        ("RemoveContainer", cri.RemoveContainerRequest(container_id=container_id)),
        ("StopPodSandbox", cri.StopPodSandboxRequest(pod_sandbox_id=pod_id)),
        ("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=pod_id)),
        ("UpdateContainerResources", cri.UpdateContainerResourcesRequest(container_id=container_id)),
        ("CreateContainer", create_request(pod_id, pod_config("web"), container_config(pod_config("web"), "two"))),
        ("RunPodSandbox", run_request(pod_config("other"))),
    ):
        assert await it.code(method, request) == Code.INTERNAL
    assert (dict(it.store.pods), dict(it.store.containers)) == before
    assert len(it.store.pending) == 0


@pytest.mark.parametrize("method", ["StopContainer", "RemoveContainer", "StopPodSandbox", "RemovePodSandbox"])
async def test_what_the_runtime_does_not_know_is_gone(it: Node, method: str) -> None:
    """NOT_FOUND on stop or remove ends the record."""
    pod_id, container_id = await it.pod_with_container()
    it.runtime.fail(method, Code.NOT_FOUND)
    about_pod = method.endswith("PodSandbox")
    request: Any = getattr(cri, f"{method}Request")(
        **({"pod_sandbox_id": pod_id} if about_pod else {"container_id": container_id})
    )
    assert await it.code(method, request) == Code.NOT_FOUND
    assert (len(it.store.containers), len(it.store.pods)) == (0, 0 if about_pod else 1)


async def test_short_ids(it: Node) -> None:
    """The start of an id is as good as the id."""
    pod_id, container_id = await it.pod_with_container()
    await it.call("StopContainer", cri.StopContainerRequest(container_id=container_id[:13]))
    assert it.store.containers[container_id].state is ContainerState.EXITED
    await it.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=pod_id[:13]))
    assert (len(it.store.pods), len(it.store.containers)) == (0, 0)


async def test_unreadable_request_passes(it: Node) -> None:
    """A request nobody can parse reaches the runtime; nothing is recorded."""
    reply = await it.caller(b"\xff\xff", path=_path("RunPodSandbox"))
    assert reply.status is not None
    assert it.runtime.calls["RunPodSandbox"] == 0  # it arrived and the runtime itself could not read it
    assert (len(it.store.pods), len(it.store.pending)) == (0, 0)


async def test_many_cycles_leave_nothing(it: Node) -> None:
    """500 pods with a container come and go."""
    for number in range(500):
        pod_id, config = await it.run(f"pod-{number}")
        await it.create(pod_id, config)
        await it.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=pod_id))
    store = it.store
    leftovers = (store._pods, store._containers, store._members, store._changed, store._queries, store._diverging)
    assert [len(one) for one in leftovers] == [0] * 6
    assert (len(store.pending), len(it.sync._lookups), len(it.sync._wanted)) == (0, 0, 0)


async def test_restored_pod_is_found(it: Node) -> None:
    """RestorePod makes a pod with containers in one call."""
    pod_id, _ = await it.pod_with_container()
    await it.call("CheckpointPod", cri.CheckpointPodRequest(pod_sandbox_id=pod_id, output_path="/x"))
    request = cri.RestorePodRequest(checkpoint_path="/x", config=pod_config("again"))
    restored = (await it.call("RestorePod", request)).pod_sandbox_id
    await eventually(lambda: it.store.containers_of(restored), "the restored container")
    assert it.store.containers_of(restored)[0].state is ContainerState.RUNNING


# -- requested and real resources


async def test_changes_on_the_way_are_seen_and_kept(scratch: Path, served: FakeRuntime) -> None:
    """The record has what the runtime got and what was asked for; the request carries the difference."""
    async with node(scratch, served, Stub(pin, methods=PINNED)) as it:
        pod_id, container_id = await it.pod_with_container()
        pod, container = it.store.pods[pod_id], it.store.containers[container_id]
        assert (pod.cgroup_parent, container.cgroup_parent) == ("/elsewhere", "/elsewhere")
        assert pod.requested_cgroup_parent.startswith("/kubepods/burstable/pod")
        assert (container.resources.cpuset_cpus, container.requested.cpuset_cpus) == ("2-3", "")
        assert (container.resources.cpu_shares, container.requested.cpu_shares) == (7, 512)
        sent = served.requests_of("CreateContainer")[0].config
        assert sent.annotations[ANNOTATION] == '{"cpu_shares":512,"cpuset_cpus":""}'
        assert container.annotations == dict(sent.annotations)
        assert container_id in it.store.diverging


async def test_update_moves_both_sides(scratch: Path, served: FakeRuntime) -> None:
    """What the caller sends is requested; what our parts add is not."""
    async with node(scratch, served, Stub(pin, methods=PINNED)) as it:
        _, container_id = await it.pod_with_container()
        update = cri.UpdateContainerResourcesRequest(container_id=container_id)
        update.linux.cpu_shares = 99
        await it.call("UpdateContainerResources", update)
        container = it.store.containers[container_id]
        assert (container.resources.cpu_shares, container.requested.cpu_shares) == (99, 99)
        assert (container.resources.cpuset_cpus, container.requested.cpuset_cpus) == ("4", "")


async def test_own_update_leaves_the_requested_alone(it: Node) -> None:
    """A call of one of our parts changes what is, not what was asked for."""
    _, container_id = await it.pod_with_container()
    update = cri.UpdateContainerResourcesRequest(container_id=container_id)
    update.linux.cpuset_cpus = "1"
    await it.stack.relay.call(_path("UpdateContainerResources"), update.SerializeToString(), origin="policy")
    container = it.store.containers[container_id]
    assert (container.resources.cpuset_cpus, container.requested.cpuset_cpus) == ("1", "")


async def test_divergence_is_told_when_it_begins_and_ends(it: Node) -> None:
    """Once for the first container, once for the last."""
    told: list[bool] = []
    it.store.on_diverging = lambda: told.append(bool(it.store.diverging))
    _, container_id = await it.pod_with_container()
    update = cri.UpdateContainerResourcesRequest(container_id=container_id)
    update.linux.cpuset_cpus = "1"
    await it.stack.relay.call(_path("UpdateContainerResources"), update.SerializeToString(), origin="policy")
    await it.call("UpdateContainerResources", update)
    assert told == [True, False]


async def test_annotation_of_a_stranger_is_taken_away(it: Node) -> None:
    """Nobody else may say what was requested."""
    config = pod_config("liar", annotations={ANNOTATION: '{"cgroup_parent":"/root"}', "mine": "1"})
    pod_id = (await it.call("RunPodSandbox", run_request(config))).pod_sandbox_id
    assert it.store.pods[pod_id].annotations == {"mine": "1"}
    assert dict(it.runtime.sandboxes[pod_id].config.annotations) == {"mine": "1"}


async def test_pod_update(it: Node) -> None:
    """UpdatePodSandboxResources changes the record of the pod."""
    pod_id, _ = await it.run()
    request = cri.UpdatePodSandboxResourcesRequest(pod_sandbox_id=pod_id)
    request.resources.cpu_shares = 10
    request.overhead.memory_limit_in_bytes = 20
    await it.call("UpdatePodSandboxResources", request)
    pod = it.store.pods[pod_id]
    assert (pod.resources, pod.overhead) == (LinuxResources(cpu_shares=10), LinuxResources(memory_limit_in_bytes=20))


# -- outcome unknown


async def _cancelled_create(it: Node, when: str) -> str:
    pod_id, config = await it.run()
    stall = it.runtime.stall("CreateContainer", when)
    task = asyncio.create_task(it.create(pod_id, config))
    await stall.entered.wait()
    task.cancel()
    await asyncio.wait([task])
    await eventually(lambda: len(it.store.pending) == 1, "the create to be pending")
    stall.release()
    return pod_id


async def test_cancelled_create_that_happened(it: Node) -> None:
    """It is found under its name and recorded as it was sent."""
    pod_id = await _cancelled_create(it, "after")
    await it.sync.settle()
    (container,) = it.store.containers_of(pod_id)
    assert it.runtime.containers[container.id].config.metadata.name == container.name == "app"
    assert container.envs == (("A", b"1=2"), ("B", b""))
    assert len(it.store.pending) == 0


async def test_cancelled_create_that_did_not_happen(it: Node) -> None:
    """Two looks show nothing: it is dropped."""
    lists = it.runtime.calls["ListContainers"]
    pod_id = await _cancelled_create(it, "before")
    await it.sync.settle()
    assert (len(it.store.pending), it.store.containers_of(pod_id)) == (0, ())
    assert it.runtime.calls["ListContainers"] >= lists + 2  # a timer may be a little early: then one more


@pytest.mark.parametrize(("when", "pods"), [("before", 0), ("after", 1)])
async def test_pod_that_timed_out(it: Node, when: str, pods: int) -> None:
    """A deadline leaves the outcome open; the runtime is asked."""
    stall = it.runtime.stall("RunPodSandbox", when)
    code = await pass_deadline(
        lambda timeout: it.code("RunPodSandbox", run_request(pod_config("late")), timeout=timeout), stall.entered.is_set
    )
    assert code == Code.DEADLINE_EXCEEDED
    stall.release()
    await it.sync.settle()
    assert (len(it.store.pods), len(it.store.pending)) == (pods, 0)


async def test_doubtful_code_of_the_runtime(it: Node) -> None:
    """UNAVAILABLE after the work was done: the record comes all the same."""
    pod_id, config = await it.run()
    it.runtime.fail("CreateContainer", Code.UNAVAILABLE, times=1, when="after")
    request = create_request(pod_id, config, container_config(config))
    assert await it.code("CreateContainer", request) == Code.UNAVAILABLE
    await eventually(lambda: it.store.containers_of(pod_id), "the container")


async def test_create_lost_with_the_backend(scratch: Path) -> None:
    """It stays pending while the runtime is away and is settled when it is back."""
    runtime = FakeRuntime()
    async with node(scratch, runtime) as it:
        async with serve_runtime(scratch / "runtime.sock", runtime):
            pod_id, config = await it.run()
            stall = runtime.stall("CreateContainer", "after")
            request = create_request(pod_id, config, container_config(config))
            task = asyncio.create_task(it.code("CreateContainer", request))
            await stall.entered.wait()
        assert await task == Code.UNAVAILABLE
        assert len(it.store.pending) == 1
        runtime.clear()
        async with serve_runtime(scratch / "runtime.sock", runtime):
            await it.sync.settle()
            await eventually(lambda: it.store.containers_of(pod_id), "the container")
            assert len(it.store.pending) == 0


async def test_update_in_doubt_is_looked_at(it: Node) -> None:
    """The runtime did it, nobody heard: the record follows."""
    _, container_id = await it.pod_with_container()
    it.runtime.fail("UpdateContainerResources", Code.DEADLINE_EXCEEDED, when="after")
    update = cri.UpdateContainerResourcesRequest(container_id=container_id)
    update.linux.cpu_shares = 99
    await it.code("UpdateContainerResources", update)
    await eventually(lambda: it.store.containers[container_id].resources.cpu_shares == 99, "the new shares")
    assert not it.store.containers[container_id].diverges


async def test_create_reply_after_the_pod_went(it: Node) -> None:
    """The container went with its pod: no record appears."""
    pod_id, config = await it.run()
    stall = it.runtime.stall("CreateContainer", "after")
    task = asyncio.create_task(it.create(pod_id, config))
    await stall.entered.wait()
    await it.call("RemovePodSandbox", cri.RemovePodSandboxRequest(pod_sandbox_id=pod_id))
    stall.release()
    await task
    await it.runtime.wait_for_calls("ContainerStatus")
    await eventually(lambda: not it.sync._lookups, "the look-up to end")
    assert (len(it.store.pods), len(it.store.containers)) == (0, 0)


# -- behind our back


async def test_unknown_objects_are_looked_up(it: Node) -> None:
    """A container nobody announced is found, with its pod, by one question each."""
    (sandbox,) = it.runtime.populate(1)
    (container_id,) = sandbox.containers
    found = await asyncio.gather(*(it.sync.container(container_id[:20]) for _ in range(5)))
    assert {one[0].id for one in found if one} == {container_id}
    assert {one[1].id for one in found if one} == {sandbox.id}
    assert (it.runtime.calls["ContainerStatus"], it.runtime.calls["PodSandboxStatus"]) == (1, 1)
    assert (it.store.containers[container_id].pod_id, len(it.store.pods)) == (sandbox.id, 1)


async def test_what_does_not_exist_is_none(it: Node) -> None:
    """NOT_FOUND is an answer."""
    assert (await it.sync.pod("feed"), await it.sync.container("feed")) == (None, None)


async def test_create_in_an_unknown_pod(it: Node) -> None:
    """The pod was made at the runtime's own socket: both are known soon after."""
    config = pod_config("direct")
    sandbox = it.runtime.state.run_sandbox(config)
    container_id = await it.create(sandbox.id[:12], config)
    await eventually(lambda: it.store.containers.get(container_id), "the container")
    assert it.store.containers[container_id].pod_id == sandbox.id
    assert sandbox.id in it.store.pods


async def test_resync_adds_and_removes(it: Node) -> None:
    """After a run the store has what the runtime has."""
    it.runtime.populate(20, 3)
    assert await it.sync.resync()
    assert (len(it.store.pods), len(it.store.containers)) == (20, 60)
    for sandbox in list(it.runtime.sandboxes.values())[:5]:
        it.runtime.state.remove_sandbox(sandbox)
    assert await it.sync.resync()
    assert it.store.pods.keys() == it.runtime.sandboxes.keys()
    assert it.store.containers.keys() == it.runtime.containers.keys()


async def test_relist_keeps_what_came_meanwhile(it: Node) -> None:
    """A record younger than the question is not removed by its answer."""
    stall = it.runtime.stall("ListContainers", "after")
    run = asyncio.create_task(it.sync.resync())
    await stall.entered.wait()  # both lists are made; what comes now is in neither
    pod_id, container_id = await it.pod_with_container()
    stall.release()
    await run
    assert (list(it.store.pods), list(it.store.containers)) == ([pod_id], [container_id])
    assert it.store.containers[container_id].state is ContainerState.RUNNING


async def test_single_failures_are_tried_again(it: Node) -> None:
    """One object that cannot be read does not keep the others out."""
    it.runtime.populate(3)
    it.runtime.fail("ContainerStatus", Code.UNKNOWN, times=1)
    assert not await it.sync.resync()
    assert len(it.store.containers) == 2
    assert await it.sync.resync()
    assert len(it.store.containers) == 3


async def test_runtime_away(scratch: Path) -> None:
    """Lists fail: the store stays as it is and is brought in step when the runtime is there."""
    runtime = FakeRuntime()
    runtime.populate(2)
    async with node(scratch, runtime) as it:
        assert not await it.sync.resync()
        async with serve_runtime(scratch / "runtime.sock", runtime):
            await eventually(lambda: len(it.store.containers) == 2, "the store to be in step")


async def test_backend_restart_is_noticed(scratch: Path) -> None:
    """What changed while the runtime was away is known after it is back."""
    runtime = FakeRuntime()
    async with node(scratch, runtime) as it:
        async with serve_runtime(scratch / "runtime.sock", runtime):
            pod_id, container_id = await it.pod_with_container()
            await it.run("other")
        runtime.state.remove_sandbox(next(one for one in runtime.sandboxes.values() if one.id != pod_id))
        runtime.containers[container_id].resources.cpu_shares = 3
        async with serve_runtime(scratch / "runtime.sock", runtime):
            await eventually(lambda: list(it.store.pods) == [pod_id], "the other pod to be forgotten")
            await eventually(lambda: it.store.containers[container_id].resources.cpu_shares == 3, "the new shares")
            assert not it.store.diverging


# -- exits


async def test_exit_is_learned_from_a_passing_list(it: Node) -> None:
    """A kubelet lists; the reply is read at the next tick."""
    lists = it.runtime.calls["ListContainers"]
    _, container_id = await it.pod_with_container()
    it.runtime.exit_container(container_id)
    (sandbox,) = it.runtime.populate(1)
    await it.call("ListContainers", cri.ListContainersRequest())
    assert it.store.containers[container_id].state is ContainerState.RUNNING
    it.exits.tick()
    assert it.store.containers[container_id].state is ContainerState.EXITED
    await eventually(lambda: it.store.containers_of(sandbox.id), "the new container")
    assert it.runtime.calls["ListContainers"] == lists + 1


async def test_vanished_container_is_learned_from_a_passing_list(it: Node) -> None:
    """It is not in the list any more."""
    _, container_id = await it.pod_with_container()
    it.runtime.state.remove_container(it.runtime.containers[container_id])
    await it.call("ListContainers", cri.ListContainersRequest(filter=cri.ContainerFilter()))
    it.exits.tick()
    assert not it.store.containers


async def test_filtered_list_teaches_nothing(it: Node) -> None:
    """What a filter leaves out exists all the same."""
    _, container_id = await it.pod_with_container()
    request = cri.ListContainersRequest()
    request.filter.state.state = cri.CONTAINER_EXITED
    await it.call("ListContainers", request)
    it.exits.tick()
    assert container_id in it.store.containers


async def test_exit_is_learned_after_an_event(it: Node) -> None:
    """An evented kubelet hardly ever lists: the event it gets makes us ask at the next tick."""
    _, container_id = await it.pod_with_container()
    with CriClient(it.stack.socket) as kubelet, EventListener(kubelet) as listener:

        def heard() -> bool:
            it.runtime.populate(1)
            return bool(listener.events)

        await eventually(heard, "the events to begin")
        it.runtime.exit_container(container_id)
        await eventually(lambda: cri.CONTAINER_STOPPED_EVENT in listener.kinds(container_id), "the event")
        it.exits.tick()
        await eventually(lambda: it.store.containers[container_id].state is ContainerState.EXITED, "the list")


async def test_poll_only_where_nobody_lists(it: Node) -> None:
    """Five seconds without lists make us ask; a kubelet that lists keeps us quiet."""
    lists = it.runtime.calls["ListContainers"]
    _, container_id = await it.pod_with_container()
    it.runtime.exit_container(container_id)
    it.clock[0] = 4.0
    it.exits.tick()
    await it.call("ListPodSandbox", cri.ListPodSandboxRequest())
    await it.call("ListContainers", cri.ListContainersRequest(filter=cri.ContainerFilter(id="x")))
    assert it.runtime.calls["ListContainers"] == lists + 1
    it.clock[0] = 5.0
    it.exits.tick()
    await eventually(lambda: it.store.containers[container_id].state is ContainerState.EXITED, "the poll")


# -- restarts of ours


def _same(live: Store, rebuilt: Store) -> None:
    for kind, mine, theirs in ((Pod, live.pods, rebuilt.pods), (Container, live.containers, rebuilt.containers)):
        assert mine.keys() == theirs.keys()
        for object_id in mine:
            for name in kind.__dataclass_fields__:
                assert getattr(mine[object_id], name) == getattr(theirs[object_id], name), name


@pytest.mark.parametrize("systemd", [False, True])
async def test_rebuilt_records_equal_live_ones(scratch: Path, systemd: bool) -> None:
    """Field by field, with everything changed on the way."""
    runtime = FakeRuntime(identity=FakeIdentity(systemd_cgroups=systemd))
    async with (
        serve_runtime(scratch / "runtime.sock", runtime),
        node(scratch, runtime, Stub(pin, methods=("CreateContainer",))) as it,
    ):
        config = pod_config("web", labels={"a": "b"}, annotations={"c": "d"}, systemd=systemd)
        config.linux.overhead.cpu_shares = 5
        config.linux.resources.memory_limit_in_bytes = 6
        pod_id = (await it.call("RunPodSandbox", run_request(config, "runc"))).pod_sandbox_id
        resources = linux_resources(cpu_limit=500, memory_limit=1 << 20)
        resources.hugepage_limits.add(page_size="2MB", limit=0)
        resources.unified["memory.high"] = "max"
        for name in ("one", "two", "three"):
            container = container_config(config, name, envs={"K": "v=w"}, resources=resources)
            created = await it.call("CreateContainer", create_request(pod_id, config, container))
            if name == "two":
                await it.call("StartContainer", cri.StartContainerRequest(container_id=created.container_id))
            if name == "three":
                update = cri.UpdateContainerResourcesRequest(container_id=created.container_id)
                update.linux.cpu_period = 50_000
                await it.call("UpdateContainerResources", update)
        assert len(it.store.diverging) == 3
        _same(it.store, await it.rebuilt())


async def test_field_updated_later_reports_what_it_is(scratch: Path, served: FakeRuntime) -> None:
    """After a restart the annotation counts only for what is still as it was created."""
    async with node(scratch, served, Stub(pin, methods=("CreateContainer",))) as it:
        _, container_id = await it.pod_with_container()
        update = cri.UpdateContainerResourcesRequest(container_id=container_id)
        update.linux.cpu_shares = 300
        await it.call("UpdateContainerResources", update)
        container = (await it.rebuilt()).containers[container_id]
        assert (container.resources.cpu_shares, container.requested.cpu_shares) == (300, 300)
        assert (container.resources.cpuset_cpus, container.requested.cpuset_cpus) == ("2-3", "")


async def test_replaced_pod_parent_survives(scratch: Path, served: FakeRuntime) -> None:
    """The cgroup a pod was meant for is known after a restart."""
    async with node(scratch, served, Stub(pin, methods=("RunPodSandbox",))) as it:
        await it.run()
        _same(it.store, await it.rebuilt())


async def test_older_api_version(scratch: Path) -> None:
    """A runtime that knows v1alpha2 only is asked in its own version, after one attempt."""
    runtime = FakeRuntime()
    runtime.populate(3)
    server = await serve(scratch / "runtime.sock", runtime.handlers(versions=("v1alpha2",)))
    try:
        async with node(scratch, runtime) as it:
            assert await it.sync.resync()
            assert len(it.store.containers) == 3
    finally:
        await server.close()
