"""The books of one policy: who holds what, who has no place, and how it came to be."""

from dataclasses import replace

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Action, Assignment, Grant, RefusalKind
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.state import PolicyState
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.policy import StaticPolicy
from interpose.resmgr.allocations import AllocationCandidate, Allocations, MemoryWidening
from tests.support.policy.machines import machine


def asks(name: str, milli: int = 0, qos: KubeQos = KubeQos.GUARANTEED) -> Request:
    """A container and what it wants."""
    return Request(key=Key("pod", name), namespace="ns", pod="p", qos=qos, amounts=Amounts(milli=milli))


def comes(name: str, milli: int, cpus: str = "", container_id: str = "") -> AllocationCandidate:
    """One that runs, with CPUs of its own."""
    held = Grant(exclusive=CpuSet.parse(cpus)) if cpus else None
    return AllocationCandidate(request=asks(name, milli), id=container_id or f"id-{name}", held=held)


@pytest.fixture
def allocations() -> Allocations:
    """Policy static on four cores with two threads each; CPU 0 is reserved. Threads of a core: 0 and 4, 1 and 5 ..."""
    setup = Setup(topology=machine("smt8"), reserved=CpuSet.parse("0"))
    return Allocations(StaticPolicy(setup, StaticOptions()), lambda: 7.0)


def test_a_new_container_is_in_the_books_at_once(allocations: Allocations) -> None:
    """Without an id, until the runtime gives it one."""
    decision = allocations.allocate(asks("a", 2000))
    held = allocations.by_key[Key("pod", "a")]
    assert decision.grant is not None
    assert allocations.assignment(decision.key).cpus == decision.grant.exclusive
    assert (held.id, held.has_place, held.events[-1].at, held.events[-1].decision) == ("", True, 7.0, decision)
    assert allocations.find("id-a") is None
    allocations.confirm(decision.key, "id-a")
    assert allocations.find("id-a") is held
    assert allocations.titles() == {decision.key: "ns/p/a"}
    assert allocations.outcomes == {("allocate", "granted"): 1}


def test_a_refused_one_is_not(allocations: Allocations) -> None:
    """It does not run, so it needs no place."""
    decision = allocations.allocate(asks("a", 8000))
    assert decision.refusal is not None
    assert not allocations.by_key
    assert allocations.outcomes == {("allocate", "refused"): 1}


def test_another_attempt_under_the_same_name_replaces_the_request(allocations: Allocations) -> None:
    """There is one entry, with both decisions in its past."""
    allocations.allocate(asks("a", 1000))
    allocations.allocate(asks("a", 2000))
    (held,) = allocations.by_key.values()
    assert held.request.milli == 2000
    assert [event.request.milli for event in held.events if event.request is not None] == [1000, 2000]


def test_another_container_of_the_same_name_takes_the_place_of_the_first(allocations: Allocations) -> None:
    """The id of the first one is forgotten; an unknown name is nobody's."""
    allocations.allocate(asks("a", 1000))
    allocations.confirm(Key("pod", "a"), "first")
    allocations.confirm(Key("pod", "a"), "second")
    allocations.confirm(Key("pod", "who"), "third")
    assert allocations.by_id == {"second": Key("pod", "a")}


def test_one_that_runs_is_in_the_books_though_refused(allocations: Allocations) -> None:
    """It has what the policy gives to those it cannot decide about."""
    decision = allocations.admit(comes("big", 8000))
    assert decision.refusal is not None
    assert allocations.without_place == (Key("pod", "big"),)
    assert not allocations.by_key[Key("pod", "big")].has_place
    assert allocations.assignment(Key("pod", "big")) == Assignment(cpus=allocations.policy.fallback)
    assert allocations.by_id == {"id-big": Key("pod", "big")}


def test_those_without_a_place_follow_the_fallback(allocations: Allocations) -> None:
    """Whoever takes CPUs or gives them back changes theirs too, and they are named once."""
    allocations.admit(comes("big", 8000))
    taken = allocations.allocate(asks("a", 2000))
    assert taken.changed == (Key("pod", "big"),)
    assert allocations.assignment(Key("pod", "big")).cpus == allocations.policy.fallback
    assert allocations.release(Key("pod", "a")).changed == (Key("pod", "big"),)
    assert allocations.allocate(asks("s", 100)).changed == ()


def test_one_without_a_place_gets_one_when_something_is_free(allocations: Allocations) -> None:
    """Somebody left, or it wants less now."""
    allocations.allocate(asks("a", 4000))
    allocations.admit(comes("b", 6000))
    assert list(allocations.without_place) == [Key("pod", "b")]
    changed = allocations.release(Key("pod", "a")).changed
    assert changed == (Key("pod", "b"),)
    assert list(allocations.without_place) == []
    allocations.admit(comes("c", 4000))
    assert allocations.resize(asks("c", 1000)).refusal is None
    assert list(allocations.without_place) == []
    assert allocations.by_key[Key("pod", "c")].id == "id-c"


def test_a_resize_that_is_refused_changes_nothing_but_its_past(allocations: Allocations) -> None:
    """The request stays, too."""
    allocations.allocate(asks("a", 2000))
    before = allocations.assignment(Key("pod", "a"))
    decision = allocations.resize(asks("a", 8000))
    held = allocations.by_key[Key("pod", "a")]
    assert decision.refusal is not None
    assert decision.refusal.kind is RefusalKind.EXHAUSTED
    assert allocations.assignment(Key("pod", "a")) == before
    assert held.request.milli == 2000
    assert held.events[-1].decision == decision
    assert allocations.resize(asks("a", 4000)).refusal is None
    assert held.request.milli == 4000


def test_amounts_that_are_there_wait_for_room(allocations: Allocations) -> None:
    """The container keeps its grant until then."""
    a, b = Key("pod", "a"), Key("pod", "b")
    allocations.allocate(asks("a", 2000))
    allocations.allocate(asks("b", 4000))
    before = allocations.assignment(a)
    decision = allocations.observe(asks("a", 6000))
    assert decision is not None
    assert decision.refusal is not None
    assert (allocations.deferred, allocations.assignment(a)) == ((a,), before)
    held = allocations.by_key[a]
    assert (held.request.milli, held.runtime_request.milli) == (2000, 6000)
    assert allocations.observe(asks("a", 6000)) is None  # nothing new
    assert allocations.release(b).changed == (a,)
    assert (allocations.deferred, held.request.milli, held.runtime_request.milli) == ((), 6000, 6000)
    assert len(allocations.assignment(a).cpus or ()) == 6


def test_amounts_that_are_there_no_longer_wait_for_nothing(allocations: Allocations) -> None:
    """They are what was granted, or something else that is."""
    a = Key("pod", "a")
    allocations.allocate(asks("a", 2000))
    allocations.observe(asks("a", 9000))
    assert allocations.by_key[a].runtime_request.milli == 9000
    assert allocations.observe(asks("a", 2000)) is None
    assert allocations.by_key[a].runtime_request.milli == 2000
    allocations.observe(asks("a", 9000))
    assert allocations.resize(asks("a", 3000)).refusal is None
    assert (allocations.deferred, allocations.by_key[a].runtime_request.milli) == ((), 3000)


def test_one_without_a_place_waits_with_what_it_has_last(allocations: Allocations) -> None:
    """It has no grant to keep."""
    allocations.allocate(asks("a", 4000))
    allocations.admit(comes("b", 9000))
    assert allocations.observe(asks("b", 6000)) is not None
    assert (allocations.without_place, allocations.deferred) == ((Key("pod", "b"),), ())
    assert allocations.release(Key("pod", "a")).changed == (Key("pod", "b"),)
    assert allocations.by_key[Key("pod", "b")].request.milli == 6000


def test_what_is_gone_leaves_nothing(allocations: Allocations) -> None:
    """Nor does it count when nobody knows it."""
    free = allocations.policy.state.pools
    before = dict(free)
    allocations.admit(comes("a", 2000))
    allocations.allocate(asks("b", 2000))
    for name in ("a", "b", "who"):
        assert allocations.release(Key("pod", name)).action is Action.RELEASE
    assert (allocations.by_key, allocations.by_id, dict(free)) == ({}, {}, before)
    assert allocations.outcomes["release", "granted"] == 2


def test_who_keeps_its_cpus_is_told_from_who_does_not(allocations: Allocations) -> None:
    """The one that cannot leaves the books as they were."""
    pools = dict(allocations.policy.state.pools)
    assert allocations.keep(comes("moves", 2000, "0,4")) is None  # CPU 0 is reserved
    assert allocations.keep(comes("big", 8000, "1-7")) is None
    assert (dict(allocations.policy.state.pools), allocations.by_key, allocations.outcomes) == (pools, {}, {})
    kept = allocations.keep(comes("stays", 2000, "1,5"))
    assert kept is not None
    assert allocations.assignment(Key("pod", "stays")).cpus == CpuSet.parse("1,5")
    assert allocations.find("id-stays") is not None
    shares = allocations.keep(replace(comes("shares", 100), id=""))
    assert shares is not None
    assert allocations.by_key[Key("pod", "shares")].id == ""


def test_when_deciding_fails_there_is_shelter(allocations: Allocations) -> None:
    """The container runs, whatever is wrong with the policy."""
    decision = allocations.admit_without_place(comes("a", 2000), ZeroDivisionError("oh"))
    assert decision.refusal is not None
    assert decision.refusal.message == "the policy failed: ZeroDivisionError: oh"
    assert allocations.without_place == (Key("pod", "a"),)
    assert allocations.find("id-a") is not None
    assert allocations.outcomes == {("allocate", "failed"): 1}


def test_a_release_that_fails_can_be_repeated(allocations: Allocations, monkeypatch: pytest.MonkeyPatch) -> None:
    """The container is still in the books, so whoever compares them with the node finds it."""

    def fail(_key: Key) -> None:
        raise ZeroDivisionError("oh")

    allocations.allocate(asks("a", 2000))
    allocations.confirm(Key("pod", "a"), "id-a")
    with monkeypatch.context() as patched:
        patched.setattr(allocations.policy, "release", fail)
        with pytest.raises(ZeroDivisionError):
            allocations.release(Key("pod", "a"))
    assert allocations.by_id == {"id-a": Key("pod", "a")}
    allocations.release(Key("pod", "a"))
    assert (allocations.by_key, allocations.policy.state.grants) == ({}, {})


# -- memory nodes that run short


def pinned_to_memory() -> Allocations:
    """Policy static with memory: nodes 0 to 3 with CPUs 0-3, 4-7, 8-11, 12-15."""
    setup = Setup(topology=machine("n4c16"), reserved=CpuSet.parse("0"))
    return Allocations(StaticPolicy(setup, StaticOptions(pin_memory=True)), lambda: 7.0)


EVERY_NODE = CpuSet.parse("0-3")


def test_a_container_gets_all_memory_nodes_if_its_own_run_short() -> None:
    """Beside its grant, which says what it had otherwise."""
    allocations = pinned_to_memory()
    key = allocations.allocate(asks("a", 4000)).key
    assert str(allocations.assignment(key).mems) == "1"
    assert allocations.widen_memory(key, EVERY_NODE, "node 1 is short") == (key,)
    assert allocations.assignment(key).mems == EVERY_NODE
    assert allocations.by_key[key].widening == MemoryWidening(EVERY_NODE, 7.0, "node 1 is short")
    assert str(allocations.policy.state.grants[key].mems) == "1"


def test_nodes_that_are_not_written_any_more_are_not_widened() -> None:
    """Where the policy says nothing about memory nodes, there is nothing to add to."""
    allocations = pinned_to_memory()
    key = allocations.allocate(asks("a", 4000)).key
    allocations.widen_memory(key, CpuSet.parse("0-1"), "")
    allocations.policy.state.put(key, Grant(pools=("shared",)))
    assert allocations.assignment(key).mems is None


def test_other_allocations_inherit_what_was_widened() -> None:
    """As far as these nodes still exist; new containers have nothing to inherit."""
    old, new = pinned_to_memory(), pinned_to_memory()
    key = old.allocate(asks("a", 4000)).key
    old.widen_memory(key, EVERY_NODE, "short")
    new.allocate(asks("b", 1000))
    new.allocate(asks("a", 4000))
    new.inherit_widenings(old, CpuSet.parse("0-2"))
    assert new.by_key[key].widening == MemoryWidening(CpuSet.parse("0-2"), 7.0, "short")
    assert new.by_key[Key("pod", "b")].widening is None


def test_a_container_that_runs_keeps_what_was_widened() -> None:
    """It was saved with it; whether it keeps its CPUs or gets a place at all does not matter."""
    allocations = pinned_to_memory()
    extra = CpuSet.parse("0,3")
    for candidate in (comes("a", 4000, "4-7"), comes("b", 99_000)):
        decision = allocations.admit(replace(candidate, extra_mems=extra))
        widening = allocations.by_key[decision.key].widening
        assert widening is not None
        assert (widening.nodes, widening.reason) == (extra, "they were short before the relay started")
    kept = allocations.keep(replace(comes("c", 4000, "8-11"), extra_mems=extra))
    assert kept is not None
    assert str(allocations.assignment(kept.key).mems) == "0,2-3"


class WideningPolicy(StaticPolicy):
    """Knows which memory nodes come next, and that one container must stay where it is."""

    def widen(self, key: Key) -> tuple[Key, ...]:
        """One node more, unless it is called stuck."""
        if key.name == "stuck":
            return ()
        state: PolicyState = self.state
        grant = state.grants[key]
        state.put(key, replace(grant, mems=(grant.mems or EMPTY) | CpuSet.of([0])))
        return state.changes()


def test_a_policy_may_say_which_nodes_come_next() -> None:
    """They are in the grant then; one that it leaves where it is is not widened at all."""
    setup = Setup(topology=machine("n4c16"), reserved=CpuSet.parse("0"))
    allocations = Allocations(WideningPolicy(setup, StaticOptions(pin_memory=True)), lambda: 7.0)
    key, stuck = (allocations.allocate(asks(name, 4000)).key for name in ("a", "stuck"))
    assert allocations.widen_memory(key, EVERY_NODE, "short") == (key,)
    assert str(allocations.assignment(key).mems) == "0-1"
    assert allocations.by_key[key].widening == MemoryWidening(EMPTY, 7.0, "short")
    assert allocations.widen_memory(stuck, EVERY_NODE, "short") == ()
    assert (str(allocations.assignment(stuck).mems), allocations.by_key[stuck].widening) == ("2", None)
