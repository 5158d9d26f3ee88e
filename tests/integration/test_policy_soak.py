"""Random life under a policy: pods come and go at once, callers leave, the runtime fails, the relay is restarted.

Whatever happens, when it is quiet again the books are what the node is, and no CPU has two owners. What is done is
given by a seed; how it meets is not, so a run that fails need not fail again.
"""

import asyncio
import logging
import os
import random
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.static.options import StaticOptions, StaticPlusOptions
from interpose.errors import ConfigError
from interpose.net.grpc.status import Code
from interpose.resmgr.config.configuration import Configuration
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import linux_resources
from tests.support.policy.checks import at_rest, differences, second
from tests.support.policy.machines import machine
from tests.support.policy.stack import PolicyStack, policy_stack

# Long runs are for make soak.
THOROUGH = bool(os.environ.get("INTERPOSE_THOROUGH"))
SEEDS = range(25) if THOROUGH else range(1)
ACTS = 150 if THOROUGH else 60
LIVES = 3
STATE = "state/policy-state.json"

CONFIGURATIONS = (
    Configuration(policy="static", reserved=CpuSet.parse("0"), options=StaticOptions(), origin="a"),
    Configuration(policy="static", reserved=CpuSet.parse("4"), options=StaticOptions(pin_memory=True), origin="b"),
    Configuration(policy="static-plus", reserved=CpuSet.parse("0"), options=StaticPlusOptions(), origin="c"),
    Configuration(policy="none", origin="d"),
)
FAILING = ("CreateContainer", "UpdateContainerResources", "StopContainer", "ContainerStatus")
CODES = (Code.UNAVAILABLE, Code.INTERNAL, Code.DEADLINE_EXCEEDED)


class Life:
    """What happens to one relay."""

    def __init__(self, stack: PolicyStack, chance: random.Random, *, changes: bool) -> None:
        self._stack = stack
        self._runtime = stack.runtime
        self._chance = chance
        self._tasks: set[asyncio.Task[None]] = set()
        once: Mapping[str, Callable[[], Awaitable[object]]] = {
            "stop": self._stop,
            "remove": self._remove,
            "stop pod": self._stop_pod,
            "remove pod": self._remove_pod,
            "resize": self._resize,
            "exit": self._exit,
            "list": lambda: second(stack),
        }
        self._acts = [*once.values(), *[self._run] * 3, *([self._change] if changes else [])]

    async def live(self, acts: int) -> None:
        """All of it, some at the same time."""
        chance = self._chance
        for _ in range(acts):
            if chance.random() < 0.15:
                self._trouble()
            if chance.random() < 0.02:
                await self._stack.server.crash()
                await asyncio.sleep(chance.random() * 0.02)
                await self._stack.server.come()
            task = asyncio.ensure_future(_quietly(chance.choice(self._acts)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            for _ in range(chance.randint(0, 12)):
                await asyncio.sleep(0)
            if chance.random() < 0.25 and self._tasks:
                chance.choice(list(self._tasks)).cancel()
            if chance.random() < 0.3:
                await asyncio.sleep(chance.random() * 0.01)

    async def leave(self) -> None:
        """Everybody goes at once."""
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._runtime.clear()

    async def rest(self) -> list[str]:
        """It is quiet: what is not as it should be after a while."""
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._runtime.clear()
        quiet = 0
        for passed in range(120):
            await second(self._stack)
            await asyncio.sleep(0.05)
            if passed == 30:  # as the relay does by itself ten seconds after an update in doubt: too long for here
                await self._stack.tracker.sync.resync(completely=True)
            quiet = quiet + 1 if not differences(self._stack) and at_rest(self._stack) else 0
            if quiet == 15:
                return []
        return differences(self._stack)

    def _trouble(self) -> None:
        method = self._chance.choice(FAILING)
        if self._chance.random() < 0.5:
            when = self._chance.choice(("before", "after"))
            self._runtime.fail(
                method, self._chance.choice(CODES), "trouble", times=self._chance.choice((1, 2)), when=when
            )
        else:
            self._runtime.delay(method, self._chance.choice((0, 0.002, 0.01)))

    # -- what can happen

    async def _run(self) -> None:
        name = f"p{self._chance.randrange(1 << 40)}"
        pod = await self._stack.pod(name, self._chance.choice(("guaranteed", "guaranteed", "burstable")))
        made = await self._stack.create(pod, milli=self._chance.choice((500, 1000, 1500, 2000, 3000, 4000)))
        await self._stack.call(cri.StartContainerRequest(container_id=made))

    async def _stop(self) -> None:
        await self._stack.stop(self._container())

    async def _remove(self) -> None:
        container_id = self._container()
        await self._stack.stop(container_id)
        await self._stack.call(cri.RemoveContainerRequest(container_id=container_id))

    async def _exit(self) -> None:
        container_id = self._container()
        if self._runtime.containers[container_id].state == cri.CONTAINER_RUNNING:
            self._runtime.exit_container(container_id, 1)

    async def _resize(self) -> None:
        container_id, milli = self._container(), self._chance.choice((500, 1000, 2000, 3000))
        if self._runtime.containers[container_id].state != cri.CONTAINER_RUNNING:
            return  # nobody has been told of it yet
        limited = self._runtime.containers[container_id].resources.cpu_quota > 0
        linux = linux_resources(cpu_request=milli, cpu_limit=milli if limited else 0)
        await self._stack.call(cri.UpdateContainerResourcesRequest(container_id=container_id, linux=linux))

    async def _stop_pod(self) -> None:
        await self._stack.call(cri.StopPodSandboxRequest(pod_sandbox_id=self._pod()))

    async def _remove_pod(self) -> None:
        pod = self._pod()
        await self._stack.call(cri.StopPodSandboxRequest(pod_sandbox_id=pod))
        await self._stack.call(cri.RemovePodSandboxRequest(pod_sandbox_id=pod))

    async def _change(self) -> None:
        with suppress(ConfigError):
            await self._stack.reconfigurer.apply(self._chance.choice(CONFIGURATIONS))

    def _container(self) -> str:
        return self._chance.choice(list(self._runtime.containers))

    def _pod(self) -> str:
        return self._chance.choice(list(self._runtime.sandboxes))


async def _quietly(act: Callable[[], Awaitable[Any]]) -> None:
    # A call fails, a caller leaves, there is nothing to choose from, or it went meanwhile: all of that is life.
    with suppress(grpc.aio.AioRpcError, asyncio.CancelledError, IndexError, KeyError):
        await act()


@pytest.mark.parametrize("changes", [False, True], ids=["one policy", "changing policies"])
@pytest.mark.parametrize("policy", ["static", "static-plus"])
@pytest.mark.parametrize("seed", SEEDS)
async def test_books_and_node_are_the_same_when_it_is_quiet(
    tmp_path: Path, seed: int, policy: str, changes: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Over three lives of the relay; sometimes one ends in the middle, and with a state file that is older."""
    caplog.set_level(logging.CRITICAL, "interpose")
    chance = random.Random(f"{seed} {policy} {changes}")
    runtime, topology = FakeRuntime(seed=seed), machine("n4c16")
    state = tmp_path / STATE
    for life in range(LIVES):
        settings: dict[str, Any] = {"name": policy, "reserved": "cpu=cpuset:0"}
        async with policy_stack(tmp_path, topology, runtime=runtime, **settings) as stack:
            lived = Life(stack, chance, changes=changes)
            await lived.live(ACTS // 2)
            older = state.read_bytes() if state.exists() and chance.random() < 0.5 else b""
            await lived.live(ACTS - ACTS // 2)
            if life < LIVES - 1 and chance.random() < 0.6:
                await lived.leave()
            else:
                assert await lived.rest() == [], f"life {life} of seed {seed}"
                older = b""
        if older:
            state.write_bytes(older)
