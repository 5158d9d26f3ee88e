"""A relay with hooks in the test's own event loop: a fake runtime, a directory for registrations, a grpcio client.

The wiring is that of the product (`cli.relay.interception`), so what a test sees here is what a node sees.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from google.protobuf.message import Message

from interpose._pb import cri_pb2
from interpose.cli.relay.interception import Interception
from interpose.cli.relay.interceptors import Interceptors
from interpose.config.relay.settings import RelaySettings
from interpose.cri.methods import METHODS
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.hookserver import FakeHookServer, register
from interpose.testing.serve import serve_runtime
from interpose.testing.stack import Stack, relay_stack


class CriCaller:
    """Calls of CRI methods by name over one grpcio channel. Errors are grpcio's."""

    def __init__(self, channel: Any) -> None:
        self._channel = channel

    async def __call__(self, request: Message, *, version: str = "v1", timeout: float | None = WAIT_LIMIT) -> Any:
        """Send a request; the method follows from its class."""
        name = type(request).__name__.removesuffix("Request")
        path = f"/runtime.{version}.{METHODS[name].service}/{name}"
        answer = await self._channel.unary_unary(path)(request.SerializeToString(), timeout=timeout)
        return getattr(cri_pb2, METHODS[name].response).FromString(answer)


class HookStack:
    """The parts of a running relay with hooks."""

    def __init__(self, folder: Path, stack: Stack, hooks: Interception, runtime: FakeRuntime, call: CriCaller) -> None:
        self.folder = folder
        self.stack = stack
        self.hooks = hooks
        self.runtime = runtime
        self.call = call

    @property
    def directory(self) -> Path:
        """Where hook servers register."""
        return Path(self.hooks.registrations.directory)

    @property
    def built(self) -> Interceptors:
        """The interceptors; only there once something was registered."""
        if self.hooks.built is None:
            raise LookupError("no hook server was ever registered")
        return self.hooks.built

    async def register(self, name: str, endpoint: Path, **more: Any) -> None:
        """Register a hook server and wait until it is in force."""
        register(self.directory, name, endpoint, **more)
        await self.in_force(name)

    async def in_force(self, *names: str) -> None:
        """Wait until these are among the hook servers in force."""
        await eventually(
            lambda: self.hooks.built is not None and set(names) <= {server.name for server in self.built.plugins.all},
            f"{names} to be in force",
        )


@asynccontextmanager
async def hook_stack(
    folder: Path,
    *,
    settings: RelaySettings | None = None,
    runtime: FakeRuntime | None = None,
    memory: Mapping[str, Any] | None = None,
) -> AsyncIterator[HookStack]:
    """A relay with hooks inside the block. The directory for registrations exists, and may be filled before.

    `memory` is what a predecessor leaves.
    """
    runtime = runtime or FakeRuntime()
    settings = settings or RelaySettings()
    directory = folder / "hookserver.d"
    directory.mkdir(exist_ok=True)
    directory.chmod(0o755)
    settings = replace(settings, hooks=replace(settings.hooks, dir=str(directory)))
    async with (
        serve_runtime(folder / "runtime.sock", runtime),
        relay_stack(folder / "relay.sock", folder / "runtime.sock", limits=settings.limits) as stack,
        grpc_channel(stack.socket) as channel,
    ):
        hooks = Interception(settings, stack.relay, stack.end_event_streams, stack.hub, stack.runtime)
        hooks.load(memory)
        hooks.start()
        try:
            yield HookStack(folder, stack, hooks, runtime, CriCaller(channel))
        finally:
            await hooks.close()


def points_of(server: FakeHookServer) -> list[str]:
    """Where a hook server was asked, in order."""
    return [call.point.value for call in server.calls]
