"""Books of a policy over a fake runtime, without a relay and its sockets: calls go straight to the runtime.

What a relay's bookkeeper does is done here: the store learns what an update has changed.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from interpose._pb import cri_pb2 as cri
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.api import Policy
from interpose.core.policy.static.options import StaticOptions
from interpose.core.topology.topology import Topology
from interpose.cri.store.convert import to_resources
from interpose.cri.store.starts import StartTracker
from interpose.cri.store.store import Store
from interpose.cri.store.sync import Synchronizer
from interpose.resmgr.config.configuration import Configuration
from interpose.resmgr.hints.resolver import HintResolver
from interpose.resmgr.service import connect_tracker, make_policy
from interpose.resmgr.tracker import AllocationTracker
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.pods import BUSYBOX, QosClass, container_config, linux_resources, pod_config
from tests.support.policy.machines import machine

_MEMORY = 256 << 20


def static(reserved: str = "0", **options: bool) -> Configuration:
    """A configuration with policy static."""
    return Configuration(
        policy="static", reserved=CpuSet.parse(reserved), options=StaticOptions(**options), origin="test"
    )


class PolicyNode:
    """A runtime, what is known of it, and the books. The clock stands still unless it is moved."""

    def __init__(
        self,
        name: str = "n4c16",
        configuration: Configuration | None = None,
        *,
        make: Callable[[Configuration, Topology], Policy] = make_policy,
        hints: HintResolver | None = None,
    ) -> None:
        self.runtime = FakeRuntime()
        self.store = Store()
        self.sync = Synchronizer(self.store, self.call)
        self.starts = StartTracker()
        self.clock = 0.0
        chosen, topology = configuration or static(), machine(name)
        self.tracker = AllocationTracker(
            configuration=chosen,
            topology=topology,
            policy=make(chosen, topology),
            store=self.store,
            sync=self.sync,
            send=self.send,
            starts=self.starts,
            capacity=64 << 30,
            clock=self.now,
            now=lambda: 1_700_000_000.0,
        )
        parts = connect_tracker(self.tracker, make, hints=hints, clock=self.now, now=lambda: 1_700_000_000.0)
        self.interceptor, self.restorer, self.reconfigurer, self.reconciler = parts
        self.sync.on_started = self.starts.on_running

    def now(self) -> float:
        """The clock."""
        return self.clock

    async def call(self, method: str, message: bytes) -> bytes:
        """Ask the runtime."""
        request = getattr(cri, f"{method}Request").FromString(message)
        answer: bytes = (await self.runtime.call(method, request)).SerializeToString()
        return answer

    async def send(self, method: str, message: bytes) -> bytes:
        """Tell it something about a container; the store hears of it too."""
        answer = await self.call(method, message)
        request = cri.UpdateContainerResourcesRequest.FromString(message)
        known = self.store.containers[request.container_id]
        after = known.resources.overlay(to_resources(request.linux))
        self.store.put_container(replace(known, resources=after))
        return answer

    def add(self, name: str, milli: int = 0, qos: QosClass = "guaranteed", *, cpus: str = "", **more: Any) -> str:
        """A pod with a running container, made at the runtime: the container's id."""
        config = pod_config(name, qos=qos)
        guaranteed = qos == "guaranteed"
        resources = linux_resources(
            cpu_request=milli, cpu_limit=milli if guaranteed else 0, memory_limit=_MEMORY if guaranteed else 0
        )
        resources.cpuset_cpus = cpus
        image = self.runtime.images.pull(BUSYBOX, cri.AuthConfig())
        state = self.runtime.state
        sandbox = state.run_sandbox(config, "runc")
        made = state.create_container(sandbox, container_config(config, resources=resources, **more), image)
        state.start_container(made)
        return made.id

    async def start(self) -> None:
        """Take over what runs."""
        await self.sync.resync()
        await eventually(self.tracker.ready.is_set, "the books to be made")

    def cpus(self, container_id: str) -> str:
        """The CPU set of a container at the runtime."""
        return self.runtime.containers[container_id].resources.cpuset_cpus

    @property
    def own(self) -> list[str]:
        """What containers have alone by the books, in order of their coming."""
        grants = self.tracker.allocations.policy.state.grants.values()
        return [str(grant.exclusive) for grant in grants if grant.exclusive]

    async def in_step(self) -> None:
        """Wait until every container has what it should have."""
        await eventually(
            lambda: not self.tracker.updaters.schedule(tuple(self.tracker.allocations.by_key)), "all to be in step"
        )

    async def close(self) -> None:
        """Leave nothing behind."""
        await self.tracker.close()
        await self.sync.close()


@asynccontextmanager
async def running(
    *containers: tuple[str, int, QosClass], configuration: Configuration | None = None
) -> AsyncIterator[PolicyNode]:
    """A node with these containers, all of them taken over, inside the block."""
    node = PolicyNode(configuration=configuration)
    try:
        for name, milli, qos in containers:
            node.add(name, milli, qos)
        await node.start()
        await node.in_step()
        yield node
    finally:
        await node.close()
