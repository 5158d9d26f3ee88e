"""A policy in the relay and our own hook server on one node: both have their say, and neither fights the other.

The hook server is a real process that looks at everything ten times a second. What it costs is counted where it
arrives: at the runtime.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.qos import QOS_LABEL
from interpose.core.model.resources import LinuxResources
from interpose.core.policy.static.options import StaticOptions
from interpose.hooks.dispatch.client import HookClient
from interpose.hooks.server.pods.pod_annotations import EXTENDED_RESOURCES, RESOURCE_STATUS
from interpose.resmgr.config.configuration import Configuration
from interpose.testing import pods
from interpose.testing.eventually import eventually
from interpose.testing.fakenode import FakeNode, PlainCgroups
from tests.support.hooks.node import node_document, write_boot, write_cpus
from tests.support.lab.hookserver import HookServer
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

Ask = Callable[..., tuple[int, str]]
UPDATE = "UpdateContainerResources"
ROUNDS: Final = 20
_BATCH: Final = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": str(1 << 30)}
_AMOUNTS: Final = {"containers": {"main": {"requests": _BATCH, "limits": _BATCH}}}


class Node:
    """Pods of all classes under a relay with a policy."""

    def __init__(self, node: FakeNode, stack: PolicyStack, server: HookServer, admin: Ask) -> None:
        self.node = node
        self.stack = stack
        self.server = server
        self.ids: dict[str, str] = {}
        self._admin = admin

    async def run(
        self,
        name: str,
        kube_qos: pods.QosClass,
        qos: str,
        resources: cri.LinuxContainerResources,
        annotations: Mapping[str, Any],
    ) -> None:
        """A pod with one container."""
        said = {key: json.dumps(value) for key, value in annotations.items()}
        config = pods.pod_config(name, qos=kube_qos, labels={QOS_LABEL: qos}, annotations=said)
        self.node.make_pod(config)
        pod = (await self.stack.call(pods.run_request(config))).pod_sandbox_id
        container = pods.container_config(config, "main", resources=resources)
        self.ids[name] = (await self.stack.call(pods.create_request(pod, config, container))).container_id
        await self.stack.call(cri.StartContainerRequest(container_id=self.ids[name]))

    async def fill(self, bound: str) -> None:
        """One of each: batch work, a service, one bound by the scheduler, one that the policy gives CPUs."""
        batch = cri.LinuxContainerResources(cpu_period=100_000, cpu_shares=2, oom_score_adj=1000)
        await self.run("batch", "besteffort", "BE", batch, {EXTENDED_RESOURCES: _AMOUNTS})
        service = pods.linux_resources(cpu_request=500, cpu_limit=1000, memory_limit=1 << 28)
        await self.run("service", "burstable", "LS", service, {})
        whole = pods.linux_resources(cpu_request=2000, cpu_limit=2000, memory_limit=1 << 28)
        await self.run("bound", "guaranteed", "LSR", whole, {RESOURCE_STATUS: {"cpuset": bound}})
        await self.run("own", "guaranteed", "LSR", whole, {})

    async def rounds(self) -> int:
        """How often the hook server has looked at everything."""
        text = (await asyncio.to_thread(self._admin, "/metrics", at="hookserver-admin.sock"))[1]
        lines = [line for line in text.splitlines() if line.startswith("interpose_hookserver_rounds_total{")]
        return int(sum(float(line.rpartition(" ")[2]) for line in lines))

    async def updates_in_rounds(self, count: int = ROUNDS) -> Counter[str]:
        """Updates by pod that reach the runtime meanwhile."""
        before, end = len(self.node.runtime.requests_of(UPDATE)), await self.rounds() + count
        while await self.rounds() < end:
            self.stack.tick()
            await asyncio.sleep(0.05)
        names = {container: name for name, container in self.ids.items()}
        return Counter(names[one.container_id] for one in self.node.runtime.requests_of(UPDATE)[before:])

    def has(self, name: str) -> LinuxResources:
        """What the runtime has."""
        return self.stack.has(self.ids[name])

    def check_cpus(self) -> None:
        """The CPUs are those of the policy."""
        shared = {"static": "0-1,6-15", "static-plus": "1,6-15"}[self.stack.tracker.configuration.policy]
        assert {name: self.has(name).cpuset_cpus for name in self.ids} == {
            "batch": shared,
            "service": shared,
            "bound": "2-3",
            "own": "4-5",
        }

    async def status(self, name: str) -> tuple[str, int, int]:
        """CPU set, shares and quota as the kubelet sees them."""
        reply = await self.stack.call(cri.ContainerStatusRequest(container_id=self.ids[name]))
        linux = reply.status.resources.linux
        return linux.cpuset_cpus, linux.cpu_shares, linux.cpu_quota


@pytest.fixture
def start(scratch: Path, memory: Path, admin: Ask) -> Callable[..., Any]:
    """Starts relay, policy and hook server over a node without pods."""

    @asynccontextmanager
    async def begin(policy: str, mode: str, *options: str, bound: str = "6-7") -> AsyncIterator[Node]:
        write_cpus(memory / "sys", ["0-7", "8-15"])
        write_boot(memory / "proc")
        node = FakeNode(PlainCgroups(memory / "cgroup", 2, "0-15", proc=memory / "proc"))
        settings: dict[str, Any] = {"name": policy, "reserved": "cpu=cpuset:0", "hooks": True}
        async with policy_stack(scratch, machine("n4c16"), runtime=node.runtime, **settings) as stack:
            places = {"--cgroup-root": "cgroup", "--proc-root": "proc", "--sys-root": "sys"}
            said = [part for flag, name in places.items() for part in (flag, str(memory / name))]
            server = HookServer(
                scratch,
                stack.stack.socket,
                kubepods="kubepods",
                registrations=scratch / "hookserver.d",
                options=(*said, "--mode", mode, "--reconcile-interval", "100ms", *options),
            )
            server.tell(node_document())
            try:
                await asyncio.to_thread(server.start)
                if mode != "standalone":
                    await eventually(lambda: _connected(stack), "the relay to ask the hook server")
                running = Node(node, stack, server, admin)
                await running.fill(bound)
                yield running
            finally:
                await asyncio.to_thread(server.__exit__)

    return begin


def _connected(stack: PolicyStack) -> bool:
    built = stack.parts.built
    return built is not None and any(
        isinstance(one.caller, HookClient) and one.caller.state == "connected" for one in built.plugins.all
    )


@pytest.mark.parametrize("mode", ["both", "standalone"])
async def test_each_decides_what_is_its_own(start: Callable[..., Any], mode: str) -> None:
    """CPUs by the policy, shares and limits of batch work by the hook server; when that is so, nobody writes any more.

    What the kubelet asked for is shown to it, and values do not grow from round to round.
    """
    async with start("static", mode, "--no-cpuset") as node:
        await eventually(lambda: node.has("batch").cpu_quota == 150_000, "the limit of batch work")
        assert await node.updates_in_rounds() == Counter()
        node.check_cpus()
        assert (node.has("batch").cpu_shares, node.has("batch").cpu_quota) == (1536, 150_000)
        assert (node.has("service").cpu_shares, node.has("service").cpu_quota) == (512, 100_000)
        assert await node.status("batch") == ("", 2, 0)
        assert await node.status("own") == ("", 2048, 200_000)


async def test_proxy_mode(start: Callable[..., Any]) -> None:
    """Without rounds: values are there from birth, and follow the document."""
    async with start("static", "proxy", "--no-cpuset") as node:
        node.check_cpus()
        assert (node.has("batch").cpu_shares, node.has("batch").cpu_quota) == (1536, 150_000)
        node.server.tell(node_document(cfs_quota=True))
        await eventually(lambda: node.has("batch").cpu_quota == -1, "batch work to be limited as a whole")
        node.check_cpus()
        assert await node.status("batch") == ("", 2, 0)
        own = node.ids["own"]
        linux = cri.LinuxContainerResources(cpu_period=100_000, cpu_quota=400_000, cpu_shares=4096)
        await node.stack.call(cri.UpdateContainerResourcesRequest(container_id=own, linux=linux))
        assert (
            len(node.stack.tracker.allocations.policy.state.grants[node.stack.tracker.allocations.by_id[own]].exclusive)
            == 4
        )
        assert await node.status("own") == ("", 4096, 400_000)


@pytest.mark.parametrize("options", [("--no-cpuset",), ("--cpuset",)], ids=["no-cpuset", "cpuset"])
@pytest.mark.parametrize("mode", ["both", "standalone"])
async def test_static_plus_has_the_shares_too(start: Callable[..., Any], mode: str, options: tuple[str, ...]) -> None:
    """What both want is as the policy says, and the hook server does not try for ever."""
    async with start("static-plus", mode, *options) as node:
        await eventually(lambda: node.has("batch").cpu_quota == 150_000, "the limit of batch work")
        assert max((await node.updates_in_rounds()).values(), default=0) < ROUNDS // 2
        node.check_cpus()
        assert node.has("batch").cpu_shares == 2
        assert await node.status("batch") == ("", 2, 0)
        assert await node.status("service") == ("", 512, 100_000)


@pytest.mark.parametrize("mode", ["both", "standalone"])
async def test_sets_of_the_hook_server_do_not_count(start: Callable[..., Any], mode: str) -> None:
    """Its plugin for CPU sets is on: nobody ever has other CPUs than those of the policy, and it gives up trying."""
    async with start("static", mode, "--cpuset") as node:
        requests = node.node.runtime.requests_of
        assert max((await node.updates_in_rounds()).values(), default=0) < ROUNDS // 2
        node.check_cpus()
        sent = {one.linux.cpuset_cpus for one in requests(UPDATE) if one.container_id == node.ids["bound"]}
        assert sent <= {"", "2-3"}
        assert node.stack.interceptor.counters.overrides["cpuset_cpus", "qos" if mode == "both" else "the caller"] > 0
        assert await node.status("bound") == ("", 2048, 200_000)


@pytest.mark.parametrize("mode", ["both", "standalone"])
async def test_a_restore_that_the_policy_undoes_is_not_tried_for_ever(start: Callable[..., Any], mode: str) -> None:
    """Sets that the hook server once gave are the policy's now, and the relay cannot be asked: both names are told."""
    async with start("none", mode, "--cpuset", bound="2-3") as node:
        await eventually(lambda: node.has("bound").cpuset_cpus == "2-3", "the set of the scheduler")
        policy = Configuration(policy="static", reserved=CpuSet.parse("0"), options=StaticOptions(), origin="test")
        await node.stack.reconfigurer.apply(policy)
        await asyncio.to_thread(node.server.stop)
        await asyncio.to_thread(node.server.start, "--no-cpuset")
        assert (await node.updates_in_rounds(2 * ROUNDS))["bound"] < ROUNDS // 2
        node.check_cpus()
        # While the plugin was on, the policy may have been quicker than it with the sets of the others.
        log = node.server.log.read_text().splitlines()
        lines = [one for one in log if "Value rejected" in one and 'target="default/bound/main"' in one]
        (of_set,) = (line for line in lines if 'parameter="cpuset.cpus"' in line)
        assert 'plugin="CPUSetAllocator" error="sent clear, found 2-3: another process sets it"' in of_set
        (of_quota,) = (line for line in lines if line != of_set)
        assert 'error="sent 200000, found unlimited: another process sets it"' in of_quota
