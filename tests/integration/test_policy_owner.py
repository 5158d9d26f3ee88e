"""Relay with a policy and hook server, both as programs: of each value there is one owner."""

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.qos import QOS_LABEL
from interpose.hooks.server.pods.pod_annotations import RESOURCE_STATUS
from interpose.hooks.server.reconcile.original_values import ANNOTATION
from interpose.testing import pods
from interpose.testing.eventually import eventually
from interpose.testing.fakenode import FakeNode, PlainCgroups
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.hookstack import CriCaller
from interpose.testing.serve import serve_runtime
from tests.support.hooks.node import node_document, write_boot, write_cpus
from tests.support.lab.hookserver import NAME, HookServer
from tests.support.lab.relay import Relay, hooks_dir
from tests.support.policy.machines import machine
from tests.support.policy.sysfs_tree import write_sysfs

UPDATE: Final = "UpdateContainerResources"
NONE: Final = "policy: {Active: none}\n"
STATIC: Final = "policy: {Active: static, ReservedResources: {CPU: cpuset:0}}\n"


def metrics(admin: Path) -> str:
    """What a scrape brings."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(str(admin))
        connection = http.client.HTTPConnection("localhost")
        connection.sock = sock
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


class Programs:
    """A node without a policy, a relay whose policy a file says, and a hook server with the plugin for CPU sets."""

    def __init__(self, scratch: Path, memory: Path) -> None:
        write_sysfs(machine("n4c16"), scratch / "host")
        write_cpus(memory / "sys", ["0-7", "8-15"])
        write_boot(memory / "proc")
        self.node = FakeNode(PlainCgroups(memory / "cgroup", 2, "0-15", proc=memory / "proc"))
        self.file = scratch / "policy.yaml"
        self.choose(NONE)
        options = ("--policy-config", str(self.file), "--host-root", str(scratch / "host"))
        self.relay = Relay(scratch, scratch / "runtime.sock", options)
        places = {"--cgroup-root": "cgroup", "--proc-root": "proc", "--sys-root": "sys"}
        said = [part for flag, name in places.items() for part in (flag, str(memory / name))]
        self.server = HookServer(
            scratch, self.relay.socket, kubepods="kubepods", options=(*said, "--reconcile-interval", "100ms")
        )
        self.server.tell(node_document())
        hooks_dir(scratch)

    def choose(self, document: str) -> None:
        """Another policy document."""
        new = self.file.with_suffix(".new")
        new.write_text(document)
        new.rename(self.file)

    def policy(self) -> Any:
        """What the hook server knows of the relay's policy."""
        return self.server.status()["policy"]

    def cpus(self, container_id: str) -> str:
        """What the runtime has."""
        return self.node.runtime.containers[container_id].resources.cpuset_cpus

    async def run(self, name: str, cpus: str) -> str:
        """A pod whose container the scheduler has bound to CPUs."""
        annotations = {RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
        config = pods.pod_config(name, qos="guaranteed", labels={QOS_LABEL: "LSR"}, annotations=annotations)
        self.node.make_pod(config)
        whole = pods.linux_resources(cpu_request=2000, cpu_limit=2000, memory_limit=1 << 28)
        async with grpc_channel(self.relay.socket) as channel:
            call = CriCaller(channel)
            pod = (await call(pods.run_request(config))).pod_sandbox_id
            container = pods.container_config(config, "main", resources=whole)
            made: str = (await call(pods.create_request(pod, config, container))).container_id
            await call(cri.StartContainerRequest(container_id=made))
        return made

    async def rounds(self, count: int = 20) -> int:
        """The hook server looks at everything so many times; updates that reached the runtime meanwhile."""
        before, end = len(self.node.runtime.requests_of(UPDATE)), self._rounds() + count
        await eventually(lambda: self._rounds() >= end, "rounds of the hook server")
        return len(self.node.runtime.requests_of(UPDATE)) - before

    def _rounds(self) -> int:
        return int(self.server.status()["rounds"])


@pytest.fixture
async def programs(scratch: Path, memory: Path) -> AsyncIterator[Programs]:
    """Both run, and the relay asks the hook server."""
    made = Programs(scratch, memory)
    async with serve_runtime(scratch / "runtime.sock", made.node.runtime):
        try:
            await asyncio.to_thread(made.relay.start)
            await asyncio.to_thread(made.server.start, "--cpuset")
            await asyncio.to_thread(made.relay.wait_hooks, **{NAME: "connected"})
            yield made
        finally:
            await asyncio.to_thread(made.server.__exit__)
            await asyncio.to_thread(made.relay.__exit__)


async def test_what_a_policy_has_the_hook_server_neither_writes_nor_restores(programs: Programs) -> None:
    """As the documentation says it: a policy comes while containers run, and the plugin for CPU sets is switched off.

    The policy happens to want what the hook server once gave. Killing the relay changes nothing about who owns what.
    When the policy has ended the values are the hook server's again, and it puts back what was before.
    """
    bound = await programs.run("bound", "2-3")
    assert programs.cpus(bound) == "2-3"
    assert programs.policy()["owns"] == []
    programs.choose(STATIC)
    await eventually(lambda: programs.policy()["name"] == "static", "the hook server to know of it")
    await asyncio.to_thread(programs.server.stop)
    before = programs.server.log.read_text()
    await asyncio.to_thread(programs.server.start, "--no-cpuset")
    assert await programs.rounds() == 0
    assert programs.cpus(bound) == "2-3"
    assert programs.policy() == {
        "relay": str(programs.relay.admin),
        "reachable": True,
        "problem": "",
        "name": "static",
        "owns": ["cpuset.cpus"],
        "left": [
            {"plugin": "CPUSetAllocator", "parameter": "cpu.cfs_quota_us", "values": 1},
            {"plugin": "CPUSetAllocator", "parameter": "cpuset.cpus", "values": 1},
        ],
    }
    log = programs.server.log.read_text().removeprefix(before)  # the server before may have known in time to say so
    assert log.count('"Values are left to the policy of the relay" plugin="CPUSetAllocator"') == 2
    await asyncio.to_thread(programs.relay.kill)
    assert programs.policy()["owns"] == ["cpuset.cpus"]
    await asyncio.to_thread(programs.relay.start)
    await eventually(lambda: programs.policy()["reachable"], "the relay to be back")
    assert await programs.rounds() == 0
    assert programs.cpus(bound) == "2-3"
    programs.choose(NONE)
    await eventually(lambda: programs.policy()["owns"] == [], "the policy to have ended")
    await eventually(lambda: programs.cpus(bound) == "0-15", "all CPUs")
    await eventually(lambda: programs.policy()["left"] == [], "nothing to be left")
    await programs.rounds(5)
    assert await programs.rounds() == 0


async def test_a_container_made_under_a_policy_has_nothing_of_the_plugin(programs: Programs) -> None:
    """The plugin is on, and the answers of the hook server do not speak of CPU sets."""
    programs.choose(STATIC)
    await eventually(lambda: programs.policy()["name"] == "static", "the hook server to know of it")
    bound = await programs.run("bound", "6-7")
    assert programs.cpus(bound) == "2-3"
    assert "cpuset_cpus" not in programs.node.runtime.containers[bound].config.annotations[ANNOTATION]
    assert await programs.rounds() == 0
    assert programs.policy()["left"] == [
        {"plugin": "CPUSetAllocator", "parameter": "cpu.cfs_quota_us", "values": 2},  # of the pod as well
        {"plugin": "CPUSetAllocator", "parameter": "cpuset.cpus", "values": 1},
    ]
    assert "interpose_policy_overrides_total{" not in await asyncio.to_thread(metrics, programs.relay.admin)
