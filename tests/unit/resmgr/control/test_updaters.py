"""One writer per container: the newest wish wins, shrinking comes first, and what fails is tried again."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.decision import Assignment
from interpose.core.policy.request import Key
from interpose.cri.store.starts import StartTracker
from interpose.net.grpc.status import Code, RpcError
from interpose.resmgr.control.updaters import (
    ContainerUpdater,
    ContainerUpdaters,
    describe,
    is_displaced,
    patch_of,
    shrink_target,
)
from interpose.testing.eventually import eventually

A, B = Key("pod", "a"), Key("pod", "b")


def has(cpus: str, mems: str = "", shares: int | None = None) -> Assignment:
    return Assignment(cpus=CpuSet.parse(cpus), mems=CpuSet.parse(mems) if mems else None, shares=shares)


class Node:
    """A runtime that notes what it is told, and what is wanted of it."""

    def __init__(self) -> None:
        self.wanted: dict[Key, Assignment] = {}
        self.told: list[tuple[str, str]] = []
        self.touched: list[Key] = []
        self.arrived: list[tuple[Key, Assignment]] = []
        self.denied: list[tuple[Key, str, Code]] = []
        self.errors: dict[str, RpcError] = {}
        self.held: dict[str, asyncio.Event] = {}
        self.at_once: dict[str, int] = {}
        self.most = 0
        self.starts = StartTracker()
        self.now = 0.0
        self.updaters = ContainerUpdaters(
            self.send,
            self.wanted.get,
            starts=self.starts,
            clock=lambda: self.now,
            on_send=lambda key, _: self.touched.append(key),
            on_sent=lambda key, written: self.arrived.append((key, written)),
            on_missing=lambda key, one, error: self.denied.append((key, one, error.code)),
            before_move=self.before_move,
        )

    async def before_move(self, container_id: str) -> None:
        self.told.append((container_id, "move"))
        await asyncio.sleep(0)

    async def send(self, method: str, message: bytes) -> bytes:
        assert method == "UpdateContainerResources"
        request = cri.UpdateContainerResourcesRequest.FromString(message)
        name = request.container_id
        self.at_once[name] = self.at_once.get(name, 0) + 1
        assert self.at_once[name] == 1
        self.most = max(self.most, sum(self.at_once.values()))
        self.told.append((name, request.linux.cpuset_cpus))
        try:
            if (gate := self.held.get(name)) is not None:
                await gate.wait()
            await asyncio.sleep(0)
        finally:
            self.at_once[name] -= 1
        if name in self.errors:
            raise self.errors[name]
        return b""

    def hold(self, name: str) -> asyncio.Event:
        """Updates of this container stand still until the event is set."""
        self.held[name] = asyncio.Event()
        return self.held[name]


@pytest.fixture
async def node() -> AsyncIterator[Node]:
    """Two containers with all CPUs."""
    node = Node()
    for key in (A, B):
        node.wanted[key] = has("0-7")
        node.updaters.add(key, key.name, has("0-7"))
    yield node
    await node.updaters.close()


# -- what follows from wishes


@pytest.mark.parametrize(
    ("wanted", "written", "rest"),
    [
        (None, has("0-3"), None),
        (Assignment(), has("0-3"), None),
        (has("0-1"), None, has("0-1")),
        (has("0-1"), Assignment(shares=3), has("0-1")),
        (has("0-1,5"), has("0-3", "1"), has("0-1", "1")),
        (has("0-5"), has("0-3"), None),
        (has("4"), has("0-3"), None),
    ],
)
def test_what_is_left_before_others_get_theirs(
    wanted: Assignment | None, written: Assignment | None, rest: Assignment | None
) -> None:
    """CPUs are only taken away, and never all of them."""
    assert shrink_target(wanted, written) == rest


def test_who_keeps_nothing_has_to_move() -> None:
    """As far as both sides are known."""
    assert is_displaced(has("4"), has("0-3"))
    assert not is_displaced(has("3-4"), has("0-3"))
    assert not is_displaced(None, has("0"))
    assert not is_displaced(Assignment(), has("0"))
    assert not is_displaced(has("0"), None)
    assert not is_displaced(has("0"), Assignment())


def test_an_update_says_what_is_new() -> None:
    """And nothing if there is nothing new."""
    assert patch_of(None, None) is None
    assert patch_of(has("1", "0", 5), has("1", "0", 5)) is None
    assert patch_of(Assignment(), has("1")) is None
    assert patch_of(has("1", "0", 5), has("1", "1", 4)) == LinuxResources(cpuset_mems="0", cpu_shares=5)
    assert patch_of(has("1"), None) == LinuxResources(cpuset_cpus="1")


async def test_what_a_container_may_have() -> None:
    """What it was told, what it is being told, and anything if nobody knows."""
    updater = ContainerUpdater(A, "a", None)
    two = CpuSet.parse("2")
    assert updater.may_have(two)
    updater.written = Assignment()
    assert updater.may_have(two)
    updater.written = has("0-1")
    assert not updater.may_have(two)
    updater.sending = Assignment(shares=2)
    assert not updater.may_have(two)
    updater.sending = has("2")
    assert updater.may_have(two)


# -- wishes


async def test_what_is_in_step_is_left_alone(node: Node) -> None:
    """And so is what nobody knows."""
    assert node.updaters.schedule((A, B, Key("pod", "who"))) == []
    assert await node.updaters.apply((A, B), 1)
    assert node.told == []


async def test_the_newest_wish_wins(node: Node) -> None:
    """Wishes that were overtaken while one was on its way are never sent."""
    gate = node.hold("a")
    node.wanted[A] = has("0")
    (first,) = node.updaters.schedule((A,))
    await eventually(lambda: node.told, "the first update")
    for cpus in ("0-1", "0-2", "0-3"):
        node.wanted[A] = has(cpus)
        assert node.updaters.schedule((A,)) == [first]
    assert node.updaters.by_key[A].state == "writing"
    gate.set()
    await first
    assert node.told == [("a", "0"), ("a", "0-3")]
    assert node.touched == [A, A]
    assert node.updaters.by_key[A].state == "idle"
    assert node.updaters.results == {"ok": 2}


async def test_updates_are_bounded(node: Node) -> None:
    """Eight at a time; who waits for a lock takes nobody's turn."""
    keys = [Key("pod", f"x{n}") for n in range(20)]
    for key in keys:
        node.updaters.add(key, key.name, has("0-7"))
        node.wanted[key] = has("0-3")
    locked = [node.updaters.by_key[key].lock for key in keys[:9]]
    for lock in locked:
        await lock.acquire()
    tasks = node.updaters.schedule(keys)
    await eventually(lambda: len(node.told) == 11, "all that are not locked")
    for lock in locked:
        lock.release()
    await asyncio.wait(tasks)
    assert len(node.told) == 20
    assert node.most == 8


async def test_nobody_waits_longer_than_agreed(node: Node) -> None:
    """What takes longer goes on all the same."""
    gate = node.hold("a")
    node.wanted[A] = has("0")
    assert not await node.updaters.apply((A,), 0.01)
    assert not await node.updaters.shrink((A,), 0)
    gate.set()
    await eventually(lambda: node.updaters.by_key[A].written == has("0"), "the update")


async def test_what_is_dropped_is_not_told_any_more(node: Node) -> None:
    """Not even what was wanted of it before."""
    lock = node.updaters.by_key[A].lock
    await lock.acquire()
    node.wanted[A] = has("0")
    tasks = node.updaters.schedule((A,))
    cut = asyncio.create_task(node.updaters.shrink((A,), 1))
    await asyncio.sleep(0)
    node.updaters.drop(A)
    lock.release()
    await asyncio.wait(tasks)
    assert await cut
    assert node.told == []


# -- shrinking


async def test_shrinking_gives_nothing(node: Node) -> None:
    """One that loses CPUs and gets others has the rest at first."""
    node.updaters.by_key[A].written = has("0-3")
    node.wanted[A] = has("2-5")
    assert await node.updaters.shrink((A, B), 1)
    assert node.told == [("a", "2-3")]
    assert await node.updaters.apply((A, B), 1)
    assert node.told == [("a", "2-3"), ("a", "2-5")]


async def test_who_keeps_nothing_moves_when_others_have_shrunk(node: Node) -> None:
    """It goes where they have been."""
    node.updaters.by_key[A].written = has("0-1")
    node.updaters.by_key[B].written = has("2-7")
    node.wanted[A], node.wanted[B] = has("2-3"), has("0-1,4-7")
    gate = node.hold("b")
    task = asyncio.create_task(node.updaters.shrink((A, B), 1))
    await eventually(lambda: node.told, "the one that shrinks")
    gate.set()
    assert await task
    assert node.told == [("b", "4-7"), ("a", "2-3")]


async def test_an_update_on_its_way_is_waited_for(node: Node) -> None:
    """It gives CPUs that shall not be had any more."""
    node.updaters.by_key[A].written = has("0-3")
    gate = node.hold("a")
    node.updaters.schedule((A,))
    await eventually(lambda: node.told, "the update that gives")
    node.wanted[A] = has("0-3")
    task = asyncio.create_task(node.updaters.shrink((A,), 1))
    await asyncio.sleep(0)
    assert not task.done()
    gate.set()
    assert await task
    assert node.told == [("a", "0-7"), ("a", "0-3")]


async def test_after_it_was_brought_in_step_there_is_nothing_to_cut(node: Node) -> None:
    """Somebody else held the lock and did it."""
    node.wanted[A] = has("0-3")
    updater = node.updaters.by_key[A]
    async with updater.lock:
        task = asyncio.create_task(node.updaters.shrink((A,), 1))
        await asyncio.sleep(0)
        updater.written = has("0-3")
    assert await task
    assert node.told == []


# -- trouble


async def test_what_the_runtime_refuses_is_tried_again(node: Node) -> None:
    """The container has what it had; somebody may look whether it still runs."""
    node.errors["a"] = RpcError(Code.INTERNAL, "no")
    node.wanted[A] = has("0")
    await node.updaters.apply((A,), 1)
    updater = node.updaters.by_key[A]
    assert (updater.state, updater.error, updater.permanent, updater.attempts) == ("failing", "INTERNAL: no", True, 1)
    assert updater.written == has("0-7")
    assert node.denied == [(A, "a", Code.INTERNAL)]
    node.errors.clear()
    await eventually(lambda: updater.written == has("0"), "another attempt")
    assert (updater.error, updater.permanent, updater.attempts) == ("", False, 0)
    assert node.updaters.results == {"failed": 1, "ok": 1}


async def test_what_is_in_doubt_is_sent_again(node: Node) -> None:
    """Nobody knows what the container has."""
    node.errors["a"] = RpcError(Code.UNAVAILABLE, "gone")
    node.wanted[A] = has("0")
    await node.updaters.apply((A,), 1)
    updater = node.updaters.by_key[A]
    assert (updater.written, updater.permanent) == (None, False)
    assert node.denied == []
    node.errors.clear()
    node.updaters.retry_now()
    await eventually(lambda: updater.written == has("0"), "another attempt")
    assert node.updaters.results == {"doubtful": 1, "ok": 1}


async def test_one_the_runtime_does_not_know_is_not_tried_again(node: Node) -> None:
    """Whoever keeps the books is told."""
    node.errors["a"] = RpcError(Code.NOT_FOUND, "who?")
    node.wanted[A] = has("0")
    await node.updaters.apply((A,), 1)
    assert node.denied == [(A, "a", Code.NOT_FOUND)]
    assert node.updaters.by_key[A].retry is None
    assert node.updaters.results == {"missing": 1}


async def test_pauses_grow(node: Node) -> None:
    """Each failure in a row waits longer; at most a minute."""
    node.errors["a"] = RpcError(Code.INTERNAL, "no")
    node.wanted[A] = has("0")
    updater = node.updaters.by_key[A]
    loop = asyncio.get_running_loop()
    for attempts, pause in ((0, 0.25), (3, 2.0), (20, 60.0), (5000, 60.0)):
        updater.attempts = attempts
        before = loop.time()
        await node.updaters.apply((A,), 1)
        assert updater.retry is not None
        assert before + pause <= updater.retry.when() <= loop.time() + pause
    retry = updater.retry
    node.updaters.drop(A)
    assert retry is not None
    assert retry.cancelled()


async def test_what_it_turns_out_to_have_counts_unless_somebody_tells_it_something(node: Node) -> None:
    """Who holds the lock knows better."""
    assert node.updaters.observe(A, has("1"))
    assert not node.updaters.observe(A, has("1"))
    assert not node.updaters.observe(Key("pod", "who"), has("1"))
    async with node.updaters.by_key[A].lock:
        assert not node.updaters.observe(A, has("2"))


async def test_retired_writers_begin_nothing(node: Node) -> None:
    """What is on its way ends; a retry that is due does not happen, nor does a wish that waited."""
    gate = node.hold("a")
    node.wanted[A] = has("0")
    (task,) = node.updaters.schedule((A,))
    await eventually(lambda: node.told, "the last update")
    node.wanted[A] = has("0-1")
    node.wanted[B] = has("0-1")
    cut = asyncio.create_task(node.updaters.shrink((A,), 1))
    await asyncio.sleep(0)
    node.updaters.retire()
    assert node.updaters.schedule((B,)) == []
    assert await node.updaters.shrink((B,), 1)
    gate.set()
    await asyncio.wait([task, cut])
    assert node.told == [("a", "0")]


async def test_a_closed_writer_does_not_know_what_arrived(node: Node) -> None:
    """The update was cut off."""
    node.hold("a")
    node.wanted[A] = has("0")
    (task,) = node.updaters.schedule((A,))
    await eventually(lambda: node.told, "the update")
    updater = node.updaters.by_key[A]
    await node.updaters.close()
    assert task.cancelled()
    assert (updater.written, updater.sending) == (None, None)
    assert not node.updaters.by_key


async def test_hundreds_of_containers_leave_turns_to_others(node: Node) -> None:
    """Wishes are looked at in slices."""
    keys = [Key("pod", f"x{n}") for n in range(200)]
    for key in keys:
        node.updaters.add(key, key.name, has("0-7"))
        node.wanted[key] = has("0-7")
    for act in (node.updaters.apply, node.updaters.shrink):
        task = asyncio.create_task(act(keys, 1))
        turns = 0
        while not task.done():
            turns += 1
            await asyncio.sleep(0)
        assert turns >= 4


async def test_a_failure_is_forgotten_when_nothing_is_to_be_done(node: Node) -> None:
    """What could not be written is not wanted any more."""
    node.errors["a"] = RpcError(Code.INTERNAL, "no")
    node.wanted[A] = has("0")
    await node.updaters.apply((A,), 1)
    assert node.updaters.by_key[A].state == "failing"
    node.wanted[A] = has("0-7")
    assert node.updaters.schedule((A,)) == []
    assert node.updaters.by_key[A].state == "idle"


async def test_a_wish_that_comes_while_an_older_one_is_on_its_way_is_not_lost(node: Node) -> None:
    """What was written last looks right, but what is on its way is not."""
    gate = node.hold("a")
    node.wanted[A] = has("0-3")
    cut = asyncio.create_task(node.updaters.shrink((A,), 5))
    await eventually(lambda: node.told == [("a", "0-3")], "the shrink to be sent")
    node.wanted[A] = has("0-7")
    assert len(node.updaters.schedule((A,))) == 1
    gate.set()
    await cut
    await eventually(lambda: node.updaters.by_key[A].written == has("0-7"), "the container to have it all back")
    assert node.told == [("a", "0-3"), ("a", "0-7")]


async def test_who_has_what_it_should_not_have(node: Node) -> None:
    """Some of it, none of what it should, by an update on its way, or nobody knows."""
    assert not node.updaters.exceeds(Key("pod", "nobody"))
    assert not node.updaters.exceeds(A)
    for wanted in ("0-3", "8-9"):
        node.wanted[A] = has(wanted)
        assert node.updaters.exceeds(A)
    node.wanted[A] = has("0-8")
    assert not node.updaters.exceeds(A)
    node.updaters.by_key[A].sending = has("0-9")
    assert node.updaters.exceeds(A)


async def test_what_the_runtime_took_is_told(node: Node) -> None:
    """And what it did not is not."""
    node.errors["b"] = RpcError(Code.INTERNAL, "no")
    node.wanted[A] = node.wanted[B] = has("0-3")
    await node.updaters.apply((A, B), 5)
    assert node.arrived == [(A, has("0-3"))]
    assert node.updaters.without_retry() == [A]


# -- what was written and is not in force


async def test_an_update_waits_for_the_start_of_its_container(node: Node) -> None:
    """Others are not kept from working by that."""
    with node.starts.starting("a"):
        node.wanted[A] = node.wanted[B] = has("0-3")
        tasks = node.updaters.schedule((A, B))
        await tasks[1]
        assert node.told == [("b", "0-3")]
    await tasks[0]
    assert node.told == [("b", "0-3"), ("a", "0-3")]


async def test_who_waits_for_a_start_keeps_nobody_from_writing_there(node: Node) -> None:
    """The kubelet's update of the same container has a limit of its own for such a wait."""
    with node.starts.starting("a"):
        node.wanted[A] = has("0-3")
        (task,) = node.updaters.schedule((A,))
        await asyncio.sleep(0)
        assert not node.updaters.by_key[A].lock.locked()
    await task
    assert node.told == [("a", "0-3")]


async def test_a_start_that_begins_while_an_update_waits_for_its_turn(node: Node) -> None:
    """The turn is somebody else's: eight starts that take long would hold up the whole node."""
    gates = []
    others = [Key("pod", f"c{number}") for number in range(8)]
    for key in others:
        gates.append(node.hold(key.name))
        node.updaters.add(key, key.name, has("0-7"))
        node.wanted[key] = has("0-3")
    held = node.updaters.schedule(others)
    await eventually(lambda: len(node.told) == len(others), "all turns to be taken")
    node.wanted[A] = node.wanted[B] = has("0-3")
    first, second = node.updaters.schedule((A, B))
    await asyncio.sleep(0)
    with node.starts.starting("a"):
        gates[0].set()
        await second
        assert node.told[8:] == [("b", "0-3")]
    for gate in gates:
        gate.set()
    await asyncio.gather(first, *held)
    assert node.told[8:] == [("b", "0-3"), ("a", "0-3")]


async def test_what_was_lost_is_sent_again(node: Node) -> None:
    """As a whole, whatever the runtime says it has."""
    updater = node.updaters.by_key[A]
    node.updaters.mark_lost(A)
    node.updaters.mark_lost(Key("pod", "who"))
    assert (updater.has, updater.may_have(CpuSet.parse("9"))) == (None, True)
    await node.updaters.apply((A,), 1)
    assert node.told == [("a", "0-7")]
    assert (updater.has, node.updaters.repairs) == (has("0-7"), {"start": 1})


async def test_an_update_that_turns_out_to_be_lost_on_its_way(node: Node) -> None:
    """The one that is on its way does not count."""
    gate = node.hold("a")
    node.wanted[A] = has("0-3")
    node.updaters.schedule((A,))
    await eventually(lambda: node.told, "the update")
    node.updaters.mark_lost(A)
    gate.set()
    await eventually(lambda: node.updaters.by_key[A].has is not None, "the next one")
    assert node.told == [("a", "0-3")] * 2


async def test_what_was_lost_stays_so_when_the_runtime_refuses(node: Node) -> None:
    """It is tried again after a pause."""
    node.errors["a"] = RpcError(Code.INTERNAL, "no")
    node.updaters.mark_lost(A)
    await eventually(lambda: node.updaters.by_key[A].error, "the refusal")
    assert node.updaters.by_key[A].lost
    del node.errors["a"]
    await eventually(lambda: not node.updaters.by_key[A].lost, "the next try")


async def test_a_value_that_somebody_replaces_is_held_back(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Twice it is put right at once; then after pauses that grow, and it is told once."""
    for times in range(1, 6):
        now = node.updaters.observe(A, has("1"))
        assert now == (times <= 2)
        assert node.updaters.by_key[A].state == ("idle" if now else "failing")
        node.updaters.by_key[A].written = has("0-7")  # it was put right
    assert [updater.id for updater in node.updaters.list_contested()] == ["a"]
    assert node.updaters.by_key[A].error == "somebody else set CPUs 1 (5 times), found in the runtime"
    assert node.updaters.without_retry() == [B]
    assert caplog.messages == [
        "Container did not have what was written, it is written again",
        "Somebody else replaces values of the policy, they are held back",
    ]
    node.now = 151.0
    assert node.updaters.list_contested() == []
    assert node.updaters.observe(A, has("1"))


async def test_a_cgroup_that_differs_is_written_again(node: Node) -> None:
    """Through the runtime, which believes to have done it."""
    node.updaters.mark_differing(Key("pod", "who"), "")
    for _ in range(2):
        node.updaters.mark_differing(A, "cpuset.cpus 3")
        await node.updaters.apply((A,), 1)
    assert node.told == [("a", "0-7")] * 2
    node.updaters.mark_differing(A, "cpuset.cpus 3")
    assert node.updaters.by_key[A].error == "somebody else set cpuset.cpus 3 (3 times), found in the cgroup"
    assert node.updaters.repairs == {"cgroup": 3}


async def test_what_was_never_told_is_nobodys_doing(node: Node) -> None:
    """The wish is newer than what was written, or nobody knows what was."""
    node.wanted[A] = has("0-3")
    assert node.updaters.observe(A, has("1"))
    node.updaters.by_key[B].written = None
    assert node.updaters.observe(B, has("1"))
    assert node.updaters.repairs == {}


@pytest.mark.parametrize(
    ("assignment", "text"),
    [
        (Assignment(), "no CPU set"),
        (has("1", "0", 5), "CPUs 1, memory nodes 0, CPU shares 5"),
        (Assignment(quota=-1), "CFS quota unlimited"),
        (Assignment(quota=7), "CFS quota 7"),
    ],
)
def test_what_a_container_has_in_words(assignment: Assignment, text: str) -> None:
    """The text is for log lines and messages."""
    assert describe(assignment) == text


@pytest.mark.parametrize(
    ("written", "mems", "told"),
    [
        ("0-1", "1", ["move", "0-3"]),  # node 0 is lost
        ("0", "1", ["move", "0-3"]),
        ("", "1", ["move", "0-3"]),  # it may have used any
        ("1", "0-1", ["0-3"]),
        ("1", "1", ["0-3"]),
        ("1", "", ["0-3"]),  # not written
    ],
)
async def test_before_memory_nodes_are_lost_its_pages_are_prepared(
    node: Node, written: str, mems: str, told: list[str]
) -> None:
    """Before the update, and only then."""
    node.updaters.add(A, "a", has("0-7", written))
    node.wanted[A] = has("0-3", mems)
    await node.updaters.apply((A,), 10)
    assert [text for _, text in node.told] == told


async def test_pages_of_a_container_of_which_nothing_is_known_are_prepared(node: Node) -> None:
    """It may be anywhere."""
    node.updaters.add(A, "a", None)
    node.wanted[A] = has("0-3", "1")
    await node.updaters.apply((A,), 10)
    assert [text for _, text in node.told] == ["move", "0-3"]
