"""A relay with a policy in the test's own event loop: a fake runtime, a fake machine, a grpcio client.

The wiring is that of the product, so what a test sees here is what a node sees. A second stack over the same runtime
and folder is a restart.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from interpose._pb import cri_pb2 as cri
from interpose.cli.relay.interception import Interception
from interpose.cli.relay.policy import make_policy_service
from interpose.config.relay.settings import PolicySettings, RelaySettings
from interpose.core.model.resources import LinuxResources
from interpose.core.topology.topology import Topology
from interpose.cri.store.convert import to_resources
from interpose.resmgr.interceptor import PolicyInterceptor
from interpose.resmgr.reconcile import AllocationReconciler
from interpose.resmgr.reconfigure import Reconfigurer
from interpose.resmgr.service import PolicyService
from interpose.resmgr.tracker import AllocationTracker
from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.hookstack import CriCaller
from interpose.testing.pods import QosClass, container_config, create_request, linux_resources, pod_config, run_request
from interpose.testing.serve import serve_runtime
from interpose.testing.stack import Stack, relay_stack
from tests.support.policy.sysfs_tree import write_sysfs

MEMORY = 256 << 20


class RuntimeServer:
    """The socket of a fake runtime, which can go and come back."""

    def __init__(self, path: Path, runtime: FakeRuntime) -> None:
        self._path = path
        self._runtime = runtime
        self._served = AsyncExitStack()

    async def come(self) -> None:
        """Answer on the socket."""
        await self._served.enter_async_context(serve_runtime(self._path, self._runtime))

    async def crash(self) -> None:
        """Be gone: connections end, the file goes, containers run on."""
        await self._served.aclose()


class PolicyStack:
    """The parts of a running relay with a policy."""

    def __init__(
        self,
        folder: Path,
        stack: Stack,
        parts: Interception,
        policy: PolicyService,
        runtime: FakeRuntime,
        server: RuntimeServer,
        call: CriCaller,
    ) -> None:
        self.folder = folder
        self.stack = stack
        self.parts = parts
        self.policy = policy
        self.runtime = runtime
        self.server = server
        self.call = call

    @property
    def interceptor(self) -> PolicyInterceptor:
        """The interceptor."""
        return self.policy.interceptor

    @property
    def tracker(self) -> AllocationTracker:
        """The tracker of all containers."""
        return self.policy.tracker

    @property
    def reconfigurer(self) -> Reconfigurer:
        """Applies configurations to it."""
        return self.policy.reconfigurer

    @property
    def reconciler(self) -> AllocationReconciler:
        """Reconciles it with the store."""
        return self.policy.reconciler

    def tick(self) -> None:
        """A second has passed."""
        self.parts.tick()

    async def pod(self, name: str, qos: QosClass = "guaranteed", **more: Any) -> tuple[str, cri.PodSandboxConfig]:
        """A pod: its id and configuration."""
        config = pod_config(name, qos=qos, **more)
        return (await self.call(run_request(config))).pod_sandbox_id, config

    async def create(
        self, pod: tuple[str, cri.PodSandboxConfig], name: str = "app", *, milli: int = 0, **more: Any
    ) -> str:
        """A container in it; in a Guaranteed pod request and limit are the same."""
        guaranteed = "/kubepods/pod" in pod[1].linux.cgroup_parent
        resources = linux_resources(
            cpu_request=milli, cpu_limit=milli if guaranteed else 0, memory_limit=MEMORY if guaranteed else 0
        )
        config = container_config(pod[1], name, resources=resources, **more)
        container_id: str = (await self.call(create_request(pod[0], pod[1], config))).container_id
        return container_id

    async def run(self, name: str, milli: int = 0, qos: QosClass = "guaranteed", **more: Any) -> str:
        """A pod with one running container: the container's id."""
        pod = await self.pod(name, qos)
        container_id = await self.create(pod, milli=milli, **more)
        await self.call(cri.StartContainerRequest(container_id=container_id))
        return container_id

    async def stop(self, container_id: str) -> None:
        """A container ends."""
        await self.call(cri.StopContainerRequest(container_id=container_id, timeout=1))

    def has(self, container_id: str) -> LinuxResources:
        """What the runtime has for a container."""
        return to_resources(self.runtime.containers[container_id].resources)

    def cpus(self, container_id: str) -> str:
        """Its CPU set there."""
        return self.has(container_id).cpuset_cpus

    def cgroup_cpus(self, container_id: str) -> str:
        """Its CPU set in the kernel, once it was started."""
        return self.runtime.containers[container_id].in_force.cpuset_cpus

    async def eventually_cpus(self, container_id: str, cpus: str) -> None:
        """Wait until it has these CPUs."""
        await eventually(lambda: self.cpus(container_id) == cpus, f"{container_id} to have CPUs {cpus}")


@asynccontextmanager
async def policy_stack(
    folder: Path,
    topology: Topology | None,
    *,
    runtime: FakeRuntime | None = None,
    memory: Mapping[str, Any] | None = None,
    hooks: bool = False,
    origins: Mapping[str, str] | None = None,
    ready: bool = True,
    **policy: Any,
) -> AsyncIterator[PolicyStack]:
    """A relay with a policy inside the block; `policy` are fields of the settings. Without a topology, the last one's.

    The state is in `folder`, and whatever is there counts.
    """
    runtime = runtime or FakeRuntime()
    if topology is not None:
        write_sysfs(topology, folder / "host")
    chosen = PolicySettings(state_dir=str(folder / "state"), host_root=str(folder / "host"), **policy)
    directory = folder / "hookserver.d"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    settings = RelaySettings()
    settings = replace(settings, policy=chosen, hooks=replace(settings.hooks, dir=str(directory), enabled=hooks))
    said = dict.fromkeys((f"policy.{name}" for name in policy), "test") | dict(origins or {})
    server = RuntimeServer(folder / "runtime.sock", runtime)
    async with (
        _served(server),
        relay_stack(folder / "relay.sock", folder / "runtime.sock", limits=settings.limits) as stack,
        grpc_channel(stack.socket) as channel,
    ):
        part = make_policy_service(settings, _Said(said), stack.hub)
        parts = Interception(settings, stack.relay, stack.end_event_streams, stack.hub, stack.runtime, part)
        parts.load(memory)
        parts.start()
        try:
            made = PolicyStack(folder, stack, parts, part, runtime, server, CriCaller(channel))
            if ready:
                await eventually(part.interceptor.tracker.ready.is_set, "running containers to be taken over")
            yield made
        finally:
            await parts.close()


@asynccontextmanager
async def _served(server: RuntimeServer) -> AsyncIterator[None]:
    await server.come()
    try:
        yield
    finally:
        await server.crash()


class _Said(dict[str, str]):
    """Where settings come from: the test, or nowhere."""

    def __missing__(self, key: str) -> str:
        return "default"
