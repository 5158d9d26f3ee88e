"""The books of one policy: who holds what, who has no place, and how it came to be."""

from dataclasses import replace

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.decision import Action, Assignment, Grant, Why
from interpose.core.policy.request import Amounts, Key, Request
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.policy import StaticPolicy
from interpose.resmgr.allocations import Coming, Ledger
from tests.support.policy.machines import machine


def asks(name: str, milli: int = 0, qos: KubeQos = KubeQos.GUARANTEED) -> Request:
    """A container and what it wants."""
    return Request(key=Key("pod", name), namespace="ns", pod="p", qos=qos, amounts=Amounts(milli=milli))


def comes(name: str, milli: int, cpus: str = "", container_id: str = "") -> Coming:
    """One that runs, with CPUs of its own."""
    held = Grant(exclusive=CpuSet.parse(cpus)) if cpus else None
    return Coming(request=asks(name, milli), id=container_id or f"id-{name}", held=held)


@pytest.fixture
def ledger() -> Ledger:
    """Policy static on four cores with two threads each; CPU 0 is reserved. Threads of a core: 0 and 4, 1 and 5 ..."""
    setup = Setup(topology=machine("smt8"), reserved=CpuSet.parse("0"))
    return Ledger(StaticPolicy(setup, StaticOptions()), lambda: 7.0)


def test_a_new_container_is_in_the_books_at_once(ledger: Ledger) -> None:
    """Without an id, until the runtime gives it one."""
    decision = ledger.allocate(asks("a", 2000))
    held = ledger.held[Key("pod", "a")]
    assert decision.grant is not None
    assert ledger.assignment(decision.key).cpus == decision.grant.exclusive
    assert (held.id, held.place, held.events[-1].at, held.events[-1].decision) == ("", True, 7.0, decision)
    assert ledger.find("id-a") is None
    ledger.confirm(decision.key, "id-a")
    assert ledger.find("id-a") is held
    assert ledger.titles() == {decision.key: "ns/p/a"}
    assert ledger.outcomes == {("allocate", "granted"): 1}


def test_a_refused_one_is_not(ledger: Ledger) -> None:
    """It does not run, so it needs no place."""
    decision = ledger.allocate(asks("a", 8000))
    assert decision.refusal is not None
    assert not ledger.held
    assert ledger.outcomes == {("allocate", "refused"): 1}


def test_another_attempt_under_the_same_name_replaces_the_request(ledger: Ledger) -> None:
    """There is one entry, with both decisions in its past."""
    ledger.allocate(asks("a", 1000))
    ledger.allocate(asks("a", 2000))
    (held,) = ledger.held.values()
    assert held.request.milli == 2000
    assert [one.request.milli for one in held.events if one.request is not None] == [1000, 2000]


def test_another_container_of_the_same_name_takes_the_place_of_the_first(ledger: Ledger) -> None:
    """The id of the first one is forgotten; an unknown name is nobody's."""
    ledger.allocate(asks("a", 1000))
    ledger.confirm(Key("pod", "a"), "first")
    ledger.confirm(Key("pod", "a"), "second")
    ledger.confirm(Key("pod", "who"), "third")
    assert ledger.by_id == {"second": Key("pod", "a")}


def test_one_that_runs_is_in_the_books_though_refused(ledger: Ledger) -> None:
    """It has what the policy gives to those it cannot decide about."""
    decision = ledger.take_over(comes("big", 8000))
    assert decision.refusal is not None
    assert ledger.without_place == (Key("pod", "big"),)
    assert not ledger.held[Key("pod", "big")].place
    assert ledger.assignment(Key("pod", "big")) == Assignment(cpus=ledger.policy.fallback)
    assert ledger.by_id == {"id-big": Key("pod", "big")}


def test_those_without_a_place_follow_the_fallback(ledger: Ledger) -> None:
    """Whoever takes CPUs or gives them back changes theirs too, and they are named once."""
    ledger.take_over(comes("big", 8000))
    taken = ledger.allocate(asks("a", 2000))
    assert taken.changed == (Key("pod", "big"),)
    assert ledger.assignment(Key("pod", "big")).cpus == ledger.policy.fallback
    assert ledger.release(Key("pod", "a")).changed == (Key("pod", "big"),)
    assert ledger.allocate(asks("s", 100)).changed == ()


def test_one_without_a_place_gets_one_when_something_is_free(ledger: Ledger) -> None:
    """Somebody left, or it wants less now."""
    ledger.allocate(asks("a", 4000))
    ledger.take_over(comes("b", 6000))
    assert list(ledger.without_place) == [Key("pod", "b")]
    changed = ledger.release(Key("pod", "a")).changed
    assert changed == (Key("pod", "b"),)
    assert list(ledger.without_place) == []
    ledger.take_over(comes("c", 4000))
    assert ledger.resize(asks("c", 1000)).refusal is None
    assert list(ledger.without_place) == []
    assert ledger.held[Key("pod", "c")].id == "id-c"


def test_a_resize_that_is_refused_changes_nothing_but_its_past(ledger: Ledger) -> None:
    """The request stays, too."""
    ledger.allocate(asks("a", 2000))
    before = ledger.assignment(Key("pod", "a"))
    decision = ledger.resize(asks("a", 8000))
    held = ledger.held[Key("pod", "a")]
    assert decision.refusal is not None
    assert decision.refusal.why is Why.EXHAUSTED
    assert ledger.assignment(Key("pod", "a")) == before
    assert held.request.milli == 2000
    assert held.events[-1].decision == decision
    assert ledger.resize(asks("a", 4000)).refusal is None
    assert held.request.milli == 4000


def test_amounts_that_are_there_wait_for_room(ledger: Ledger) -> None:
    """The container keeps its grant until then."""
    a, b = Key("pod", "a"), Key("pod", "b")
    ledger.allocate(asks("a", 2000))
    ledger.allocate(asks("b", 4000))
    before = ledger.assignment(a)
    decision = ledger.accept(asks("a", 6000))
    assert decision is not None
    assert decision.refusal is not None
    assert (ledger.unmet, ledger.assignment(a)) == ((a,), before)
    held = ledger.held[a]
    assert (held.request.milli, held.latest.milli) == (2000, 6000)
    assert ledger.accept(asks("a", 6000)) is None  # nothing new
    assert ledger.release(b).changed == (a,)
    assert (ledger.unmet, held.request.milli, held.latest.milli) == ((), 6000, 6000)
    assert len(ledger.assignment(a).cpus or ()) == 6


def test_amounts_that_are_there_no_longer_wait_for_nothing(ledger: Ledger) -> None:
    """They are what was granted, or something else that is."""
    a = Key("pod", "a")
    ledger.allocate(asks("a", 2000))
    ledger.accept(asks("a", 9000))
    assert ledger.held[a].latest.milli == 9000
    assert ledger.accept(asks("a", 2000)) is None
    assert ledger.held[a].latest.milli == 2000
    ledger.accept(asks("a", 9000))
    assert ledger.resize(asks("a", 3000)).refusal is None
    assert (ledger.unmet, ledger.held[a].latest.milli) == ((), 3000)


def test_one_without_a_place_waits_with_what_it_has_last(ledger: Ledger) -> None:
    """It has no grant to keep."""
    ledger.allocate(asks("a", 4000))
    ledger.take_over(comes("b", 9000))
    assert ledger.accept(asks("b", 6000)) is not None
    assert (ledger.without_place, ledger.unmet) == ((Key("pod", "b"),), ())
    assert ledger.release(Key("pod", "a")).changed == (Key("pod", "b"),)
    assert ledger.held[Key("pod", "b")].request.milli == 6000


def test_what_is_gone_leaves_nothing(ledger: Ledger) -> None:
    """Nor does it count when nobody knows it."""
    free = ledger.policy.book.pools
    before = dict(free)
    ledger.take_over(comes("a", 2000))
    ledger.allocate(asks("b", 2000))
    for name in ("a", "b", "who"):
        assert ledger.release(Key("pod", name)).action is Action.RELEASE
    assert (ledger.held, ledger.by_id, dict(free)) == ({}, {}, before)
    assert ledger.outcomes["release", "granted"] == 2


def test_who_keeps_its_cpus_is_told_from_who_does_not(ledger: Ledger) -> None:
    """The one that cannot leaves the books as they were."""
    pools = dict(ledger.policy.book.pools)
    assert ledger.keep(comes("moves", 2000, "0,4")) is None  # CPU 0 is reserved
    assert ledger.keep(comes("big", 8000, "1-7")) is None
    assert (dict(ledger.policy.book.pools), ledger.held, ledger.outcomes) == (pools, {}, {})
    kept = ledger.keep(comes("stays", 2000, "1,5"))
    assert kept is not None
    assert ledger.assignment(Key("pod", "stays")).cpus == CpuSet.parse("1,5")
    assert ledger.find("id-stays") is not None
    shares = ledger.keep(replace(comes("shares", 100), id=""))
    assert shares is not None
    assert ledger.held[Key("pod", "shares")].id == ""


def test_when_deciding_fails_there_is_shelter(ledger: Ledger) -> None:
    """The container runs, whatever is wrong with the policy."""
    decision = ledger.give_shelter(comes("a", 2000), ZeroDivisionError("oh"))
    assert decision.refusal is not None
    assert decision.refusal.message == "the policy failed: ZeroDivisionError: oh"
    assert ledger.without_place == (Key("pod", "a"),)
    assert ledger.find("id-a") is not None
    assert ledger.outcomes == {("allocate", "failed"): 1}


def test_a_release_that_fails_can_be_repeated(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The container is still in the books, so whoever compares them with the node finds it."""

    def fail(_key: Key) -> None:
        raise ZeroDivisionError("oh")

    ledger.allocate(asks("a", 2000))
    ledger.confirm(Key("pod", "a"), "id-a")
    with monkeypatch.context() as patched:
        patched.setattr(ledger.policy, "release", fail)
        with pytest.raises(ZeroDivisionError):
            ledger.release(Key("pod", "a"))
    assert ledger.by_id == {"id-a": Key("pod", "a")}
    ledger.release(Key("pod", "a"))
    assert (ledger.held, ledger.policy.book.grants) == ({}, {})
