"""Books that are not what the node is are put right."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import ContainerState
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.request import Amounts, Key
from interpose.net.grpc.status import Code
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.control.pending_updates import PendingUpdate
from interpose.testing.eventually import eventually
from tests.support.policy.node import PolicyNode, running, static

UPDATE = "UpdateContainerResources"
ALL = "0-15"


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """CPU 0 of 16 is reserved; one container has CPUs 2-3 alone, one shares the rest."""
    async with running(("db", 2000, "guaranteed"), ("web", 100, "burstable")) as node:
        yield node


def ids(node: PolicyNode) -> tuple[str, str]:
    """The containers: with CPUs of its own, and sharing."""
    grants = node.tracker.allocations.policy.state.grants
    own, shared = sorted(
        node.tracker.allocations.by_key.values(), key=lambda held: not grants[held.request.key].exclusive
    )
    return own.id, shared.id


def ticks(node: PolicyNode, count: int) -> None:
    for _ in range(count):
        node.reconciler.tick()


async def test_one_that_ended_unnoticed_is_released(node: PolicyNode) -> None:
    """Its record says so, but the books were not told."""
    own, shared = ids(node)
    node.store.on_container = None
    node.store.put_container(replace(node.store.containers[own], state=ContainerState.EXITED))
    ticks(node, 9)
    assert node.own == ["2-3"]
    ticks(node, 1)
    assert node.own == []
    await eventually(lambda: node.cpus(shared) == ALL, "the others to grow")


async def test_one_without_a_record_is_looked_for_first(node: PolicyNode) -> None:
    """Perhaps nobody has looked it up yet."""
    own, shared = ids(node)
    node.store.on_container = None
    node.store.remove_container(own)
    ticks(node, 10)
    await eventually(lambda: own in node.store.containers, "the record")
    ticks(node, 10)
    assert node.own == ["2-3"]
    node.runtime.state.remove_container(node.runtime.containers[own])
    node.store.remove_container(own)
    ticks(node, 10)
    assert node.own == ["2-3"]
    ticks(node, 10)
    assert node.own == []
    await eventually(lambda: node.cpus(shared) == ALL, "the others to grow")


async def test_as_long_as_the_runtime_does_not_tell_nobody_is_gone(node: PolicyNode) -> None:
    """It may be there."""
    own, _ = ids(node)
    node.store.on_container = None
    node.store.remove_container(own)
    node.runtime.fail("ListContainers", Code.UNAVAILABLE, "away")
    node.runtime.fail("ContainerStatus", Code.UNAVAILABLE, "away")
    assert not await node.sync.resync()
    ticks(node, 30)
    assert node.own == ["2-3"]


async def test_one_that_came_unnoticed_is_adopted(node: PolicyNode) -> None:
    """The store knows it, the books do not."""
    node.store.on_container = None
    new = node.add("new", 2000)
    await node.sync.container(new)
    assert new not in node.tracker.allocations.by_id
    ticks(node, 10)
    assert new in node.tracker.allocations.by_id
    await node.in_step()
    assert node.own == ["2-3", node.cpus(new)]


async def test_a_wish_that_got_lost_is_carried_out(node: PolicyNode) -> None:
    """But one that failed waits for its pause."""
    own, shared = ids(node)
    node.store.on_container = None
    node.store.put_container(replace(node.store.containers[own], state=ContainerState.EXITED))
    node.tracker.release((node.tracker.allocations.by_id[own],))  # and nobody carries it out
    assert node.tracker.updaters.without_retry() == [node.tracker.allocations.by_id[shared]]
    node.runtime.fail(UPDATE, Code.INTERNAL, "no", times=1)
    ticks(node, 10)
    await eventually(lambda: node.tracker.updaters.without_retry() == [], "the update to fail")
    await eventually(lambda: node.cpus(shared) == ALL, "the container to grow")


async def test_while_other_books_are_made_nothing_is_compared(node: PolicyNode) -> None:
    """Nor when somebody else keeps them."""
    own, _ = ids(node)
    node.store.on_container = None
    node.store.put_container(replace(node.store.containers[own], state=ContainerState.EXITED))
    node.tracker.retire()
    ticks(node, 10)
    assert node.own == ["2-3"]


# -- updates in doubt


def doubt(node: PolicyNode, milli: int) -> Key:
    """The books believe that a container has other amounts than the runtime shows."""
    key = node.tracker.allocations.by_id[ids(node)[0]]
    held = node.tracker.allocations.by_key[key]
    before = held.request
    had = node.store.containers[held.id].resources
    asked = replace(had, cpu_quota=milli * 100, cpuset_cpus="")
    amounts = replace(before.amounts, milli=milli, limit_milli=milli)
    node.tracker.enforce_soon(node.tracker.allocations.resize(replace(before, amounts=amounts)).changed)
    update = PendingUpdate(
        before=before, requested_before=had, resources_before=had, update=asked, evidence=frozenset({"cpu_quota"})
    )
    node.tracker.updates.add(update)
    return key


async def test_an_update_that_did_not_happen_is_taken_back(node: PolicyNode) -> None:
    """Not before the runtime was asked; after that whenever there is a record."""
    key = doubt(node, 4000)
    await node.in_step()
    node.store.put_container(node.store.containers[node.tracker.allocations.by_key[key].id])
    assert node.own == ["1-4"]
    ticks(node, 1)
    await eventually(lambda: node.own == ["2-3"], "the update to be taken back")
    await node.in_step()
    node.runtime.containers[ids(node)[0]].resources.cpu_quota = 400_000  # it arrives after all
    await node.sync.refresh(ids(node)[0])
    assert node.tracker.allocations.by_key[key].request.amounts.limit_milli == 4000


async def test_what_is_still_being_told_is_not_settled(node: PolicyNode) -> None:
    """The runtime may be at work on the update as well."""
    key = doubt(node, 4000)
    await node.in_step()
    updater = node.tracker.updaters.by_key[key]
    async with updater.lock:
        ticks(node, 1)
        await eventually(
            lambda: node.tracker.updates.amounts(key, node.store.containers[updater.id].resources), "a look"
        )
        assert node.own == ["1-4"]
    node.store.put_container(node.store.containers[updater.id])
    assert node.own == ["2-3"]


async def test_one_that_is_gone_is_not_looked_at(node: PolicyNode) -> None:
    """It went in the second that passed."""
    key = doubt(node, 4000)
    await node.in_step()
    looks = node.runtime.calls["ContainerStatus"]
    ticks(node, 1)
    node.tracker.release((key,))
    await eventually(lambda: not node.tracker.tasks, "nothing to be left to do")
    assert node.runtime.calls["ContainerStatus"] == looks


async def test_amounts_that_find_no_place_are_told_of(node: PolicyNode, caplog: pytest.LogCaptureFixture) -> None:
    """The container was not made smaller, and the CPUs are somebody else's by now."""
    key = doubt(node, 1000)
    await node.in_step()
    other = replace(node.tracker.allocations.by_key[key].request, key=Key("other", "app"), amounts=Amounts(milli=14000))
    assert node.tracker.allocations.allocate(other).refusal is None
    ticks(node, 1)
    text = "Container resized outside the relay and the policy cannot place it"
    await eventually(lambda: text in caplog.messages, "the refusal")
    held = node.tracker.allocations.by_key[key]
    assert (held.request.milli, held.runtime_request.milli) == (1000, 2000)
    ticks(node, 20)
    await eventually(lambda: not node.tracker.tasks, "later looks")
    assert caplog.messages.count(text) == 1
    node.tracker.enforce_soon(node.tracker.release((other.key,)))
    await eventually(lambda: node.own == [node.cpus(held.id)], "what it has")
    assert held.request.milli == 2000


# -- resizes around us


async def test_a_resize_around_us_is_followed(node: PolicyNode) -> None:
    """Somebody told the runtime directly; what only we or a hook server changed is none."""
    own, _ = ids(node)
    has = node.runtime.containers[own].resources
    has.memory_limit_in_bytes = 1 << 20
    has.cpu_shares, has.cpu_quota = 4096, 400_000
    await node.sync.refresh(own)
    await node.in_step()
    assert node.own == ["1-4"]
    record = node.store.containers[own]
    ours = replace(record, resources=replace(record.resources, cpu_shares=512))
    node.store.put_container(ours)
    node.store.put_container(replace(ours, requested=replace(record.requested, cpu_shares=512)))
    assert node.own == ["1-4"]


async def test_without_a_policy_resizes_are_remembered_for_the_next_one(node: PolicyNode) -> None:
    """Nobody decides about them meanwhile."""
    own, _ = ids(node)
    await node.reconfigurer.apply(Configuration(policy="none"))
    has = node.runtime.containers[own].resources
    has.cpu_shares, has.cpu_quota = 4096, 400_000
    await node.sync.refresh(own)
    await node.reconfigurer.apply(static())
    await node.in_step()
    assert [len(CpuSet.parse(cpus)) for cpus in node.own] == [4]


async def test_an_update_that_passes_us_is_not_taken_for_one_around_us(node: PolicyNode) -> None:
    """It is decided already, and its record is about to come."""
    own, _ = ids(node)
    key = node.tracker.allocations.by_id[own]
    record = node.store.containers[own]
    four = LinuxResources(cpu_shares=4096, cpu_quota=400_000)
    now = replace(record, requested=record.requested.overlay(four), resources=record.resources.overlay(four))
    with node.tracker.updates.track(key):
        node.store.put_container(now)
    assert node.own == ["2-3"]
