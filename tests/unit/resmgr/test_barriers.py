"""What calls wait for, and what becomes of those that wait in vain."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Assignment
from interpose.core.policy.request import Key
from interpose.cri.methods import METHODS
from interpose.cri.parser import CriParser
from interpose.net.grpc.status import Code, RpcError
from interpose.relay.api import Body, Call
from interpose.resmgr.barriers import CallBarriers, caller_request
from interpose.resmgr.counters import PolicyCounters
from tests.support.policy.node import PolicyNode

UPDATE = "UpdateContainerResources"


def call(deadline: float | None = None) -> Call:
    """A call with so many seconds left."""
    body = Body(
        cri.UpdateContainerResourcesRequest(container_id="c").SerializeToString(), CriParser(f"{UPDATE}Request")
    )
    return Call(method=METHODS[UPDATE], path=b"/", body=body, deadline=deadline)


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """CPU 0 of 16 is reserved; one container has CPUs 2-3 alone, one shares the rest."""
    node = PolicyNode()
    node.add("db", 2000)
    node.add("web", 100, "burstable")
    yield node
    await node.close()


async def started(node: PolicyNode) -> tuple[CallBarriers, PolicyCounters, Key, Key]:
    """Everything is in step: the one with CPUs of its own, and the other one."""
    await node.start()
    await node.in_step()
    grants = node.tracker.allocations.policy.state.grants
    own, shared = sorted(node.tracker.allocations.by_key, key=lambda key: not grants[key].exclusive)
    counters = PolicyCounters(lambda: 0.0)
    return CallBarriers(node.tracker, counters, node.now), counters, own, shared


def has_all(node: PolicyNode, key: Key) -> None:
    """A container has all CPUs, and the books know it."""
    node.runtime.containers[node.tracker.allocations.by_key[key].id].resources.cpuset_cpus = "0-15"
    assert node.tracker.updaters.observe(key, Assignment(cpus=CpuSet.parse("0-15")))


def test_what_a_caller_asked_for_is_not_what_others_made_of_it() -> None:
    """The very message as long as nobody has changed it."""
    made = call()
    assert caller_request(made) is made.request
    made.request.linux.cpu_shares = 3
    assert caller_request(made).linux.cpu_shares == 0


async def test_books_that_are_not_made_in_time(node: PolicyNode) -> None:
    """Without tracked containers there is no decision."""
    barriers = CallBarriers(node.tracker, PolicyCounters(lambda: 0.0), node.now)
    with pytest.raises(RpcError) as caught:
        await barriers.wait_until_ready(call(0.01))
    assert caught.value.code is Code.UNAVAILABLE
    await node.start()
    await barriers.wait_until_ready(call(0.0))


async def test_a_look_that_takes_too_long_is_none(node: PolicyNode) -> None:
    """The call goes on with what is known."""
    barriers, *_ = await started(node)
    stall = node.runtime.stall("ContainerStatus")
    await barriers.refresh(call(0.01), list(node.runtime.containers))
    assert stall.entered.is_set()
    stall.release()


async def test_an_update_that_failed_has_made_no_room(node: PolicyNode) -> None:
    """It is over, and the other one still has the CPUs."""
    barriers, counters, own, shared = await started(node)
    updater = node.tracker.updaters.by_key[shared]
    has_all(node, shared)
    node.runtime.fail(UPDATE, Code.INTERNAL, "no")
    await barriers.wait_for_room(call(), own)
    assert (counters.late, updater.permanent) == (1, True)
    node.runtime.clear(UPDATE)
    await barriers.wait_for_room(call(), own)
    assert counters.late == 1


async def test_room_is_waited_for_as_long_as_others_become_fewer(
    node: PolicyNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One more each time; when nobody moves any more, or the caller has no time left, the call goes on."""
    barriers, counters, own, shared = await started(node)
    left = [[shared] * 3, [shared] * 2, [shared], []]
    monkeypatch.setattr(node.tracker, "conflicting", lambda _: left.pop(0))
    await barriers.wait_for_room(call(), own)
    assert (left, counters.late) == ([], 0)
    left += [[shared] * 3, [shared] * 2, [shared] * 2]
    await barriers.wait_for_room(call(), own)
    assert (left, counters.late) == ([], 1)
    left += [[shared] * 3, [shared] * 2]
    await barriers.wait_for_room(call(0.0), own)
    assert (left, counters.late) == ([], 2)


async def test_nobody_makes_room_for_one_that_is_gone(node: PolicyNode) -> None:
    """Its pod was stopped meanwhile."""
    barriers, counters, own, _ = await started(node)
    node.tracker.release((own,))
    await barriers.wait_for_room(call(), own)
    assert counters.late == 0


async def test_a_new_container_loses_what_others_got_before_it_runs(node: PolicyNode) -> None:
    """Others got it while it was being made; one that cannot be updated in time is counted."""
    barriers, counters, _, shared = await started(node)
    container_id = node.tracker.allocations.by_key[shared].id
    await barriers.wait_for_excess(call(), shared)
    has_all(node, shared)
    await barriers.wait_for_excess(call(), shared)
    assert node.cpus(container_id) == "0-1,4-15"
    assert counters.late == 0
    has_all(node, shared)
    stall = node.runtime.stall(UPDATE)
    await barriers.wait_for_excess(call(0.01), shared)
    assert counters.late == 1
    stall.release()


async def test_others_grow_in_their_own_time(node: PolicyNode) -> None:
    """A caller waits a little for it."""
    barriers, _, own, shared = await started(node)
    stall = node.runtime.stall(UPDATE)
    await barriers.wait_for_growth(call(0.01), node.tracker.release((own,)))
    await asyncio.sleep(0)
    assert stall.waiting == 1
    stall.release()
    await node.in_step()
    assert node.cpus(node.tracker.allocations.by_key[shared].id) == "0-15"
