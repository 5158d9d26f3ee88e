"""A relay with a policy is killed at every call of the runtime: whoever follows it keeps the books right.

The relay is a real process, the runtime answers from this one and stands still at one call: killed there, the relay
never hears what became of it. A kubelet's day goes by until then; afterwards nobody has what another one has alone,
nobody has nothing, and what belongs to nobody can be had.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from google.protobuf.message import Message

from interpose._pb import cri_pb2 as cri
from interpose.cli.common.admin_client import ask
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import NO_QUOTA
from interpose.net.grpc.status import RpcError
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.hookstack import CriCaller
from interpose.testing.pods import QosClass, container_config, create_request, linux_resources, pod_config, run_request
from interpose.testing.runtime.state import FakeContainer
from interpose.testing.serve import serve_runtime
from tests.support.lab.relay import Relay
from tests.support.policy.machines import machine
from tests.support.policy.sysfs_tree import write_sysfs

# All calls are for long runs (make soak); each outcome begins with another one, so that together they see most.
THOROUGH = bool(os.environ.get("INTERPOSE_THOROUGH"))
STEP = 1 if THOROUGH else 13
MACHINE = machine("n4c16")
EVERYTHING = MACHINE.online
GIVEN: Final = len(EVERYTHING) - 1  # CPU 0 is reserved
PERIOD: Final = 100_000
MEMORY: Final = 256 << 20
CHANGES: Final = frozenset(
    (
        "RunPodSandbox",
        "CreateContainer",
        "StartContainer",
        "UpdateContainerResources",
        "StopContainer",
        "RemoveContainer",
        "StopPodSandbox",
        "RemovePodSandbox",
    )
)


class Outcome(StrEnum):
    """What becomes of the call at which the relay is killed."""

    LOST = "lost"  # nothing
    DONE = "done"  # it was carried out already
    LATE = "late"  # it is carried out before another relay is there
    LATER = "later"  # and after that one has looked


class StandingRuntime(FakeRuntime):
    """Stands still at one of the calls that change something; its caller never hears of it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = asyncio.Event()
        self._left: int | None = None
        self._outcome = Outcome.LOST
        self._owed: tuple[str, Message] | None = None

    def stand_at(self, number: int, outcome: Outcome) -> None:
        """Pass so many changes, then stand."""
        self._left, self._outcome = number, outcome
        self.reached.clear()

    def go_on(self) -> None:
        """Pass everything."""
        self._left = None

    def finish(self) -> None:
        """Carry out what is still to be done; for a caller that is gone, whatever comes of it."""
        owed, self._owed = self._owed, None
        if owed is not None:
            with suppress(RpcError):
                self._methods[owed[0]].run(owed[1])

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """A call in this process or from outside."""
        if method in CHANGES and self._left is not None:
            self._left -= 1
            if self._left < 0 and not self.reached.is_set():
                await self._stand(method, request)
        return await super().call(method, request, timeout=timeout)

    async def _stand(self, method: str, request: Message) -> None:
        if self._outcome is Outcome.DONE:
            with suppress(RpcError):
                await super().call(method, request)
        elif self._outcome is not Outcome.LOST:
            self._owed = (method, request)
        self.reached.set()
        await asyncio.Event().wait()

    def alive(self) -> list[FakeContainer]:
        """Containers that run or may be started."""
        ended = cri.CONTAINER_EXITED
        return [one for one in self.containers.values() if one.state != ended and self.sandboxes[one.sandbox_id].ready]


class Kubelet:
    """Calls of a kubelet through one relay."""

    def __init__(self, call: CriCaller) -> None:
        self.call = call
        self.resizing: tuple[str, int] | None = None  # what it has no answer to; it will ask again

    async def run(self, name: str, milli: int, qos: QosClass = "guaranteed") -> tuple[str, str]:
        """A pod with a running container: both ids."""
        config = pod_config(name, qos=qos)
        pod = (await self.call(run_request(config))).pod_sandbox_id
        limits = {"cpu_limit": milli, "memory_limit": MEMORY} if qos == "guaranteed" else {}
        resources = linux_resources(cpu_request=milli, **limits)
        created = await self.call(create_request(pod, config, container_config(config, resources=resources)))
        await self.call(cri.StartContainerRequest(container_id=created.container_id))
        return pod, created.container_id

    async def resize(self, container_id: str, cpus: int) -> None:
        """Other amounts."""
        self.resizing = container_id, cpus
        linux = cri.LinuxContainerResources(cpu_period=PERIOD, cpu_quota=cpus * PERIOD, cpu_shares=cpus * 1024)
        await self.call(cri.UpdateContainerResourcesRequest(container_id=container_id, linux=linux))
        self.resizing = None

    async def stop(self, container_id: str) -> None:
        """It ends."""
        await self.call(cri.StopContainerRequest(container_id=container_id, timeout=1))

    async def remove(self, pod: str) -> None:
        """A pod goes with all that is in it."""
        await self.call(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
        for one in (await self.call(cri.ListContainersRequest(filter={"pod_sandbox_id": pod}))).containers:
            await self.call(cri.RemoveContainerRequest(container_id=one.id))
        await self.call(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))

    async def look(self) -> None:
        """As it does every second."""
        await self.call(cri.ListPodSandboxRequest())
        await self.call(cri.ListContainersRequest())

    async def day(self) -> None:
        """Containers come, change and go."""
        await self.run("web1", 100, "burstable")
        await self.run("web2", 100, "burstable")
        pod, db = await self.run("db", 2000)
        await self.resize(db, 4)
        await self.resize(db, 1)
        await self.stop(db)
        await self.run("cache", 3000)
        await self.remove(pod)


class Node:
    """A relay over the runtime, again and again."""

    def __init__(self, runtime: StandingRuntime, relay: Relay) -> None:
        self.runtime = runtime
        self.relay = relay
        self.resizing: tuple[str, int] | None = None

    @asynccontextmanager
    async def kubelet(self) -> AsyncIterator[Kubelet]:
        """One that talks to the relay as it is now."""
        async with grpc_channel(self.relay.socket) as channel:
            yield Kubelet(CriCaller(channel))

    async def killed(self, number: int, outcome: Outcome) -> bool:
        """A day that ends with the death of the relay; False if it came to its end before. A new relay runs then."""
        self.runtime.stand_at(number, outcome)
        async with self.kubelet() as kubelet:
            day = asyncio.create_task(kubelet.day(), name="a kubelet's day")
            standing = asyncio.create_task(self.runtime.reached.wait(), name="wait for the call")
            await asyncio.wait((day, standing), return_when=asyncio.FIRST_COMPLETED)
            standing.cancel()
            reached = self.runtime.reached.is_set()
            if reached:
                self.relay.kill()
                with pytest.raises(grpc.aio.AioRpcError):
                    await day
            else:
                await day
            self.resizing = kubelet.resizing
        self.runtime.go_on()
        if reached:
            if outcome is Outcome.LATE:
                self.runtime.finish()
            await asyncio.to_thread(self.relay.start)
            await asyncio.to_thread(self.relay.child.wait_listening, self.relay.admin)
        return reached

    async def policy(self) -> Any:
        """What the relay says about its policy."""
        return await asyncio.to_thread(ask, str(self.relay.admin), "GET", "/v1/policy")

    def wrong(self, report: Any) -> list[str]:
        """Where books and runtime differ."""
        rows = {row["id"]: row for row in report["assignments"]}
        alive = {one.id: one for one in self.runtime.alive()}
        found = [] if report["ready"] else ["not ready"]
        found += [f"{rows[one]['container']} is in the books only" for one in rows.keys() - alive.keys()]
        for one, container in alive.items():
            row, has = rows.get(one), container.resources.cpuset_cpus
            if row is None:
                found.append(f"{container.config.metadata.name} {one} is not in the books")
            elif row["state"] != "in step" or row["cpus"] != has:
                found.append(f"{row['container']} is {row['state']}: has {has}, should have {row['cpus']}")
        return found

    async def in_step(self, kubelet: Kubelet) -> Any:
        """Wait until books and runtime agree."""
        wrong: list[str] = []
        for _ in range(300):
            await kubelet.look()
            report = await self.policy()
            wrong = self.wrong(report)
            if not wrong:
                return report
            await asyncio.sleep(0.05)
        raise AssertionError("; ".join(wrong))

    def owned(self) -> dict[str, CpuSet]:
        """What containers have alone at the runtime; nobody else may have it, and it must be as much as is due."""
        has = {one.id: CpuSet.parse(one.resources.cpuset_cpus) for one in self.runtime.alive()}
        asked = {one.id: one.resources for one in self.runtime.alive()}
        # Nobody with CPUs of its own has a quota; the others here ask for none.
        own = {one: cpus for one, cpus in has.items() if asked[one].cpu_quota}
        assert all(asked[one].cpu_quota == NO_QUOTA for one in own)
        taken = CpuSet.union(own.values())
        assert all(has.values()), "somebody has no CPU at all"
        assert {one: len(cpus) * 1024 for one, cpus in own.items()} == {one: asked[one].cpu_shares for one in own}
        assert sum(map(len, own.values())) == len(taken), f"a CPU has two owners: {own}"
        assert 0 not in taken
        for one, cpus in has.items():
            assert one in own or cpus == EVERYTHING - taken
        return own

    async def catch_up(self) -> None:
        """The runtime does what it still owes, when nobody thinks of it any more; the kubelet asks again."""
        async with self.kubelet() as kubelet:
            await self.in_step(kubelet)
            self.runtime.finish()
            if self.resizing is not None:
                await kubelet.resize(*self.resizing)

    async def check(self) -> None:
        """Books and runtime agree, nobody is in the way of another one, and what is free can be had."""
        async with self.kubelet() as kubelet:
            report = await self.in_step(kubelet)
            own = self.owned()
            assert {row["id"]: row["exclusive"] for row in report["assignments"] if row["exclusive"]} == {
                one: str(cpus) for one, cpus in own.items()
            }
            rest = GIVEN - sum(map(len, own.values()))
            await kubelet.run("probe", rest * 1000)
            await self.in_step(kubelet)
            assert sum(map(len, self.owned().values())) == GIVEN
            for pod in list(self.runtime.sandboxes):
                await kubelet.remove(pod)
            assert (await self.in_step(kubelet))["pools"]["shared"] == str(EVERYTHING)


class PooledNode(Node):
    """A relay whose policy has pools that change with the containers in them."""

    empty: Any = None  # the pools without any container
    apart = False  # whether no two pools have a CPU in common

    def owned(self) -> dict[str, CpuSet]:
        """What containers have at the runtime: something, and nothing of what is reserved."""
        has = {one.id: CpuSet.parse(one.resources.cpuset_cpus) for one in self.runtime.alive()}
        assert all(has.values()), "somebody has no CPU at all"
        assert not any(0 in cpus for cpus in has.values()), "somebody has the reserved CPU"
        return has

    async def check(self) -> None:
        """Records and runtime agree, nobody is in the way of another one, and in the end all is as in the beginning."""
        async with self.kubelet() as kubelet:
            report = await self.in_step(kubelet)
            has = self.owned()
            for row in report["assignments"]:
                alone = CpuSet.parse(row["exclusive"]) if row["exclusive"] else CpuSet.of(())
                others = [cpus for one, cpus in has.items() if one != row["id"]]
                assert not any(cpus & alone for cpus in others), f"{row['container']} does not have {alone} alone"
            together: dict[tuple[str, ...], CpuSet] = {}
            for row in report["assignments"]:
                together[tuple(row["pools"])] = has[row["id"]]
            if self.apart:
                parts = list(together.values())
                assert sum(map(len, parts)) == len(CpuSet.union(parts)), f"balloons have CPUs in common: {together}"
            for pod in list(self.runtime.sandboxes):
                await kubelet.remove(pod)
            pools = (await self.in_step(kubelet))["pools"]
            assert pools == self.empty


class BalloonNode(PooledNode):
    """A relay with a balloon for each container."""

    apart = True


BALLOONS: Final = """
policy:
  Active: balloons
  ReservedResources: {CPU: "cpuset:0"}
  balloons:
    balloonTypes:
    - {name: own, namespaces: ["*"], preferNewBalloons: true, preferSpreadingPods: true}
"""
TOPOLOGY_AWARE: Final = """
policy:
  Active: topology-aware
  ReservedResources: {CPU: "cpuset:0"}
"""


@pytest.fixture
async def a_node(scratch: Path, runtime_path: Path, start_relay: Callable[..., Relay]) -> AsyncIterator[Node]:
    """A relay with policy static over a machine with sixteen CPUs."""
    runtime = StandingRuntime()
    async with serve_runtime(runtime_path, runtime):
        options = ("--policy", "static", "--reserved-resources", "cpu=cpuset:0")
        yield Node(runtime, await asyncio.to_thread(start_relay, *options, *places(scratch)))


@pytest.fixture(params=[(PooledNode, TOPOLOGY_AWARE), (BalloonNode, BALLOONS)], ids=["topology-aware", "balloons"])
async def a_pooled_node(
    request: pytest.FixtureRequest, scratch: Path, runtime_path: Path, start_relay: Callable[..., Relay]
) -> AsyncIterator[PooledNode]:
    """The same with a policy that has pools."""
    kind, document = request.param
    path = scratch / "policy.yaml"
    path.write_text(document)
    runtime = StandingRuntime()
    async with serve_runtime(runtime_path, runtime):
        node = kind(runtime, await asyncio.to_thread(start_relay, "--policy-config", str(path), *places(scratch)))
        async with node.kubelet() as kubelet:
            node.empty = (await node.in_step(kubelet))["pools"]
        yield node


def places(scratch: Path) -> tuple[str, ...]:
    """Where the relay finds the machine, and keeps its state."""
    write_sysfs(MACHINE, scratch / "host")
    hooks, state, host = (str(scratch / name) for name in ("hooks", "state", "host"))
    return "--hooks-dir", hooks, "--state-dir", state, "--host-root", host


@pytest.mark.timeout(3600 if THOROUGH else 900, method="thread")
@pytest.mark.parametrize("outcome", Outcome)
async def test_every_call_can_be_the_last(a_node: Node, outcome: Outcome) -> None:
    """Whatever became of it: the next relay finds out, and gives everything to whom it belongs."""
    assert await kill_at_every_call(a_node, outcome, STEP) > 25


@pytest.mark.timeout(3600 if THOROUGH else 900, method="thread")
@pytest.mark.parametrize("outcome", Outcome)
async def test_every_call_can_be_the_last_with_pools(a_pooled_node: PooledNode, outcome: Outcome) -> None:
    """Pools as well are what their containers make of them."""
    assert await kill_at_every_call(a_pooled_node, outcome, 1 if THOROUGH else 5) > 15


async def kill_at_every_call(a_node: Node, outcome: Outcome, step: int) -> int:
    """A day that ends so many calls later each time, until it comes to its end; returns how many calls that takes."""
    number = list(Outcome).index(outcome) * 3 % step
    killed = 0
    while await a_node.killed(number, outcome):
        killed += 1
        if outcome is Outcome.LATER:
            await a_node.catch_up()
        try:
            await a_node.check()
        except AssertionError as error:
            raise AssertionError(f"killed at call {number}, {outcome}: {error}") from error
        number += step
    await a_node.check()
    assert killed >= 2
    return number
