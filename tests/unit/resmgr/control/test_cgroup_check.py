"""What cgroups have, compared with what is wanted."""

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from interpose.core.model.cgroup import Parameter
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.pod import ContainerState
from interpose.core.policy.decision import Assignment
from interpose.core.policy.request import Key
from interpose.errors import ConfigError
from interpose.host.cgroup.tree import CgroupTree
from interpose.resmgr.control.cgroup_check import CgroupCheck, CgroupQuestion, compare
from interpose.testing.eventually import eventually
from interpose.testing.kernel.cgroup import FakeKernel
from tests.support.policy.node import PolicyNode, running

REST, ALL = "0-1,4-15", "0-15"
UPDATE = "UpdateContainerResources"


class CgroupNode:
    """A node with one container alone on CPUs 2-3 and one that shares, whose cgroups are those of a fake kernel."""

    def __init__(self, node: PolicyNode) -> None:
        self.node = node
        self.kernel = FakeKernel(cpus=ALL)
        self.tree = CgroupTree(self.kernel, self.kernel.root, version=self.kernel.version)
        self.check = node.tracker.cgroups = CgroupCheck(
            lambda: self.tree, node.tracker.updaters, node.store, node.starts
        )
        grants = node.tracker.allocations.policy.state.grants
        held = sorted(node.tracker.allocations.by_key.values(), key=lambda one: not grants[one.request.key].exclusive)
        self.own, self.shared = (one.request.key for one in held)
        for one in held:
            self.kernel.make(self.directory(one.id))
            self.write(one.request.key, node.cpus(one.id))

    def directory(self, container_id: str) -> str:
        """The cgroup of a container."""
        return f"{self.node.store.containers[container_id].cgroup_parent.strip('/')}/{container_id}"

    def write(self, key: Key, cpus: str) -> None:
        """The kernel has these CPUs for a container."""
        directory = self.directory(self.node.tracker.allocations.by_key[key].id)
        self.tree.write(directory, Parameter.CPUSET_CPUS, cpus)

    async def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.check.tick()
            await eventually(lambda: not self.check.busy, "the look to end")


@pytest.fixture
async def it() -> AsyncIterator[CgroupNode]:
    async with running(("db", 2000, "guaranteed"), ("web", 100, "burstable")) as node:
        yield CgroupNode(node)


async def test_everybody_is_looked_at_within_a_minute(it: CgroupNode) -> None:
    """Some at each tick."""
    wanted = it.node.tracker.desired
    assert not it.check.is_confirmed(it.own, wanted(it.own))
    await it.tick(2)
    assert it.check.confirmed == 2
    assert it.check.is_confirmed(it.own, wanted(it.own))
    assert not it.check.is_confirmed(it.own, wanted(it.shared))
    assert not it.check.is_confirmed(it.own, None)
    assert it.check.is_confirmed(it.own, Assignment())


async def test_what_differs_is_written_again(it: CgroupNode) -> None:
    """Through the runtime: here it leaves the cgroup alone, so that it differs again."""
    await it.tick(2)
    it.write(it.shared, ALL)
    it.check.check_soon(it.shared)
    await it.tick()
    await it.node.in_step()
    (sent,) = it.node.runtime.requests_of(UPDATE)[-1:]
    assert (sent.container_id, sent.linux.cpuset_cpus) == (it.node.tracker.allocations.by_key[it.shared].id, REST)
    assert it.node.tracker.updaters.repairs == {"cgroup": 1}
    assert it.check.confirmed == 1
    it.write(it.shared, REST)
    it.check.check_soon(it.shared)
    await it.tick()
    assert it.check.confirmed == 2


async def test_who_does_not_run_or_is_being_written_is_not_compared(it: CgroupNode) -> None:
    """Nor one that is being started, or that has gone."""
    it.write(it.shared, ALL)
    tracker, store = it.node.tracker, it.node.store
    updater = tracker.updaters.by_key[it.shared]
    async with updater.lock:
        await it.check.check([it.shared])
    updater.lost = True
    await it.check.check([it.shared])
    updater.lost = False
    with it.node.starts.starting(updater.id):
        await it.check.check([it.shared])
    record = store.containers[updater.id]
    store.on_container = None
    store.put_container(replace(record, state=ContainerState.CREATED))
    await it.check.check([it.shared])
    store.remove_container(updater.id)
    await it.check.check([it.shared, Key("pod", "nobody")])
    assert tracker.updaters.repairs == {}
    assert it.check.unreadable == {}


async def test_what_changes_during_the_look_does_not_count(it: CgroupNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update was sent meanwhile: the file may be of before it."""
    updater = it.node.tracker.updaters.by_key[it.shared]
    it.write(it.shared, ALL)
    children = it.tree.children

    def meanwhile(directory: str) -> list[str]:
        updater.sent += 1
        return children(directory)

    monkeypatch.setattr(it.tree, "children", meanwhile)
    await it.check.check([it.shared])
    assert it.node.tracker.updaters.repairs == {}


async def test_what_cannot_be_read_is_remembered(it: CgroupNode) -> None:
    """Until it can, or the container is gone."""
    container_id = it.node.tracker.allocations.by_key[it.shared].id
    it.kernel.remove(it.directory(container_id))
    await it.tick(2)
    assert list(it.check.unreadable) == [it.shared]
    assert "no cgroup of this container" in it.check.unreadable[it.shared]
    it.check.drop(it.shared)
    assert (it.check.unreadable, it.check.confirmed) == ({}, 1)
    it.kernel.make(it.directory(container_id))
    it.write(it.shared, REST)
    await it.tick(2)
    assert (it.check.unreadable, it.check.confirmed) == ({}, 2)


async def test_without_a_tree_nothing_is_read(it: CgroupNode) -> None:
    """And nothing is confirmed."""
    check = CgroupCheck(None, it.node.tracker.updaters, it.node.store, it.node.starts)
    check.tick()
    await check.check([it.own])
    assert check.confirmed == 0


async def test_a_look_that_takes_long_is_not_repeated(it: CgroupNode, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one comes when it has ended."""
    it.check.tick()
    it.check.tick()
    assert it.check.busy
    await eventually(lambda: not it.check.busy, "the look to end")


async def test_without_containers_there_is_nothing_to_look_at(bare: PolicyNode) -> None:
    """No thread is asked."""
    check = CgroupCheck(lambda: pytest.fail("nothing is to be read"), bare.tracker.updaters, bare.store, bare.starts)
    check.tick()
    assert not check.busy


async def test_every_value_of_the_policy_is_compared(it: CgroupNode) -> None:
    """Memory nodes and shares too; a root without cgroups is an error for all."""
    container = it.node.store.containers[it.node.tracker.allocations.by_key[it.own].id]
    wanted = Assignment(cpus=CpuSet.parse("2-3"), mems=CpuSet.parse("0"), shares=512)
    question = CgroupQuestion(it.own, container, wanted, 0)
    directory = it.directory(container.id)
    it.tree.write(directory, Parameter.CPUSET_MEMS, "0")
    it.tree.write(directory, Parameter.CPU_SHARES, 512)
    assert compare(lambda: it.tree, [question])[0].same
    it.tree.write(directory, Parameter.CPU_SHARES, 2048)
    (answer,) = compare(lambda: it.tree, [question])
    assert (answer.same, answer.found) == (False, f"cpu.shares {it.tree.read(directory, Parameter.CPU_SHARES)}")

    def none() -> CgroupTree:
        raise ConfigError("cgroup root /x: holds nothing")

    assert {answer.error for answer in compare(none, [question, question])} == {"cgroup root /x: holds nothing"}


@pytest.mark.parametrize(("weight", "same"), [("39", True), ("100", True), ("50", False)])
async def test_shares_are_a_weight_by_either_conversion_of_runtimes(it: CgroupNode, weight: str, same: bool) -> None:
    """runc has another one from 1.3.2 on: what it made of 1024 shares is no difference."""
    kernel = FakeKernel(cpus=ALL, version=2)
    tree = CgroupTree(kernel, kernel.root, version=2)
    container = it.node.store.containers[it.node.tracker.allocations.by_key[it.shared].id]
    directory = it.directory(container.id)
    kernel.make(directory)
    kernel.write(f"{kernel.root}/{directory}/cpu.weight", weight)
    (answer,) = compare(lambda: tree, [CgroupQuestion(it.shared, container, Assignment(shares=1024), 0)])
    assert (answer.same, answer.error) == (same, "")
