"""Staying in step with a runtime that answers when the test says so."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.pod import ContainerState
from interpose.cri.store.convert import listed_containers
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.net.grpc.status import Code, RpcError
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from tests.support.lifetimes import lets_go


class Node:
    """A fake runtime behind a function."""

    def __init__(self) -> None:
        self.runtime = FakeRuntime()
        self.store = Store()
        self.sync = Synchronizer(self.store, self.call)
        self.broken: dict[str, bytes] = {}

    async def call(self, method: str, message: bytes) -> bytes:
        """Ask it."""
        request = getattr(cri, f"{method}Request").FromString(message)
        answer: bytes = (await self.runtime.call(method, request)).SerializeToString()
        return self.broken.get(method, answer)


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """A node with one pod and one container."""
    node = Node()
    node.runtime.populate(1)
    yield node
    await node.sync.close()


async def test_request_during_a_run_means_one_more(node: Node) -> None:
    """However many ask meanwhile."""
    stall = node.runtime.stall("ListPodSandbox")
    first = asyncio.create_task(node.sync.resync())
    await stall.entered.wait()
    others = [asyncio.create_task(node.sync.resync()) for _ in range(5)]
    await asyncio.sleep(0)
    stall.release()
    assert await asyncio.gather(first, *others) == [True] * 6
    assert node.runtime.calls["ListPodSandbox"] == 2


async def test_look_ups_are_bounded(node: Node) -> None:
    """At most eight at a time."""
    node.runtime.populate(30)
    stall = node.runtime.stall("PodSandboxStatus")
    run = asyncio.create_task(node.sync.resync())
    await node.runtime.wait_for_calls("PodSandboxStatus", 8)
    assert stall.waiting == 8
    stall.release()
    assert await run
    assert len(node.store.containers) == 31


async def test_waiting_caller_that_leaves_does_not_end_the_look_up(node: Node) -> None:
    """Others wait for the same answer."""
    (pod_id,) = node.runtime.sandboxes
    stall = node.runtime.stall("PodSandboxStatus")
    tasks = [asyncio.create_task(node.sync.pod(pod_id)) for _ in range(2)]
    await stall.entered.wait()
    tasks[0].cancel()
    stall.release()
    pod = await tasks[1]
    assert pod is not None
    assert node.runtime.calls["PodSandboxStatus"] == 1


async def test_pod_that_goes_while_it_is_looked_up(node: Node) -> None:
    """The answer is stale: it is asked for again, and is not there."""
    (pod_id,) = node.runtime.sandboxes
    stall = node.runtime.stall("PodSandboxStatus", "after")
    task = asyncio.create_task(node.sync.pod(pod_id))
    await stall.entered.wait()
    node.runtime.state.remove_sandbox(node.runtime.sandboxes[pod_id])
    node.store.remove_pod(pod_id)
    stall.release()
    assert await task is None
    assert not node.store.pods


async def test_container_that_changes_all_the_time(node: Node) -> None:
    """The look-up ends; nobody can tell what it has."""
    (container_id,) = node.runtime.containers
    ask = node.sync._call

    async def busy(method: str, message: bytes) -> bytes:
        answer = await ask(method, message)
        node.store.disturb(container_id)
        return answer

    node.sync._call = busy
    with pytest.raises(RpcError, match="changes faster"):
        await node.sync.container(container_id)
    assert not node.store.containers


async def test_unreadable_answer(node: Node) -> None:
    """An error of the call, not of ours."""
    node.broken["PodSandboxStatus"] = b"\xff\xff"
    with pytest.raises(RpcError, match="cannot be read"):
        await node.sync.pod(next(iter(node.runtime.sandboxes)))
    node.broken["ListPodSandbox"] = b"\xff\xff"
    assert not await node.sync.resync()


async def test_runtime_that_cannot_say(node: Node) -> None:
    """RpcError, and the next one may succeed."""
    (container_id,) = node.runtime.containers
    node.runtime.fail("ContainerStatus", Code.UNAVAILABLE, times=1)
    with pytest.raises(RpcError):
        await node.sync.container(container_id)
    assert await node.sync.container(container_id) is not None


async def test_pod_of_a_container_from_a_list(node: Node) -> None:
    """A runtime without verbose answers says it there."""
    (container_id,) = node.runtime.containers
    container = node.runtime.containers[container_id]
    bare = cri.ContainerStatusResponse(status=cri.ContainerStatus(id=container_id))
    node.broken["ContainerStatus"] = bare.SerializeToString()
    found = await node.sync.container(container_id)
    assert found is not None
    assert found[1].id == found[0].pod_id == container.sandbox_id


async def test_known_container_of_an_unknown_pod(node: Node) -> None:
    """Its pod is found; its record stays."""
    await node.sync.resync()
    ((container_id, before),) = node.store.containers.items()
    del node.store._pods[before.pod_id]
    found = await node.sync.container(container_id)
    assert found is not None
    assert found[0] is before
    assert found[1].id == before.pod_id


async def test_learning_looks_up_only_what_is_unknown(node: Node) -> None:
    """Known ids cost nothing; one look-up for those asked for several times."""
    await node.sync.resync()
    known = tuple(node.store.containers)
    (sandbox,) = node.runtime.populate(1)
    calls = node.runtime.calls["ContainerStatus"]
    for _ in range(3):
        node.sync.look_up_soon(containers=(*known, *sandbox.containers))
    await eventually(lambda: len(node.store.containers) == 2, "the new container")
    assert node.runtime.calls["ContainerStatus"] == calls + 1


async def test_list_does_not_undo_what_came_after_the_question(node: Node) -> None:
    """A container that was started meanwhile runs."""
    await node.sync.resync()
    (container,) = node.store.containers.values()
    mark = node.store.mark()
    node.store.put_container(container)
    listed = cri.ListContainersResponse()
    listed.containers.add(id=container.id, state=cri.CONTAINER_EXITED)
    items = listed_containers(listed.SerializeToString())
    node.sync.apply_container_list(items, mark)
    assert node.store.containers[container.id].state is ContainerState.RUNNING
    node.sync.apply_container_list(items, node.store.mark())
    assert node.store.containers[container.id].state is ContainerState.EXITED


async def test_complete_run_looks_at_what_is_known(node: Node) -> None:
    """What others changed at the runtime is taken over, and is no divergence."""
    await node.sync.resync()
    (container,) = node.runtime.containers.values()
    container.resources.cpuset_cpus = "1"
    await node.sync.resync()
    assert node.store.containers[container.id].resources.cpuset_cpus == ""
    await node.sync.resync(completely=True)
    assert node.store.containers[container.id].resources.cpuset_cpus == "1"
    assert not node.store.diverging


async def test_second_look_finds_the_cgroup(node: Node) -> None:
    """Where a container is says the runtime; a record may have guessed."""
    await node.sync.resync()
    (container,) = node.store.containers.values()
    node.store.put_container(replace(container, cgroup_parent="/guessed"))
    node.sync.refresh_soon(container.id)
    await eventually(
        lambda: node.store.containers[container.id].cgroup_parent == container.cgroup_parent, "the cgroup to be known"
    )


async def test_trouble_is_told_once(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """A runtime that is away for long does not fill the log."""
    node.runtime.fail("ListPodSandbox", Code.UNAVAILABLE)
    for _ in range(3):
        assert not await node.sync.resync()
    assert [record.levelname for record in caplog.records if record.levelname != "DEBUG"] == ["WARNING"]


async def test_container_whose_pod_is_not_known_exists_all_the_same(node: Node) -> None:
    """It must not pass for something the runtime does not have."""
    (container_id,) = node.runtime.containers
    node.runtime.fail("PodSandboxStatus", Code.NOT_FOUND, "no such sandbox")
    with pytest.raises(RpcError, match="does not know the pod"):
        await node.sync.container(container_id)


async def test_failed_second_looks_are_due_again(node: Node) -> None:
    """After a restart of the runtime: a record that could not be compared is compared at the next run."""
    await node.sync.resync()
    (container,) = node.runtime.containers.values()
    container.resources.cpu_shares = 777
    node.runtime.fail("ContainerStatus", Code.UNAVAILABLE, "busy", times=1)
    assert not await node.sync.resync(completely=True)
    assert await node.sync.resync()
    assert node.store.containers[container.id].resources.cpu_shares == 777


@pytest.mark.parametrize(
    ("note", "requested"),
    [('{"cpu_shares":400}', 400), ("{}", 102), ("no JSON", 102)],
    ids=["other", "same", "damaged"],
)
async def test_what_a_predecessor_knew_counts_for_new_records(node: Node, note: str, requested: int) -> None:
    """Once: from then on we see the calls ourselves."""
    (container_id,) = node.runtime.containers
    node.sync.inherit({container_id: note, "gone": "{}"})
    await node.sync.resync()
    assert node.store.containers[container_id].requested.cpu_shares == requested


@pytest.mark.parametrize("notes", [None, [], {"c": 3}], ids=repr)
async def test_strange_legacy_is_no_trouble(node: Node, notes: object) -> None:
    """A predecessor of another version may say anything."""
    node.sync.inherit(notes)
    assert await node.sync.resync()


async def test_second_look_at_what_is_gone_removes_it(node: Node) -> None:
    """Unless the record is newer than the answer."""
    await node.sync.resync()
    (container,) = node.store.containers.values()
    node.runtime.state.remove_container(node.runtime.containers[container.id])
    stall = node.runtime.stall("ContainerStatus")
    look = asyncio.create_task(node.sync.refresh(container.id))
    await stall.entered.wait()
    node.store.put_container(replace(container, attempt=1))
    stall.release()
    await look
    assert container.id in node.store.containers
    await node.sync.refresh(container.id)
    assert container.id not in node.store.containers


@pytest.mark.parametrize("look", ["list", "status"])
async def test_one_that_runs_unlike_its_record_is_told_of(node: Node, look: str) -> None:
    """Its start did not pass here. One that ends is nothing to tell of."""
    (container,) = node.runtime.containers.values()
    await node.sync.resync()
    record = node.store.containers[container.id]
    started: list[str] = []
    for listener in (None, started.append):
        node.sync.on_started = listener
        node.store.put_container(replace(record, state=ContainerState.CREATED))
        await node.sync.resync(completely=look == "status")
        assert node.store.containers[container.id].state is ContainerState.RUNNING
    assert started == [container.id]
    node.runtime.exit_container(container.id)
    await node.sync.resync(completely=look == "status")
    assert started == [container.id]


async def test_error_of_a_look_up_keeps_nobody(node: Node) -> None:
    """Whoever waits for it may have a large request."""
    node.runtime.fail("PodSandboxStatus", Code.UNAVAILABLE, "away")
    assert await lets_go(lambda: node.sync.pod("x"), RpcError)
