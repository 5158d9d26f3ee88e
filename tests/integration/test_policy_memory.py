"""Memory nodes that run short under a policy: from files of the machine to calls at the runtime, and over restarts."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.topology.parse import NODES
from interpose.core.topology.topology import Topology
from interpose.metrics import Sample
from interpose.resmgr.admin_view import container_report, find_allocations
from interpose.testing.eventually import eventually
from interpose.testing.fakenode import FakeNode, PlainCgroups
from interpose.testing.pods import container_config, create_request, linux_resources, pod_config, run_request
from tests.support.policy.machines import machine
from tests.support.policy.stack import MEMORY, PolicyStack, policy_stack

# Nodes 0 to 3 with 4 CPUs and 4 GiB each.
MACHINE = "n4c16"
TOTAL = 4 << 20  # kB
PAIR = {"pool.podpools.cri-resource-manager.intel.com": "quad"}
HEAD = "policy:\n  ReservedResources: {CPU: cpuset:0}\n"
POLICIES = {
    "static": HEAD + "  Active: static\n  static: {PinMemory: true}\n",
    "static-plus": HEAD + "  Active: static-plus\n  static-plus: {PinMemory: true}\n",
    "podpools": HEAD
    + "  Active: podpools\n  podpools:\n    Pools: [{Name: quad, CPU: 4, MaxPods: 2, Instances: '2'}]\n",
    "dynamic-pools": HEAD + "  Active: dynamic-pools\n"
    "  dynamic-pools:\n    DynamicPoolTypes: [{Name: quad, Namespaces: [default]}]\n",
}
UPDATE = "UpdateContainerResources"


class MemoryStack:
    """A relay on a machine whose nodes have what the test says."""

    def __init__(self, stack: PolicyStack, folder: Path, node: FakeNode) -> None:
        self.stack, self.node = stack, node
        self._nodes = folder / "host/sys" / NODES

    def leave(self, megabytes: Mapping[int, int]) -> None:
        """So much is free on these nodes."""
        for number, free in megabytes.items():
            lines = (
                f"Node {number} {name}: {size} kB\n" for name, size in (("MemTotal", TOTAL), ("MemFree", free << 10))
            )
            (self._nodes / f"node{number}/meminfo").write_text("".join(lines))

    async def run(self, name: str, milli: int = 4000) -> str:
        """A pod with a container that runs on 4 CPUs, or so many: the container's id."""
        config = pod_config(name, qos="guaranteed", annotations=PAIR)
        config.linux.resources.CopyFrom(linux_resources(cpu_request=milli, cpu_limit=milli, memory_limit=MEMORY))
        self.node.make_pod(config)
        pod = (await self.stack.call(run_request(config))).pod_sandbox_id
        resources = linux_resources(cpu_request=milli, cpu_limit=milli, memory_limit=MEMORY)
        request = create_request(pod, config, container_config(config, "app", resources=resources))
        container_id: str = (await self.stack.call(request)).container_id
        await self.stack.call(cri.StartContainerRequest(container_id=container_id))
        return container_id

    def mems(self, container_id: str) -> str:
        """Its memory nodes at the runtime."""
        return self.stack.has(container_id).cpuset_mems

    async def resize(self, container_id: str, milli: int) -> None:
        """The kubelet gives it other amounts."""
        linux = linux_resources(cpu_request=milli, cpu_limit=milli, memory_limit=MEMORY)
        await self.stack.call(cri.UpdateContainerResourcesRequest(container_id=container_id, linux=linux))

    def migrates(self, container_id: str) -> str:
        """What its cgroup says about pages when memory nodes change; only v1 has that file."""
        return self.node.tree.text(self.node.directory(container_id), "cpuset", "cpuset.memory_migrate").strip()

    def show(self, container_id: str, kills: int) -> None:
        """Its cgroup, on v2 that of its pod, shows so many killed processes, and no limit that was hit."""
        tree, directory = self.node.tree, self.node.directory(container_id)
        files = {"../memory.events": f"oom 0\noom_kill {kills}\n", "memory.numa_stat": "anon N1=5\n"}
        folder = Path(tree.root, directory)
        if tree.version == 1:
            files = {
                "memory.oom_control": f"oom_kill {kills}\n",
                "memory.failcnt": "0\n",
                "memory.numa_stat": "total=1 N1=1\n",
            }
            folder = Path(tree.root, "memory", directory)
        for name, text in files.items():
            (folder / name).write_text(text)

    async def eventually(self, container_id: str, mems: str) -> None:
        """Wait for these memory nodes; seconds pass meanwhile."""

        def reached() -> bool:
            self.stack.tick()
            return self.mems(container_id) == mems

        await eventually(reached, f"memory nodes {mems}")

    async def look(self, count: int = 1) -> None:
        """So many looks at memory, each to its end."""
        for _ in range(count):
            self.stack.tick()
            await eventually(lambda: not self.stack.policy.memory_watch.busy, "the look to end")

    def widened(self) -> dict[str, float]:
        """The metric, by cause."""
        (family,) = [found for found in self.stack.policy.collect() if found.name.endswith("_memory_widened_total")]
        return {sample.labels["cause"]: sample.value for sample in family.samples if isinstance(sample, Sample)}


@asynccontextmanager
async def running(
    folder: Path, node: FakeNode, document: str, topology: Topology | None = None
) -> AsyncIterator[MemoryStack]:
    """A relay on this node; without a machine, what is written of the last one stays."""
    write(folder, document)
    path = str(folder / "policy.yaml")
    async with policy_stack(folder, topology, runtime=node.runtime, config=path) as stack:
        yield MemoryStack(stack, folder, node)


def write(folder: Path, document: str) -> None:
    """The document that counts."""
    path = folder / "policy.yaml"
    path.write_text(document)
    path.chmod(0o644)


@pytest.fixture(params=[1, 2], ids=["v1", "v2"])
def node(request: pytest.FixtureRequest, tmp_path: Path) -> FakeNode:
    """A runtime whose cgroups are files below the root of the host."""
    return FakeNode(PlainCgroups(tmp_path / "host/sys/fs/cgroup", request.param, "0-15", "0-3"))


@pytest.mark.parametrize("policy", POLICIES)
async def test_a_container_whose_node_runs_short_gets_all_nodes(tmp_path: Path, policy: str) -> None:
    """Others keep theirs, a new one on such a node begins with all, and people are told why."""
    node = FakeNode(PlainCgroups(tmp_path / "host/sys/fs/cgroup", 2, "0-15", "0-3"))
    async with running(tmp_path, node, POLICIES[policy], machine(MACHINE)) as it:
        it.leave(dict.fromkeys(range(4), 3000))
        first = await it.run("first")
        bound = it.mems(first)
        assert bound not in ("", "0-3")
        await it.look(2)
        assert it.mems(first) == bound
        it.leave(dict.fromkeys(map(int, bound.replace("-", ",").split(",")), 100))
        await it.eventually(first, "0-3")
        (held,) = find_allocations(it.stack.tracker, "first/app")
        report = container_report(it.stack.tracker, held)
        assert report["wanted"]["mems"] == "0-3"
        assert report["memory"]["nodes"] == "0-3"
        assert report["memory"]["why"].startswith(f"memory nodes {bound} had ")
        assert it.widened() == {"short": 1, "killed": 0}


async def test_a_new_container_does_not_begin_on_a_node_that_is_short(tmp_path: Path, node: FakeNode) -> None:
    """While another one is bound, so that nodes are looked at: it has all of them from its first moment."""
    async with running(tmp_path, node, POLICIES["static"], machine(MACHINE)) as it:
        it.leave({0: 3000, 1: 3000, 2: 100, 3: 3000})
        first = await it.run("first")
        assert it.mems(first) == "1"
        await it.look()
        second = await it.run("second")
        assert (it.mems(first), it.mems(second)) == ("1", "0-3")
        (create,) = it.node.runtime.requests_of("CreateContainer")[1:]
        assert create.config.linux.resources.cpuset_mems == "0-3"


async def test_a_container_that_lost_a_process_gets_all_nodes(tmp_path: Path, node: FakeNode) -> None:
    """Although its node has memory whenever it is looked at."""
    async with running(tmp_path, node, POLICIES["static"], machine(MACHINE)) as it:
        it.leave(dict.fromkeys(range(4), 3000))
        first = await it.run("first")
        it.show(first, 1)
        await it.look(15)
        assert it.mems(first) == "1"
        it.show(first, 2)
        await it.look(15)
        await it.eventually(first, "0-3")
        assert it.widened() == {"short": 0, "killed": 1}


async def test_a_restart_and_another_configuration_take_nothing_away(tmp_path: Path, node: FakeNode) -> None:
    """A narrower set could be short at once."""
    async with running(tmp_path, node, POLICIES["static"], machine(MACHINE)) as it:
        it.leave({0: 3000, 1: 100, 2: 3000, 3: 3000})
        first = await it.run("first")
        await it.eventually(first, "0-3")
    async with running(tmp_path, node, POLICIES["static"]) as it:
        it.leave(dict.fromkeys(range(4), 3000))
        await it.look(2)
        assert it.mems(first) == "0-3"
        write(tmp_path, POLICIES["static-plus"])
        await eventually(lambda: it.stack.tracker.configuration.policy == "static-plus", "policy static-plus")
        await it.look(2)
        tracker = it.stack.tracker
        await eventually(lambda: not tracker.updaters.schedule(tuple(tracker.allocations.by_key)), "all to be in step")
        sent = [one.linux.cpuset_mems for one in it.node.runtime.requests_of(UPDATE) if one.linux.cpuset_mems]
        assert (it.mems(first), set(sent)) == ("0-3", {"0-3"})
        (held,) = find_allocations(tracker, "first/app")
        assert held.widening is not None
        assert held.widening.reason == "they were short before the relay started"


@pytest.mark.parametrize(("asked", "expected"), [("true", "1"), ("false", "0")])
async def test_pages_follow_on_v1_if_the_document_asks_for_it(tmp_path: Path, asked: str, expected: str) -> None:
    """Here the update is the kubelet's: a resize, by which the container loses a node."""
    node = FakeNode(PlainCgroups(tmp_path / "host/sys/fs/cgroup", 1, "0-15", "0-3"))
    document = f"{HEAD}  MigrateMemory: {asked}\n  Active: static\n  static: {{PinMemory: true}}\n"
    async with running(tmp_path, node, document, machine(MACHINE)) as it:
        first = await it.run("first", 8000)
        assert (it.mems(first), it.migrates(first)) == ("2-3", "0")
        await it.resize(first, 4000)
        assert it.mems(first) in ("2", "3")
        assert it.migrates(first) == expected


@pytest.mark.parametrize(("asked", "expected"), [("true", "1"), ("false", "0")])
async def test_pages_follow_an_update_of_our_own(tmp_path: Path, asked: str, expected: str) -> None:
    """Containers are bound to memory while they run: another document counts."""
    node = FakeNode(PlainCgroups(tmp_path / "host/sys/fs/cgroup", 1, "0-15", "0-3"))
    document = f"{HEAD}  MigrateMemory: {asked}\n  Active: static\n  static: {{PinMemory: PIN}}\n"
    async with running(tmp_path, node, document.replace("PIN", "false"), machine(MACHINE)) as it:
        first = await it.run("first")
        assert (it.mems(first), it.migrates(first)) == ("", "0")
        write(tmp_path, document.replace("PIN", "true"))
        await it.eventually(first, "1")
        assert it.migrates(first) == expected


async def test_a_successor_takes_nothing_away(tmp_path: Path) -> None:
    """It has what was widened from the relay before it, without a file."""
    node = FakeNode(PlainCgroups(tmp_path / "host/sys/fs/cgroup", 2, "0-15", "0-3"))
    async with running(tmp_path, node, POLICIES["static"], machine(MACHINE)) as old:
        old.leave({0: 3000, 1: 100, 2: 3000, 3: 3000})
        first = await old.run("first")
        await old.eventually(first, "0-3")
        old.leave({1: 3000})
        memory = json.loads(json.dumps(old.stack.parts.memory()))
        other = tmp_path / "successor"
        (other / "host").mkdir(parents=True)
        (other / "host/sys").symlink_to(tmp_path / "host/sys")
        settings: dict[str, Any] = {"config": str(tmp_path / "policy.yaml")}
        async with policy_stack(other, None, runtime=node.runtime, memory=memory, **settings) as successor:
            old.stack.parts.retire()
            tracker = successor.tracker
            await eventually(lambda: not tracker.updaters.schedule(tuple(tracker.allocations.by_key)), "all in step")
            assert successor.has(first).cpuset_mems == "0-3"
