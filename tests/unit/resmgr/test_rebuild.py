"""Books made anew, in turn and in slices."""

import asyncio

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Policy, Setup
from interpose.core.policy.decision import Grant
from interpose.core.policy.registry import make
from interpose.core.policy.request import Amounts, Key, Request
from interpose.resmgr.allocations import AllocationCandidate, Allocations
from interpose.resmgr.rebuild import LoopYielder, admit_in_order, find_refusals, rebuild_allocations
from tests.support.policy.machines import machine


def policy(name: str = "static", reserved: str = "0") -> Policy:
    """On 16 CPUs with cores of two neighbours."""
    return make(name, Setup(topology=machine("n4c16"), reserved=CpuSet.parse(reserved)))


def wants(name: str, milli: int) -> Request:
    """A container of a Guaranteed pod."""
    return Request(key=Key(name, "app"), pod=name, qos=KubeQos.GUARANTEED, amounts=Amounts(milli=milli))


def own(allocations: Allocations) -> dict[str, str]:
    """Who has which CPUs alone."""
    return {
        key.pod_id: str(grant.exclusive) for key, grant in allocations.policy.state.grants.items() if grant.exclusive
    }


def still() -> LoopYielder:
    """A slice that never ends."""
    return LoopYielder(lambda: 0.0)


async def test_who_can_stay_stays() -> None:
    """One that has to move does not take the CPUs of one that comes after it."""
    allocations, seen = Allocations(policy(), lambda: 0.0), list[str]()
    found = [
        AllocationCandidate(request=wants("moves", 2000), id="m", held=Grant(exclusive=CpuSet.parse("0-1"))),
        AllocationCandidate(request=wants("shares", 100), id="s", held=None),
        AllocationCandidate(request=wants("stays", 2000), id="t", held=Grant(exclusive=CpuSet.parse("2-3"))),
    ]
    await admit_in_order(found, allocations.keep, allocations.admit, lambda one, _: seen.append(one.id), still())
    assert own(allocations)["stays"] == "2-3"
    assert seen == ["t", "m", "s"]


async def test_a_slice_that_is_over_lets_others_run() -> None:
    """And the next one begins after them."""
    time, ran = 0.0, list[float]()
    yielder = LoopYielder(lambda: time)

    async def other() -> None:
        ran.append(time)

    task = asyncio.get_running_loop().create_task(other())
    await yielder.take()
    assert not ran
    time = 1.0
    await yielder.take()
    assert ran == [1.0]
    await task


async def test_what_happens_meanwhile_is_caught_up_on() -> None:
    """Somebody comes, somebody goes, one is resized and one gets its id while the new books are made."""
    old = Allocations(policy(), lambda: 0.0)
    for name, milli in (("goes", 2000), ("grows", 2000), ("named", 100)):
        old.allocate(wants(name, milli))
    old.outcomes["allocate", "refused"] = 7

    class Meanwhile(LoopYielder):
        async def take(self) -> None:
            if Key("comes", "app") not in old.by_key:
                old.release(Key("goes", "app"))
                old.resize(wants("grows", 4000))
                old.confirm(Key("named", "app"), "id")
                old.allocate(wants("comes", 1000))

    allocations = await rebuild_allocations(
        policy(), lambda: 0.0, lambda: old, earlier={}, yielder=Meanwhile(lambda: 0.0)
    )
    assert set(allocations.by_key) == set(old.by_key)
    assert {name: len(CpuSet.parse(cpus)) for name, cpus in own(allocations).items()} == {"grows": 4, "comes": 1}
    assert allocations.by_id == {"id": Key("named", "app")}
    assert allocations.outcomes["allocate", "refused"] == 7


async def test_amounts_without_room_are_known_to_the_new_books() -> None:
    """Granted or not, and whenever the container got them."""
    old = Allocations(policy(), lambda: 0.0)
    for name in ("before", "meanwhile"):
        old.allocate(wants(name, 2000))
    old.observe(wants("before", 99000))

    class Meanwhile(LoopYielder):
        async def take(self) -> None:
            old.observe(wants("meanwhile", 88000))

    allocations = await rebuild_allocations(
        policy(), lambda: 0.0, lambda: old, earlier={}, yielder=Meanwhile(lambda: 0.0)
    )
    assert {key.pod_id: held.runtime_request.milli for key, held in allocations.by_key.items()} == {
        "before": 99000,
        "meanwhile": 88000,
    }
    assert {name: len(CpuSet.parse(cpus)) for name, cpus in own(allocations).items()} == {"before": 2, "meanwhile": 2}


async def test_what_was_held_earlier_counts_more() -> None:
    """On the way back from a configuration that failed."""
    old = Allocations(policy(), lambda: 0.0)
    old.allocate(wants("db", 2000))
    before = {Key("db", "app"): Grant(exclusive=CpuSet.parse("8-9"))}
    allocations = await rebuild_allocations(policy(), lambda: 0.0, lambda: old, earlier=before, yielder=still())
    assert own(allocations) == {"db": "8-9"}


async def test_another_policy_takes_the_cpus_and_not_the_pools() -> None:
    """Whose names it does not know."""
    old = Allocations(policy(), lambda: 0.0)
    old.allocate(wants("db", 2000))
    held = own(old)
    allocations = await rebuild_allocations(
        policy("static-plus"), lambda: 0.0, lambda: old, earlier={}, yielder=still()
    )
    assert own(allocations) == held


async def test_who_loses_its_place_is_named_with_the_reason() -> None:
    """Those who had none before are not news."""
    old = Allocations(policy(), lambda: 0.0)
    old.allocate(wants("db", 8000))
    old.admit(AllocationCandidate(request=wants("big", 16000), id="b"))
    allocations = await rebuild_allocations(
        policy(reserved="0-8"), lambda: 0.0, lambda: old, earlier={}, yielder=still()
    )
    (refused,) = find_refusals(allocations, old)
    assert refused.startswith("container /db/app: CPUs of its own: 8 wanted, 7 free")
    assert find_refusals(allocations, allocations) == []
