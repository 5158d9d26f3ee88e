"""The runtime as a `cri.caller.Caller`: a table of methods over lifecycle, queries, execution, stats and images.

Changes go on to their end even if the caller leaves; queries are answered from memory at once.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import aclosing
from typing import Any, Final, Protocol

from google.protobuf.message import Message

from interpose.metrics import Family, Sample
from interpose.net.grpc.status import Code, RpcError
from interpose.node.runtime.service.containers import ContainerService
from interpose.node.runtime.service.core import RuntimeCore
from interpose.node.runtime.service.cri_views import CONTAINER_STATES
from interpose.node.runtime.service.exec import ExecService
from interpose.node.runtime.service.lifecycle import ContainerLifecycle
from interpose.node.runtime.service.methods import ChangeMethod, MemoryMethod, Methods, QueryMethod, ServerStreamMethod
from interpose.node.runtime.service.queries import QueryService, RuntimeIdentity
from interpose.node.runtime.service.recovery import StateRecovery
from interpose.node.runtime.service.sandboxes import SandboxService

_CLOSE_TIMEOUT: Final = 10.0
_UNSUPPORTED: Final = frozenset({"CheckpointContainer", "CheckpointPod", "RestorePod"})


class StreamServerLifecycle(Protocol):
    """Start and stop of the stream server."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...


class LocalRuntime:
    """The runtime: both CRI services. Belongs to one event loop."""

    METHODS: frozenset[str]

    def __init__(
        self,
        core: RuntimeCore,
        identity: RuntimeIdentity,
        execution: ExecService,
        services: Iterable[Methods],
        *,
        streams: StreamServerLifecycle | None = None,
        make_folder: Callable[[str, str], Awaitable[None]],
        closing: Iterable[Callable[[], Awaitable[None]]] = (),
    ) -> None:
        """`services` are further parts of the method table (images, stats); `closing` is called at the very end."""
        self.execution = execution
        self._core = core
        self._identity = identity
        self._streams = streams
        self._closing = tuple(closing)
        sandboxes = SandboxService(core, identity.handlers)
        containers = ContainerService(core)
        lifecycle = ContainerLifecycle(core, make_folder)
        self._recovery = StateRecovery(core, sandboxes)
        self._methods: Methods = {
            "RunPodSandbox": ChangeMethod(sandboxes.run),
            "StopPodSandbox": ChangeMethod(sandboxes.stop),
            "RemovePodSandbox": ChangeMethod(sandboxes.remove),
            "UpdatePodSandboxResources": ChangeMethod(sandboxes.update),
            "CreateContainer": ChangeMethod(containers.create),
            "UpdateContainerResources": ChangeMethod(containers.update),
            "StartContainer": ChangeMethod(lifecycle.start),
            "StopContainer": ChangeMethod(lifecycle.stop),
            "RemoveContainer": ChangeMethod(lifecycle.remove),
            **QueryService(core, identity).methods(),
            **execution.methods(),
            **{name: method for part in services for name, method in part.items()},
        }
        self.METHODS = frozenset(self._methods)

    @property
    def not_isolated(self) -> tuple[str, ...]:
        """Sentences on what containers share with the node although they should not; empty if isolation is complete."""
        return self._identity.not_isolated

    async def start(self) -> None:
        """Recover the state of the previous process; calls can be answered then."""
        await self._recovery.run()
        if self._streams is not None:
            await self._streams.start()

    async def close(self) -> None:
        """Close connections, threads and locks; containers go on."""
        core = self._core
        core.events.close()
        if self._streams is not None:
            await self._streams.close()
        await core.operations.close(_CLOSE_TIMEOUT)
        for sandbox in core.registry.sandboxes.values():
            if sandbox.shim is not None:
                await sandbox.shim.disconnect()
        await core.close()
        for close in self._closing:
            await close()

    # -- calls

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """A unary call; every failure is an RpcError."""
        definition = self._methods.get(method)
        if isinstance(definition, MemoryMethod):
            return definition.run(request)
        if not isinstance(definition, ChangeMethod | QueryMethod):
            raise _unknown_method(method)
        try:
            async with asyncio.timeout(timeout):
                if isinstance(definition, ChangeMethod):
                    return await self._core.operations.run(method, lambda: definition.run(request))
                return await definition.run(request)
        except TimeoutError:
            raise RpcError(Code.DEADLINE_EXCEEDED, f"{method} took longer than {timeout:g} s") from None

    async def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        """A server-streaming call; every failure is an RpcError."""
        definition = self._methods.get(method)
        if not isinstance(definition, ServerStreamMethod):
            raise _unknown_method(method)
        # Closed at once: a caller that leaves must not keep a subscription open until the next garbage collection.
        async with aclosing(definition.run(request)) as answers:
            async for answer in answers:
                yield answer

    # -- description and metrics

    def describe(self) -> dict[str, object]:
        """Executor, counts by state and settings, for the admin socket."""
        sandboxes, containers = self._counts()
        identity = self._identity
        return {
            "executor": f"{identity.executor} {identity.executor_version}".strip(),
            "sandboxes": dict(sandboxes),
            "containers": dict(containers),
            **identity.settings,
        }

    def collect(self) -> Iterable[Family]:
        """Metrics: sandboxes and containers by state, operations and event streams."""
        sandboxes, containers = self._counts()
        for name, counts in (("sandboxes", sandboxes), ("containers", containers)):
            samples = [Sample(count, {"state": state}) for state, count in sorted(counts.items())]
            yield Family(f"interpose_runtime_{name}", "gauge", f"{name.capitalize()} there are, by state.", samples)
        under_way = Sample(len(self._core.operations))
        yield Family("interpose_runtime_operations_under_way", "gauge", "Operations that are under way.", [under_way])
        subscribers = Sample(self._core.events.subscribers)
        yield Family("interpose_runtime_event_streams", "gauge", "Streams of container events.", [subscribers])

    def _counts(self) -> tuple[Counter[str], Counter[str]]:
        registry = self._core.registry
        sandboxes = Counter({"ready": 0, "notready": 0})
        sandboxes.update("ready" if sandbox.record.ready else "notready" for sandbox in registry.visible_sandboxes())
        containers = Counter({"created": 0, "running": 0, "exited": 0})
        names = ("created", "running", "exited")
        containers.update(names[CONTAINER_STATES[container.phase]] for container in registry.visible_containers())
        return sandboxes, containers


def _unknown_method(method: str) -> RpcError:
    if method in _UNSUPPORTED:
        return RpcError(Code.UNIMPLEMENTED, f"{method}: checkpoints are not supported by this runtime")
    return RpcError(Code.UNIMPLEMENTED, f"unknown method {method}")
