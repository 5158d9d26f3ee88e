"""Intercepted calls between a client and a backend that both see bytes as they are.

For tests of the seams: interceptors made of one function, a tap that notes everything, and the setup around them.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from interpose._pb import cri_pb2 as cri
from interpose.net.grpc.client import Client
from interpose.net.grpc.exchange import RawReply
from interpose.net.grpc.framing import frame, request_headers
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from interpose.relay.api import Call, Direction, Interceptor, Interest, Proceed, Reply, Sighting
from interpose.testing.stack import Stack, relay_stack
from tests.support.net.raw_backend import RawAnswer, RawBackend, raw_backend

CREATE = b"/runtime.v1.RuntimeService/CreateContainer"
# Fields out of order, one of them unknown, an env that is not UTF-8: nothing a re-encoded message would look like.
ODD = (
    cri.CreateContainerRequest(
        config=cri.ContainerConfig(envs=[cri.KeyValue(key="B", value=b"\xff\xfe"), cri.KeyValue(key="A", value=b"1")])
    ).SerializeToString()
    + b"\xba\x3e\x05later"
    + cri.CreateContainerRequest(pod_sandbox_id="pod").SerializeToString()
)
REPLY = cri.CreateContainerResponse(container_id="c1").SerializeToString() + b"\xba\x3e\x05later"

Behaviour = Callable[[Call, Proceed], Awaitable[Reply]]


class Stub:
    """An interceptor made of one function."""

    def __init__(
        self, behaviour: Behaviour, name: str = "stub", methods: Collection[str] = ("CreateContainer",)
    ) -> None:
        self.name = name
        self.methods = methods
        self._behaviour = behaviour
        self.calls: list[Call] = []

    async def intercept(self, call: Call, proceed: Proceed) -> Reply:
        """Remember, and do as told."""
        self.calls.append(call)
        return await self._behaviour(call, proceed)


class Notes:
    """A tap that writes down everything."""

    name = "notes"

    def __init__(self, methods: Collection[str] = ("CreateContainer",)) -> None:
        self.methods = methods  # an empty name: those nobody knows
        self.calls: dict[int, Sighting] = {}
        self.seen: list[tuple[int, str, str, bytes]] = []
        self.unseen: list[tuple[int, str, int, str]] = []
        self.ends: list[tuple[int, int]] = []
        self.ended: list[tuple[int, str, tuple[str, ...]]] = []

    def interest(self, method: str) -> Interest:
        """In what it was told."""
        return Interest.MESSAGES if method in self.methods else Interest.NONE

    def on_begin(self, call: Sighting) -> None:
        """A beginning."""
        self.calls[call.number] = call

    def on_message(self, call: Sighting, direction: Direction, message: bytes) -> None:
        """A message."""
        self.seen.append((call.number, call.origin, direction.value, message))

    def on_unseen(self, call: Sighting, direction: Direction, size: int, why: str) -> None:
        """A message that is not shown."""
        self.unseen.append((call.number, direction.value, size, why))

    def on_end(self, call: Sighting, code: int, message: str, changed_by: Sequence[str]) -> None:
        """An end."""
        self.ends.append((call.number, code))
        self.ended.append((code, message, tuple(changed_by)))


class Caller:
    """A client that sees and sends bytes as they are."""

    def __init__(self, path: Path) -> None:
        self.hub = Hub()
        # Patient: a busy machine is no answer.
        self.upstream = Upstream(str(path), hub=self.hub, limits=Limits(header_list=1 << 20), wait=10.0)
        self._client = Client(self.upstream, self.hub)

    async def __call__(
        self,
        body: bytes = b"",
        *,
        path: bytes = CREATE,
        metadata: tuple[tuple[bytes, bytes], ...] = (),
        timeout: float | None = None,
        framed: bool = False,
    ) -> RawReply:
        wire = request_headers(path, metadata, timeout)
        return await self._client.raw.exchange(wire, body if framed else frame(body))

    async def aclose(self) -> None:
        await self.upstream.close()


class Setup:
    """A relay with interceptors between a raw client and a raw backend."""

    def __init__(self, stack: Stack, backend: RawBackend, call: Caller) -> None:
        self.stack = stack
        self.backend = backend
        self.call = call

    @property
    def errors(self) -> dict[tuple[str, str, str], int]:
        """What interceptors did wrong, as it is counted."""
        return dict(self.stack.relay.call_runner.chain.errors)


@asynccontextmanager
async def seams(folder: Path, *interceptors: Interceptor, **more: Any) -> AsyncIterator[Setup]:
    """Everything running."""
    async with (
        raw_backend(folder / "runtime.sock") as backend,
        relay_stack(folder / "relay.sock", folder / "runtime.sock", interceptors=interceptors, **more) as stack,
    ):
        backend.answer = RawAnswer(body=frame(REPLY))
        call = Caller(stack.socket)
        try:
            yield Setup(stack, backend, call)
        finally:
            await call.upstream.close()


async def look(call: Call, proceed: Proceed) -> Reply:
    """Parse both messages and change nothing."""
    if call.request.pod_sandbox_id != "pod":
        raise AssertionError(call.request)
    reply = await proceed()
    if reply.response.container_id != "c1":
        raise AssertionError(reply.response)
    return reply


async def add_env(call: Call, proceed: Proceed) -> Reply:
    """Change the request."""
    call.request.config.envs.add(key="C", value=b"\xfd")
    return await proceed()


def prefixed(text: str) -> Behaviour:
    """Leave a mark on the way there and one on the way back."""

    async def behaviour(call: Call, proceed: Proceed) -> Reply:
        call.request.pod_sandbox_id += f">{text}"
        reply = await proceed()
        reply.response.container_id += f"<{text}"
        return reply

    return behaviour
