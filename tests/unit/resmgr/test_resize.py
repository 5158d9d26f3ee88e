"""Updates of the kubelet: what is decided, what they say when they reach the runtime, and what is taken back."""

import asyncio
from dataclasses import replace

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.request import Amounts, Key
from interpose.cri.store.requested import NOT_REQUESTED
from interpose.net.grpc.status import Code
from interpose.testing.eventually import eventually
from tests.support.policy.manager_caller import ManagerCaller, resize
from tests.support.policy.node import PolicyNode

UPDATE = "UpdateContainerResources"


async def test_a_resize_is_booked_and_constrained(node: PolicyNode, caller: ManagerCaller) -> None:
    """The policy's CPU set is in the very update of the kubelet, and that there is no quota."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    reply = await caller(resize(made, 4))
    assert reply.code == Code.OK
    assert len(node.own[0].split("-")) == 2
    sent = [request.linux for request in node.runtime.requests_of(UPDATE) if request.container_id == made]
    assert [(resources.cpu_quota, resources.cpuset_cpus) for resources in sent] == [(-1, node.own[0])]


async def test_a_resize_that_does_not_fit_is_refused(node: PolicyNode, caller: ManagerCaller) -> None:
    """The container keeps what it has."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    assert (await caller(resize(made, 16))).code == Code.RESOURCE_EXHAUSTED
    assert (node.own, node.cpus(made)) == (["2-3"], "2-3")


async def test_values_that_nobody_wants_are_no_resize(node: PolicyNode, caller: ManagerCaller) -> None:
    """Somebody puts them right, and says so."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    await caller(resize(made, 4), metadata=lambda: (NOT_REQUESTED,))
    assert node.own == ["2-3"]
    assert node.cpus(made) == "2-3"


async def test_updates_of_strangers_pass(caller: ManagerCaller) -> None:
    """The runtime says what there is to say."""
    assert (await caller(resize("nope", 4))).code == Code.NOT_FOUND


async def test_a_runtime_that_cannot_be_asked_does_not_stop_an_update(node: PolicyNode, caller: ManagerCaller) -> None:
    """It goes as it came."""
    node.runtime.fail("ContainerStatus", Code.UNAVAILABLE, "gone")
    assert (await caller(resize("nope", 4))).code == Code.NOT_FOUND


async def test_an_update_whose_caller_leaves_is_in_doubt(node: PolicyNode, caller: ManagerCaller) -> None:
    """What the container has is found out by sending it again."""
    made = (await caller.create(caller.pod("db"), 4000)).response.container_id
    await node.sync.resync()
    (shared,) = (container_id for container_id in node.runtime.containers if container_id != made)
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


async def test_what_others_wanted_is_counted(node: PolicyNode, caller: ManagerCaller) -> None:
    """By field, and by who wanted it."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    request = cri.UpdateContainerResourcesRequest(container_id=made)
    request.linux.cpuset_cpus = "0-15"
    await caller(request)
    assert node.interceptor.counters.overrides == {("cpuset_cpus", "the caller"): 1}
    assert node.cpus(made) == "2-3"


async def test_what_hook_servers_make_of_an_update_decides_nothing(node: PolicyNode, caller: ManagerCaller) -> None:
    """It reaches the runtime; who has CPUs alone is decided by what the kubelet wants."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id

    def hook(request: cri.UpdateContainerResourcesRequest) -> None:
        request.linux.cpu_shares = 1536

    update = cri.UpdateContainerResourcesRequest(container_id=made)
    update.linux.memory_limit_in_bytes = 1 << 29
    await caller(update, edit=hook)
    assert node.own == ["2-3"]
    (sent,) = (request.linux for request in node.runtime.requests_of(UPDATE) if request.container_id == made)
    assert (sent.cpu_shares, sent.cpuset_cpus) == (1536, "2-3")


async def test_others_that_cannot_be_made_smaller_are_told_of(node: PolicyNode, caller: ManagerCaller) -> None:
    """The container grows all the same."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    await node.in_step()
    node.runtime.fail(UPDATE, Code.INTERNAL, "the kernel says no", times=1)
    assert (await caller(resize(made, 4))).code == Code.OK
    assert node.interceptor.counters.late == 1
    assert node.own == ["1-4"]


async def test_who_leaves_before_the_update_is_sent_has_changed_nothing(
    node: PolicyNode, caller: ManagerCaller
) -> None:
    """Somebody else was telling the container something."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    await node.in_step()
    (shared,) = (container_id for container_id in node.runtime.containers if container_id != made)
    updater = node.tracker.updaters.by_key[node.tracker.allocations.by_id[made]]
    async with updater.lock:
        task = asyncio.create_task(caller(resize(made, 4)))
        await eventually(lambda: node.cpus(shared) == "0,5-15", "others to make room")
        for _ in range(5):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert node.own == ["2-3"]
    assert caller.passed.count(UPDATE) == 0
    assert updater.key not in node.tracker.updates
    await node.in_step()


@pytest.mark.parametrize("arrives", [False, True])
async def test_an_update_in_doubt_is_settled_by_what_the_runtime_shows(
    node: PolicyNode, caller: ManagerCaller, arrives: bool
) -> None:
    """The books believe it until then."""
    made = (await caller.create(caller.pod("db"), 4000)).response.container_id
    await node.sync.resync()
    held = node.tracker.allocations.by_key[node.tracker.allocations.by_id[made]]
    node.runtime.fail(UPDATE, Code.DEADLINE_EXCEEDED, "slow", times=1, when="after" if arrives else "before")
    await caller(resize(made, 2))
    assert held.request.milli == 2000
    await node.in_step()
    looks = node.runtime.calls["ContainerStatus"]
    node.reconciler.tick()
    await eventually(lambda: node.runtime.calls["ContainerStatus"] > looks, "a look")
    await eventually(lambda: held.request.milli == (2000 if arrives else 4000), "the update to be settled")
    await node.in_step()
    assert [node.cpus(made)] == node.own


async def test_a_second_update_settles_the_first(node: PolicyNode, caller: ManagerCaller) -> None:
    """The runtime took it, so what became of the one before does not matter."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    await node.sync.resync()
    key = node.tracker.allocations.by_id[made]
    stall = node.runtime.stall(UPDATE)
    task = asyncio.create_task(caller(resize(made, 1)))  # nobody has to shrink for that
    await stall.entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert key in node.tracker.updates
    stall.release()
    node.runtime.clear(UPDATE)
    assert (await caller(resize(made, 3))).code == Code.OK
    assert key not in node.tracker.updates
    assert node.tracker.allocations.by_key[key].request.milli == 3000


async def test_of_two_updates_at_once_the_one_the_runtime_took_last_counts(
    node: PolicyNode, caller: ManagerCaller
) -> None:
    """They were decided in another order: one had to wait for room."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    await node.in_step()
    (neighbour,) = (updater for updater in node.tracker.updaters.by_key.values() if updater.id != made)
    async with neighbour.lock:
        first = asyncio.create_task(caller(resize(made, 4)))
        await eventually(lambda: node.own == ["1-4"], "the decision")
        assert (await caller(resize(made, 1), deadline=0.1)).code == Code.OK
    assert (await first).code == Code.OK
    await node.in_step()
    assert node.runtime.containers[made].resources.cpu_shares == 4096
    assert [len(CpuSet.parse(cpus)) for cpus in node.own] == [4]


async def test_who_leaves_does_not_take_back_what_another_update_got(node: PolicyNode, caller: ManagerCaller) -> None:
    """Only what it had booked itself."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    await node.in_step()
    (neighbour,) = (updater for updater in node.tracker.updaters.by_key.values() if updater.id != made)
    async with neighbour.lock:
        first = asyncio.create_task(caller(resize(made, 4)))
        await eventually(lambda: node.own == ["1-4"], "the decision")
        assert (await caller(resize(made, 1), deadline=0.1)).code == Code.OK
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
    await node.in_step()
    assert [len(CpuSet.parse(cpus)) for cpus in node.own] == [1]


async def test_what_the_policy_has_no_room_for_is_known(node: PolicyNode, caller: ManagerCaller) -> None:
    """Two updates at once, and the runtime takes the larger one when its CPUs are somebody else's already."""
    made = (await caller.create(caller.pod("db"), 2000)).response.container_id
    await node.in_step()
    held = node.tracker.allocations.by_key[node.tracker.allocations.by_id[made]]
    (neighbour,) = (updater for updater in node.tracker.updaters.by_key.values() if updater.id != made)
    async with neighbour.lock:
        first = asyncio.create_task(caller(resize(made, 4)))
        await eventually(lambda: node.own == ["1-4"], "the decision")
        assert (await caller(resize(made, 1), deadline=0.1)).code == Code.OK
        other = replace(held.request, key=Key("other", "app"), amounts=Amounts(milli=13000))
        assert node.tracker.allocations.allocate(other).refusal is None
    assert (await first).code == Code.OK
    assert node.runtime.containers[made].resources.cpu_shares == 4096
    assert (held.request.milli, held.runtime_request.milli) == (1000, 4000)
    # Whoever asks for that again is not refused; an update that the runtime refuses changes nothing.
    assert (await caller(resize(made, 4))).code == Code.OK
    node.runtime.fail(UPDATE, Code.INTERNAL, "no")
    assert (await caller(resize(made, 2))).code == Code.INTERNAL
    node.runtime.clear(UPDATE)
    assert (held.request.milli, held.runtime_request.milli) == (1000, 4000)
    node.tracker.enforce_soon(node.tracker.release((other.key,)))
    await eventually(lambda: held.request.milli == 4000, "room for it")
    await node.in_step()
    assert [len(CpuSet.parse(cpus)) for cpus in node.own] == [4]
