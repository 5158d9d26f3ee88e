"""The beginning of the books: taking over what runs, over a fake runtime."""

import asyncio
import logging
from dataclasses import replace

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Grant
from interpose.core.policy.request import Amounts, Key, Request
from interpose.resmgr.rebuild import LoopYielder
from interpose.resmgr.state.state import SavedEntry
from tests.support.policy.node import PolicyNode

ALL = "0-15"
UPDATE = "UpdateContainerResources"


def entry(bare: PolicyNode, container_id: str, cpus: str, milli: int) -> SavedEntry:
    """What an earlier run knew of a container."""
    container = bare.runtime.containers[container_id]
    return SavedEntry(
        key=Key(container.sandbox_id, container.config.metadata.name),
        container_id=container_id,
        grant=Grant(exclusive=CpuSet.parse(cpus)),
        amounts=Amounts(milli=milli),
    )


async def test_what_runs_is_brought_to_what_it_is_due(bare: PolicyNode) -> None:
    """Nothing is decided before the store shows everything."""
    own, shared = bare.add("db", 2000), bare.add("web", 100, "burstable")
    assert not bare.tracker.ready.is_set()
    await bare.start()
    await bare.in_step()
    assert (bare.cpus(own), bare.cpus(shared)) == ("2-3", "0-1,4-15")


async def test_who_can_keep_cpus_keeps_them_whoever_comes_first(bare: PolicyNode) -> None:
    """One that has to leave its CPUs takes none of those that another one has."""
    moves, stays = bare.add("a", 2000, cpus="0-1"), bare.add("b", 2000, cpus="2-3")
    bare.restorer.load("static", [entry(bare, moves, "0-1", 2000), entry(bare, stays, "2-3", 2000)])
    await bare.start()
    await bare.in_step()
    assert bare.cpus(stays) == "2-3"
    assert not CpuSet.parse(bare.cpus(moves)) & CpuSet.parse("0,2-3")


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
async def test_a_container_that_has_grown_takes_no_cpus_of_another(bare: PolicyNode, names: tuple[str, str]) -> None:
    """It keeps what it was granted for, in whatever order they are restored, and gets the rest when there is room."""
    cpus, granted, requested = {"a": "2-3", "b": "4-15"}, {"a": 2000, "b": 12_000}, {"a": 14_000, "b": 12_000}
    ids = {name: bare.add(name, requested[name], cpus=cpus[name]) for name in names}
    bare.restorer.load("static", [entry(bare, ids[name], cpus[name], granted[name]) for name in names])
    await bare.start()
    await bare.in_step()
    assert {name: bare.cpus(ids[name]) for name in names} == cpus
    allocations = bare.tracker.allocations
    assert [allocations.by_key[key].id for key in allocations.deferred] == [ids["a"]]
    assert allocations.without_place == ()
    bare.tracker.release([allocations.by_id[ids["b"]]])
    bare.tracker.enforce_soon(tuple(allocations.by_key))
    await bare.in_step()
    assert (len(CpuSet.parse(bare.cpus(ids["a"]))), allocations.deferred) == (14, ())


async def test_a_container_that_has_grown_keeps_what_another_relay_gave_it(bare: PolicyNode) -> None:
    """The relay before was killed after its update of the container and before it saved it: the CPUs tell."""
    grown, other = bare.add("a", 4000, cpus="2-5"), bare.add("b", 2000)
    bare.restorer.load("static", [entry(bare, grown, "2-3", 2000)])
    await bare.start()
    await bare.in_step()
    assert (bare.cpus(grown), bare.tracker.allocations.deferred) == ("2-5", ())
    assert not CpuSet.parse(bare.cpus(other)) & CpuSet.parse("2-5")


async def test_a_shared_container_that_has_grown_gets_cpus_if_there_are_any(bare: PolicyNode) -> None:
    """Otherwise it stays where it is, with a place."""
    shared, full = bare.add("a", 1000, cpus="0"), bare.add("b", 15_000, cpus="1-15")
    saved = replace(entry(bare, shared, "", 500), grant=Grant(pools=("shared",)))
    bare.restorer.load("static", [saved, entry(bare, full, "1-15", 15_000)])
    await bare.start()
    await bare.in_step()
    allocations = bare.tracker.allocations
    assert (bare.cpus(shared), bare.cpus(full), allocations.without_place) == ("0", "1-15", ())
    assert [allocations.by_key[key].id for key in allocations.deferred] == [shared]


async def test_creates_of_somebody_else_keep_their_cpus(bare: PolicyNode) -> None:
    """What was remembered of them is booked; of one nobody remembers nothing can be."""
    known, unknown = Key("pod", "known"), Key("pod", "unknown")
    grant = Grant(exclusive=CpuSet.parse("4-5"))
    amounts = Amounts(milli=2000)
    bare.restorer.load("static", [SavedEntry(key=known, container_id="", grant=grant, amounts=amounts)])
    running = bare.add("db", 2000)
    bare.restorer.expect([Request(key=key, qos=KubeQos.GUARANTEED) for key in (known, unknown)])
    await bare.start()
    assert known in bare.tracker.creates
    assert unknown not in bare.tracker.allocations.by_key
    await bare.in_step()
    assert bare.own == ["4-5", bare.cpus(running)]
    for _ in range(122):
        bare.reconciler.tick()
    assert bare.own == [bare.cpus(running)]


async def test_what_happens_while_the_books_are_made(bare: PolicyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes is adopted, who goes is gone, and what somebody has meanwhile is known."""
    going, other = bare.add("going", 2000), bare.add("other", 100, "burstable")
    coming = ""

    async def take(_breath: LoopYielder) -> None:
        nonlocal coming
        if not coming:
            coming = bare.add("coming", 2000)
            bare.store.remove_container(going)
            found = await bare.sync.container(coming)
            assert found is not None

    monkeypatch.setattr(LoopYielder, "take", take)
    await bare.start()
    await bare.in_step()
    assert going not in bare.tracker.allocations.by_id
    assert bare.own == [bare.cpus(coming)]
    assert not CpuSet.parse(bare.cpus(other)) & CpuSet.parse(bare.cpus(coming))


async def test_a_long_take_over_lets_others_run(bare: PolicyNode) -> None:
    """It holds the loop for a slice at a time."""
    for n in range(6):
        bare.add(f"db{n}", 1000)
    turns = 0
    done = asyncio.Event()

    async def other() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            bare.clock += 1  # every slice is used up
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await bare.start()
    done.set()
    await task
    assert turns > 6


async def test_a_policy_that_fails_about_one_container_fails_about_no_other(
    bare: PolicyNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The one is without a place, and the books are made."""
    bad, good = bare.add("bad", 2000, cpus="8-9"), bare.add("good", 2000)
    policy = bare.tracker.allocations.policy
    allocate = policy.allocate

    def failing(request: Request, held: Grant | None = None) -> object:
        if request.pod == "bad":
            raise ZeroDivisionError("oh")
        return allocate(request, held)

    monkeypatch.setattr(policy, "allocate", failing)
    with caplog.at_level(logging.CRITICAL, "interpose"):
        await bare.start()
    await bare.in_step()
    assert [bare.tracker.allocations.by_key[key].id for key in bare.tracker.allocations.without_place] == [bad]
    assert bare.cpus(bad) == str(policy.fallback)
    assert bare.own == [bare.cpus(good)]


@pytest.mark.parametrize(("reset", "expected"), [(False, "1-2"), (True, "")])
async def test_memory_nodes_beyond_a_grant_are_those_that_exist(bare: PolicyNode, reset: bool, expected: str) -> None:
    """Of the machine as it is now; where all is decided anew there are none."""
    one = bare.add("db", 2000, cpus="2-3")
    saved = replace(entry(bare, one, "2-3", 2000), extra_mems=CpuSet.parse("1-2,9"))
    bare.restorer.load("static", [saved], reset=reset)
    await bare.start()
    (held,) = bare.tracker.allocations.by_key.values()
    assert ("" if held.widening is None else str(held.widening.nodes)) == expected
