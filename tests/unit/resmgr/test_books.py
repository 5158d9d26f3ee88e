"""Books over a fake runtime: taking over what runs, following what happens, becoming others."""

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from interpose.errors import ConfigError
from interpose.model.cgroup import KubeQos
from interpose.model.cpuset import CpuSet
from interpose.model.pod import ContainerState
from interpose.policy.decision import Assignment, Grant
from interpose.policy.request import Amounts, Key, Request
from interpose.policy.static_pools.options import CpuList, Pool, PoolsOptions
from interpose.resmgr.configuration import Configuration
from interpose.resmgr.rebuilding import Breath
from interpose.resmgr.report import policy_report
from interpose.resmgr.statefile import Entry
from interpose.rpc.status import Code
from interpose.testing.eventually import eventually
from interpose.testing.machines import machine
from interpose.testing.policynode import PolicyNode, static

ALL = "0-15"
UPDATE = "UpdateContainerResources"


@pytest.fixture
async def node() -> AsyncIterator[PolicyNode]:
    """Packages 0-7 and 8-15, nodes of 4 CPUs, cores of two neighbours; CPU 0 is reserved. Nothing runs yet."""
    node = PolicyNode()
    yield node
    await node.close()


def entry(node: PolicyNode, container_id: str, cpus: str, milli: int) -> Entry:
    """What an earlier run knew of a container."""
    container = node.runtime.containers[container_id]
    return Entry(
        key=Key(container.sandbox_id, container.config.metadata.name),
        container_id=container_id,
        grant=Grant(exclusive=CpuSet.parse(cpus)),
        amounts=Amounts(milli=milli),
    )


# -- the beginning


async def test_what_runs_is_brought_to_what_it_is_due(node: PolicyNode) -> None:
    """Nothing is decided before the store shows everything."""
    own, shared = node.add("db", 2000), node.add("web", 100, "burstable")
    assert not node.books.ready.is_set()
    await node.start()
    await node.in_step()
    assert (node.cpus(own), node.cpus(shared)) == ("2-3", "0-1,4-15")


async def test_who_can_keep_cpus_keeps_them_whoever_comes_first(node: PolicyNode) -> None:
    """One that has to leave its CPUs takes none of those that another one has."""
    moves, stays = node.add("a", 2000, cpus="0-1"), node.add("b", 2000, cpus="2-3")
    node.books.remember("static", [entry(node, moves, "0-1", 2000), entry(node, stays, "2-3", 2000)])
    await node.start()
    await node.in_step()
    assert node.cpus(stays) == "2-3"
    assert not CpuSet.parse(node.cpus(moves)) & CpuSet.parse("0,2-3")


async def test_creates_of_somebody_else_keep_their_cpus(node: PolicyNode) -> None:
    """What was remembered of them is booked; of one nobody remembers nothing can be."""
    known, unknown = Key("pod", "known"), Key("pod", "unknown")
    grant = Grant(exclusive=CpuSet.parse("4-5"))
    amounts = Amounts(milli=2000)
    node.books.remember("static", [Entry(key=known, container_id="", grant=grant, amounts=amounts)])
    running = node.add("db", 2000)
    node.books.expect([Request(key=key, qos=KubeQos.GUARANTEED) for key in (known, unknown)])
    await node.start()
    assert node.books.in_doubt(known)
    assert unknown not in node.books.ledger.held
    await node.in_step()
    assert node.own == ["4-5", node.cpus(running)]
    for _ in range(122):
        node.books.tick()
    assert node.own == [node.cpus(running)]


async def test_what_happens_while_the_books_are_made(node: PolicyNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes is adopted, who goes is gone, and what somebody has meanwhile is known."""
    going, other = node.add("going", 2000), node.add("other", 100, "burstable")
    coming = ""

    async def take(_breath: Breath) -> None:
        nonlocal coming
        if not coming:
            coming = node.add("coming", 2000)
            node.store.remove_container(going)
            found = await node.sync.container(coming)
            assert found is not None

    monkeypatch.setattr(Breath, "take", take)
    await node.start()
    await node.in_step()
    assert going not in node.books.ledger.by_id
    assert node.own == [node.cpus(coming)]
    assert not CpuSet.parse(node.cpus(other)) & CpuSet.parse(node.cpus(coming))


async def test_a_long_take_over_lets_others_run(node: PolicyNode) -> None:
    """It holds the loop for a slice at a time."""
    for n in range(6):
        node.add(f"db{n}", 1000)
    turns = 0
    done = asyncio.Event()

    async def other() -> None:
        nonlocal turns
        while not done.is_set():
            turns += 1
            node.clock += 1  # every slice is used up
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await node.start()
    done.set()
    await task
    assert turns > 6


async def test_a_policy_that_fails_about_one_container_fails_about_no_other(
    node: PolicyNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The one is without a place, and the books are made."""
    bad, good = node.add("bad", 2000, cpus="8-9"), node.add("good", 2000)
    policy = node.books.ledger.policy
    allocate = policy.allocate

    def failing(request: Request, held: Grant | None = None) -> object:
        if request.pod == "bad":
            raise ZeroDivisionError("oh")
        return allocate(request, held)

    monkeypatch.setattr(policy, "allocate", failing)
    with caplog.at_level(logging.CRITICAL, "interpose"):
        await node.start()
    await node.in_step()
    assert [node.books.ledger.held[key].id for key in node.books.ledger.without_place] == [bad]
    assert node.cpus(bad) == str(policy.fallback)
    assert node.own == [node.cpus(good)]


# -- containers come and go


async def test_newcomers_and_those_that_end(node: PolicyNode) -> None:
    """The store tells of both."""
    shared = node.add("web", 100, "burstable")
    await node.start()
    own = node.add("db", 2000)
    await node.sync.resync()
    await node.in_step()
    assert (node.cpus(own), node.cpus(shared)) == ("2-3", "0-1,4-15")
    node.store.put_container(replace(node.store.containers[own], state=ContainerState.EXITED))
    await node.in_step()
    assert node.cpus(shared) == ALL
    node.store.remove_container(own)  # known to be gone already
    assert node.own == []


async def test_drift_is_corrected(node: PolicyNode) -> None:
    """What a container turns out to have is not what it was told."""
    own = node.add("db", 2000)
    await node.start()
    await node.in_step()
    node.runtime.containers[own].resources.cpuset_cpus = ALL
    await node.sync.refresh(own)
    await node.in_step()
    assert node.cpus(own) == "2-3"


async def test_books_that_fail_do_not_hurt_the_store(
    node: PolicyNode, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Told, and that is all."""
    own = node.add("db", 2000)
    await node.start()
    monkeypatch.setattr(node.books.writers, "found", None)
    with caplog.at_level(logging.ERROR, "interpose"):
        node.store.put_container(replace(node.store.containers[own], attempt=0, annotations={"x": "y"}))
    assert "Books were not kept" in caplog.text


async def test_one_the_runtime_does_not_know_is_released(node: PolicyNode) -> None:
    """It was removed behind our back, and an update tells."""
    gone, own = node.add("web", 100, "burstable"), node.add("db", 2000)
    await node.start()
    await node.in_step()
    node.runtime.state.remove_container(node.runtime.containers[gone])
    node.books.release([node.books.ledger.by_id[own]])
    node.books.writers.want(tuple(node.books.ledger.held))
    await eventually(lambda: not node.books.ledger.held, "the books to be empty")


# -- creates


def _booked(node: PolicyNode, container_id: str) -> Key:
    """A create that is booked, of a container that the store does not know yet."""
    container = node.runtime.containers[container_id]
    key = Key(container.sandbox_id, container.config.metadata.name)
    node.books.ledger.allocate(Request(key=key, qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000)))
    return key


async def test_a_create_in_doubt_is_settled_by_the_store(node: PolicyNode) -> None:
    """There it is: it is confirmed with what it has, and corrected."""
    await node.start()
    made = node.add("db", 2000)
    key = _booked(node, made)
    node.books.doubt(key)
    assert node.books.in_doubt(key)
    await node.sync.resync()
    assert not node.books.in_doubt(key)
    assert node.books.ledger.by_id == {made: key}
    await node.in_step()
    assert node.cpus(made) == "2-3"


async def test_a_create_in_doubt_that_is_nowhere_is_released(node: PolicyNode) -> None:
    """Not at the first look: the store may be about to hear of it."""
    await node.start()
    key = Key("pod", "lost")
    node.books.ledger.allocate(Request(key=key, qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000)))
    node.books.doubt(key)
    node.books.doubt(Key("pod", "who"))
    node.books.tick()
    assert node.own == ["2-3"]
    node.books.tick()
    assert node.own == []
    assert not node.books.in_doubt(key)


async def test_one_that_was_made_and_has_ended_is_released_too(node: PolicyNode) -> None:
    """It needs no CPUs any more."""
    await node.start()
    made = node.add("db", 2000)
    node.runtime.exit_container(made, 1)
    key = _booked(node, made)
    node.books.doubt(key)
    await node.sync.resync()
    node.books.tick()
    node.books.tick()
    assert node.own == []


async def test_as_long_as_the_store_waits_for_it_nothing_is_settled(node: PolicyNode) -> None:
    """Its settler knows best."""
    await node.start()
    made = node.add("db", 2000)
    await node.sync.resync()
    container = node.store.containers[made]
    node.store.remove_container(made)
    key = _booked(node, made)
    node.books.doubt(key)
    waiting = node.store.pending.add(replace(container, id=""), pod_uid="u")
    assert waiting is None
    for _ in range(5):
        node.books.tick()
    assert node.books.in_doubt(key)


async def test_what_is_confirmed_after_it_was_released_is_not_ours(node: PolicyNode) -> None:
    """Its pod went meanwhile."""
    await node.start()
    node.books.confirm(Key("pod", "late"), "id", Assignment(cpus=CpuSet.parse("2")))
    assert not node.books.writers.all
    assert not node.books.ledger.by_id


async def test_who_is_in_the_way_of_a_new_container(node: PolicyNode) -> None:
    """Whoever may have what becomes its own; of what it shares, only who has it alone."""
    own, shared = node.add("db", 4000), node.add("web", 100, "burstable")
    await node.start()
    await node.in_step()
    keys = {name: node.books.ledger.by_id[one] for name, one in (("own", own), ("shared", shared))}
    request = Request(key=Key("pod", "new"), qos=KubeQos.GUARANTEED, amounts=Amounts(milli=2000))
    node.books.ledger.allocate(request)
    assert node.books.in_the_way(request.key) == [keys["shared"]]
    sharing = Request(key=Key("pod", "sharing"))
    node.books.ledger.allocate(sharing)
    assert node.books.in_the_way(sharing.key) == []
    node.books.writers.all[keys["own"]].written = None
    assert node.books.in_the_way(sharing.key) == [keys["own"]]


# -- becoming others


async def test_back_to_none_everybody_has_what_it_would_have_without_us(node: PolicyNode) -> None:
    """What the caller asked for, or everything."""
    own, asked = node.add("db", 2000), node.add("web", 100, "burstable", cpus="0-7")
    await node.start()
    await node.in_step()
    assert node.cpus(asked) == "0-1,4-15"
    await node.books.change(Configuration(policy="none"))
    assert (node.cpus(own), node.cpus(asked)) == (ALL, "0-7")


async def test_pinned_memory_is_let_go(node: PolicyNode) -> None:
    """All nodes that have memory, if nobody asked for some."""
    await node.start()
    own = node.add("db", 2000)
    await node.books.change(static(pin_memory=True))
    await node.sync.resync()
    await node.in_step()
    assert node.runtime.containers[own].resources.cpuset_mems == "0"
    await node.books.change(Configuration(policy="none"))
    assert node.runtime.containers[own].resources.cpuset_mems == "0-3"


async def test_a_change_that_finds_no_place_is_no_change(node: PolicyNode) -> None:
    """Unless nobody has a choice."""
    node.add("db", 4000)
    await node.start()
    await node.in_step()
    with pytest.raises(ConfigError) as caught:
        await node.books.change(static("0-12"))
    assert len(caught.value.problems) == 1
    assert node.own == ["4-7"]
    await node.books.change(static("0-12"), forced=True)
    assert len(node.books.ledger.without_place) == 1
    await node.books.change(static("0-13"))  # it had no place before, so that is no reason
    assert node.books.configuration == static("0-13")


async def test_a_change_the_runtime_refuses_is_taken_back(node: PolicyNode, caplog: pytest.LogCaptureFixture) -> None:
    """Everybody holds what they held before."""
    own = node.add("db", 2000)
    await node.start()
    await node.in_step()
    node.runtime.fail(UPDATE, Code.INTERNAL, "no")
    with caplog.at_level(logging.CRITICAL, "interpose"), pytest.raises(ConfigError, match="could not be updated"):
        await node.books.change(static("0-3"))
    assert node.books.configuration == static()
    assert (node.own, node.cpus(own)) == (["2-3"], "2-3")
    assert not any(writer.error for writer in node.books.writers.all.values())  # it has what it should have


async def test_another_machine(node: PolicyNode) -> None:
    """The topology is part of the books."""
    node.add("db", 2000)
    await node.start()
    await node.books.change(node.books.configuration, machine("laptop"), forced=True)
    assert node.books.topology.name == "laptop"
    assert len(node.books.ledger.without_place) == 1


async def test_retired_books_follow_nothing(node: PolicyNode) -> None:
    """They stay as they were."""
    own = node.add("db", 2000)
    await node.start()
    await node.in_step()
    node.books.retire()
    assert node.books.retired
    node.store.remove_container(own)
    node.books.tick()
    assert node.own == ["2-3"]


# -- what a policy has to say about its options


def pools_configuration(*lists: tuple[str, int]) -> Configuration:
    """static-pools with one pool, of lists with the sockets they are said to be of."""
    given = tuple(CpuList(cpus=CpuSet.parse(text), text=text, socket=socket) for text, socket in lists)
    options = PoolsOptions(pools={"shared": Pool(exclusive=False, lists=given)})
    return Configuration(policy="static-pools", options=options, origin="test")


async def test_notes_of_a_policy_are_told_once(caplog: pytest.LogCaptureFixture) -> None:
    """When it comes in force: at the start, and after a change those that are new. The report has all of them."""

    def told() -> list[str]:
        found = [record.kv["note"] for record in caplog.records if hasattr(record, "kv") and "note" in record.kv]
        caplog.clear()
        return found

    first = "pool shared: list '0-3': is said to be of socket 1, its CPUs are in package 0"
    second = "pool shared: list '8-9': is said to be of socket 0, its CPUs are in package 1"
    caplog.set_level(logging.WARNING)
    node = PolicyNode(configuration=pools_configuration(("0-3", 1)))
    assert told() == [first]
    await node.start()
    await node.books.change(pools_configuration(("0-3", 1), ("8-9", 0)))
    assert told() == [second]
    report = policy_report(node.manager, problems=[], state_file={})
    assert report["problems"] == [f"note: {first}", f"note: {second}"]
    await node.books.change(static())
    assert told() == []
    assert policy_report(node.manager, problems=[], state_file={})["problems"] == []
    await node.close()
