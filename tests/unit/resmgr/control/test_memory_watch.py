"""Containers whose memory nodes run short get others, over a fake runtime and a fake kernel."""

import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.model.pod import ContainerState
from interpose.core.policy.api import Setup
from interpose.core.policy.request import Key
from interpose.core.policy.static.policy import StaticPolicy
from interpose.core.topology.node_memory import NodeMemory
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError
from interpose.host.cgroup.tree import CgroupTree
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.control.memory_watch import MemoryWatch, WideningCause, bound_containers
from interpose.testing.eventually import eventually
from interpose.testing.kernel.cgroup import FakeKernel
from tests.support.policy.node import PolicyNode, static

GIB = 1 << 30
TOTAL = 64 * GIB
UPDATE = "UpdateContainerResources"
ROOMY, SHORT = NodeMemory(TOTAL, 40 * GIB), NodeMemory(TOTAL, GIB)


class MemoryNode:
    """Nodes 0 to 3 with 4 CPUs each; policy static with memory. The nodes have what the test says."""

    def __init__(self, node: PolicyNode) -> None:
        self.node = node
        self.kernel = FakeKernel(cpus="0-15", mems="0-3")
        self.tree = CgroupTree(self.kernel, self.kernel.root, version=2)
        self.memory: dict[int, NodeMemory] = dict.fromkeys(range(4), ROOMY)
        self.reads = 0
        self.watch = MemoryWatch(self.read, lambda: self.tree)

    def read(self) -> Mapping[int, NodeMemory]:
        """What the nodes have left."""
        self.reads += 1
        return dict(self.memory)

    def key(self, container_id: str) -> Key:
        """The key of a container."""
        return self.node.tracker.allocations.by_id[container_id]

    def mems(self, container_id: str) -> str:
        """Its memory nodes at the runtime."""
        return self.node.runtime.containers[container_id].resources.cpuset_mems

    def uses(self, container_id: str, by_node: Mapping[int, int], kills: int = 0, limits: int = 0) -> None:
        """What its cgroup shows."""
        parent = self.node.store.containers[container_id].cgroup_parent.strip("/")
        directory = self.kernel.make(f"{parent}/{container_id}")
        stat = " ".join(f"N{node}={count}" for node, count in by_node.items())
        self.kernel.put(f"{self.kernel.root}/{directory}/memory.numa_stat", f"anon {stat}\n")
        self.kernel.put(f"{self.kernel.root}/{parent}/memory.events", f"oom {limits}\noom_kill {kills}\n")

    async def tick(self, count: int = 1) -> None:
        """Seconds pass, and what is begun in them ends."""
        for _ in range(count):
            self.watch.tick(self.node.tracker)
            await eventually(lambda: not self.watch.busy, "the look to end")
        await self.node.in_step()


async def started(*containers: tuple[str, int]) -> tuple[MemoryNode, list[str]]:
    """A node with these containers, and their ids."""
    node = PolicyNode(configuration=static(pin_memory=True))
    ids = [node.add(name, milli) for name, milli in containers]
    await node.start()
    await node.in_step()
    return MemoryNode(node), ids


@pytest.fixture
async def it() -> AsyncIterator[tuple[MemoryNode, str, str]]:
    """Containers that are alone on nodes 1 and 2."""
    made, ids = await started(("db", 4000), ("web", 4000))
    first, second = sorted(ids, key=made.mems)
    assert (made.mems(first), made.mems(second)) == ("1", "2")
    yield made, first, second
    await made.node.close()


async def test_nothing_happens_while_nodes_have_memory(it: tuple[MemoryNode, str, str]) -> None:
    """They are looked at every second."""
    made, first, _ = it
    await made.tick(3)
    assert (made.reads, made.mems(first)) == (3, "1")
    assert made.watch.widened == {WideningCause.SHORT: 0, WideningCause.KILLED: 0}


async def test_who_is_bound_to_a_node_that_runs_short_gets_all(
    it: tuple[MemoryNode, str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody else does, it is logged once, and it stays so when the node has memory again."""
    made, first, second = it
    caplog.set_level(logging.WARNING)
    made.memory[1] = SHORT
    await made.tick(2)
    assert (made.mems(first), made.mems(second)) == ("0-3", "2")
    widening = made.node.tracker.allocations.by_key[made.key(first)].widening
    assert widening is not None
    assert (str(widening.nodes), widening.reason) == ("0-3", "memory nodes 1 had 1 GiB left of 64 GiB")
    assert made.watch.widened[WideningCause.SHORT] == 1
    assert [record.message for record in caplog.records] == [
        "Memory nodes of a container ran short, it gets others too"
    ]
    made.memory[1] = ROOMY
    await made.tick(2)
    assert made.mems(first) == "0-3"


async def test_nobody_is_widened_if_all_nodes_are_short(it: tuple[MemoryNode, str, str]) -> None:
    """There is nothing to be had elsewhere."""
    made, first, _ = it
    made.memory = dict.fromkeys(range(4), SHORT)
    await made.tick()
    assert made.mems(first) == "1"


async def test_who_uses_most_of_a_node_comes_first(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the order of their coming; one whose cgroup cannot be read comes last."""
    caplog.set_level(logging.WARNING)
    made, ids = await started(("a", 1000), ("b", 1000), ("c", 1000))
    try:
        (mems,) = {made.mems(one) for one in ids}
        made.uses(ids[0], {int(mems): 5})
        made.uses(ids[2], {int(mems): 9, 3: 100})
        made.memory[int(mems)] = SHORT
        await made.tick()
        assert [record.kv["container"].split("/")[1] for record in caplog.records] == ["c", "a", "b"]  # type: ignore[attr-defined]
    finally:
        await made.node.close()


async def test_a_process_that_was_killed_below_all_limits_shows_it(it: tuple[MemoryNode, str, str]) -> None:
    """Between two looks at the cgroup of its pod; here the node was full for a moment only."""
    made, first, second = it
    made.uses(first, {1: 5}, kills=1)
    made.uses(second, {2: 5}, kills=1)
    await made.tick()
    assert made.mems(first) == "1"
    made.uses(first, {1: 5}, kills=2)
    await made.tick(15)
    assert (made.mems(first), made.mems(second)) == ("0-3", "2")
    assert made.watch.widened == {WideningCause.SHORT: 0, WideningCause.KILLED: 1}
    widening = made.node.tracker.allocations.by_key[made.key(first)].widening
    assert widening is not None
    assert widening.reason.startswith(
        "a process of its pod was killed below all memory limits; memory nodes 1 had 40 GiB"
    )


@pytest.mark.parametrize(("limits", "others"), [(1, ROOMY), (0, SHORT)])
async def test_a_process_that_was_killed_for_another_reason_shows_nothing(
    it: tuple[MemoryNode, str, str], limits: int, others: NodeMemory
) -> None:
    """It was at a limit, or no other node had memory either."""
    made, first, _ = it
    made.uses(first, {1: 5})
    await made.tick()
    made.uses(first, {1: 5}, kills=1, limits=limits)
    made.memory = {0: others, 1: ROOMY, 2: others, 3: others}
    await made.tick(15)
    assert made.mems(first) == "1"
    assert made.watch.widened[WideningCause.KILLED] == 0


async def test_the_container_after_one_that_was_killed_is_asked_at_once(it: tuple[MemoryNode, str, str]) -> None:
    """The counts of its pod outlive it, where it was the main process that was killed."""
    made, first, _ = it
    made.uses(first, {1: 5})
    await made.tick()
    state = made.node.runtime.state
    killed = made.node.runtime.containers[first]
    sandbox = made.node.runtime.sandboxes[killed.sandbox_id]
    await made.node.call("StopContainer", cri.StopContainerRequest(container_id=first).SerializeToString())
    await made.node.sync.resync()
    await made.tick()
    killed.config.metadata.attempt = 1
    again = state.create_container(sandbox, killed.config, killed.image)
    state.start_container(again)
    await made.node.sync.resync()
    await made.node.in_step()
    assert made.mems(again.id) in ("1", "3")  # those that have all their CPUs
    made.uses(again.id, {}, kills=1)
    await made.tick()
    assert made.mems(again.id) == "0-3"
    assert made.watch.widened == {WideningCause.SHORT: 0, WideningCause.KILLED: 1}


async def test_a_new_container_does_not_begin_on_nodes_that_are_short(it: tuple[MemoryNode, str, str]) -> None:
    """By the last look, which was at the nodes of others."""
    made, first, second = it
    tracker = made.node.tracker
    made.watch.on_granted(tracker, made.key(first))  # nothing is known yet
    tracker.reconfiguring = True  # so the look itself changes nothing
    made.memory[1] = SHORT
    await made.tick()
    assert made.watch.widened[WideningCause.SHORT] == 0
    made.watch.on_granted(tracker, made.key(first))
    made.watch.on_granted(tracker, made.key(second))
    await made.node.in_step()
    assert (made.mems(first), made.mems(second)) == ("0-3", "2")


async def test_nothing_is_read_while_nobody_is_bound() -> None:
    """Not even if there are containers."""
    made, (shared,) = await started(("web", 100))
    try:
        await made.tick(3)
        made.watch.on_granted(made.node.tracker, made.key(shared))
        assert made.reads == 0
        assert bound_containers(made.node.tracker) == {}
    finally:
        await made.node.close()


async def test_nodes_that_cannot_be_read_are_a_problem(it: tuple[MemoryNode, str, str]) -> None:
    """Until they can."""
    made, first, _ = it

    def fail() -> Mapping[int, NodeMemory]:
        raise PermissionError(13, "Permission denied", "/sys/devices")

    made.watch = MemoryWatch(fail, lambda: made.tree)
    await made.tick()
    assert made.watch.problem.startswith("what memory nodes have left cannot be read: [Errno 13]")
    for one in tuple(made.node.tracker.allocations.by_key):
        made.node.tracker.release((one,))
    await made.tick()
    assert (made.watch.problem, made.mems(first)) == ("", "1")


async def test_cgroups_that_cannot_be_found_change_nothing_else(it: tuple[MemoryNode, str, str]) -> None:
    """Containers are widened all the same, also one that does not run yet."""
    made, first, second = it

    def none() -> CgroupTree:
        raise ConfigError("no cgroups")

    made.watch = MemoryWatch(made.read, none)
    store = made.node.store
    store.on_container = None
    store.put_container(replace(store.containers[second], state=ContainerState.CREATED))
    made.memory.update({1: SHORT, 2: SHORT})
    await made.tick()
    assert (made.mems(first), made.mems(second)) == ("0-3", "0-3")


async def test_who_has_ended_meanwhile_is_left_alone(it: tuple[MemoryNode, str, str]) -> None:
    """It has no allocation any more; neither is anything done while allocations are being rebuilt."""
    made, first, second = it
    tracker, key = made.node.tracker, made.key(first)
    read = made.read

    def ends() -> Mapping[int, NodeMemory]:
        tracker.allocations.release(key)
        return read()

    made.memory.update({1: SHORT, 2: SHORT})
    tracker.reconfiguring = True
    await made.tick()
    assert made.watch.widened[WideningCause.SHORT] == 0
    tracker.reconfiguring = False
    made.watch = MemoryWatch(ends, lambda: made.tree)
    await made.tick()
    assert (made.mems(second), made.watch.widened[WideningCause.SHORT]) == ("0-3", 1)


async def test_a_policy_that_fails_or_declines_changes_nothing(
    it: tuple[MemoryNode, str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A failure is logged; the look goes on."""
    made, first, second = it
    calls: list[Key] = []

    def widen_memory(key: Key, everything: CpuSet, reason: str) -> tuple[Key, ...]:
        calls.append(key)
        if key == made.key(first):
            raise RuntimeError("a bug")
        return ()

    monkeypatch.setattr(made.node.tracker.allocations, "widen_memory", widen_memory)
    made.memory.update({1: SHORT, 2: SHORT})
    await made.tick()
    assert len(calls) == 2
    assert (made.mems(first), made.mems(second)) == ("1", "2")
    assert made.watch.widened[WideningCause.SHORT] == 0
    assert "Policy failed to widen memory nodes" in caplog.text


class StepByStep(StaticPolicy):
    """Policy static that adds one memory node at a time."""

    def widen(self, key: Key) -> tuple[Key, ...]:
        """The lowest node that the container does not have."""
        grant = self.state.grants[key]
        has = grant.mems or EMPTY
        next_node = next(node for node in range(4) if node not in has)
        self.state.put(key, replace(grant, mems=has | CpuSet.of([next_node])))
        return self.state.changes()


def step_by_step(configuration: Configuration, topology: Topology) -> StaticPolicy:
    """That policy on a machine."""
    return StepByStep(Setup(topology=topology, reserved=CpuSet.of([0])), configuration.options)


async def test_a_killed_process_is_one_step_for_each_container_of_its_pod() -> None:
    """They share its counts, so it is known whichever is asked first, and counts once."""
    node = PolicyNode(configuration=static(pin_memory=True), make=step_by_step)
    first = node.add("db", 3000)
    state, container = node.runtime.state, node.runtime.containers[first]
    config = cri.ContainerConfig()
    config.CopyFrom(container.config)
    config.metadata.name = "sidecar"
    sidecar = state.create_container(node.runtime.sandboxes[container.sandbox_id], config, container.image)
    state.start_container(sidecar)
    await node.start()
    await node.in_step()
    made = MemoryNode(node)
    try:
        for one in (first, sidecar.id):
            made.uses(one, {})
        await made.tick(2)
        made.uses(first, {}, kills=1)
        await made.tick()
        assert made.watch.widened == {WideningCause.SHORT: 0, WideningCause.KILLED: 2}
        await made.tick(40)
        assert made.watch.widened == {WideningCause.SHORT: 0, WideningCause.KILLED: 2}
        assert [len(CpuSet.parse(made.mems(one))) for one in (first, sidecar.id)] == [2, 2]
    finally:
        await node.close()


async def test_a_policy_widens_step_by_step_as_long_as_nodes_are_short(caplog: pytest.LogCaptureFixture) -> None:
    """Each step counts, one line is logged, and no look begins before the one before has ended."""

    caplog.set_level(logging.WARNING)
    node = PolicyNode(configuration=static(pin_memory=True), make=step_by_step)
    one = node.add("db", 4000)
    await node.start()
    await node.in_step()
    made = MemoryNode(node)
    try:
        assert made.mems(one) == "1"
        made.memory.update({0: SHORT, 1: SHORT})
        made.watch.tick(node.tracker)
        await made.tick()
        assert (made.mems(one), made.reads) == ("0-1", 1)
        await made.tick()
        assert made.mems(one) == "0-2"
        await made.tick()
        assert made.mems(one) == "0-2"
        assert made.watch.widened[WideningCause.SHORT] == 2
        assert len(caplog.records) == 1
    finally:
        await node.close()
