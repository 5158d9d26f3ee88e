"""A hook server for tests: it notes what it is asked and answers, refuses, stands still or breaks as it is told.

Served with the server every daemon of ours uses, in the same process (`serve_hooks`) or in one of its own:
`python -m interpose.testing.hookserver SOCKET [--echo] [--set-shares N]` serves until it is killed.
"""

import argparse
import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from google.protobuf.message import Message

from interpose.hooks.api.hookpoint import FailurePolicy, HookPoint
from interpose.hooks.api.messages import (
    ContainerResourceHookResponse,
    PodSandboxHookRequest,
    PodSandboxHookResponse,
    request_class,
    response_class,
)
from interpose.net.grpc.framing import parse_timeout
from interpose.net.grpc.handlers import Handlers, ServerContext, Unary
from interpose.net.grpc.server import LocalServer, serve
from interpose.net.grpc.status import RpcError
from interpose.testing.changes import Changes
from interpose.testing.failpoints import Stall

# A function of the request, or what it would return: a response, None for an empty one, raw bytes, or an error.
Given: TypeAlias = Message | bytes | RpcError | None
Answer: TypeAlias = Given | Callable[[Any], Given]

GARBAGE = b"\xff\xff\xff\xff"
LIFE = [
    HookPoint.PRE_RUN_POD_SANDBOX,
    HookPoint.PRE_CREATE_CONTAINER,
    HookPoint.PRE_START_CONTAINER,
    HookPoint.POST_START_CONTAINER,
    HookPoint.PRE_UPDATE_CONTAINER_RESOURCES,
    HookPoint.POST_STOP_CONTAINER,
    HookPoint.POST_STOP_POD_SANDBOX,
]
"""Where hook servers are asked about a pod with one container that is updated once, in the order of its life."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHookCall:
    """A call of the hook server; `timeout` is what was left to the caller, in seconds."""

    point: HookPoint
    request: Any
    metadata: tuple[tuple[bytes, bytes], ...]
    timeout: float | None


class FakeHookServer:
    """Answers by hook point; where nothing is set, as `default` says. Belongs to one event loop."""

    def __init__(self, default: Answer = None, *, keep: bool = True) -> None:
        """With `keep` false it forgets what it was asked: for long runs."""
        self.default = default
        self.answers: dict[HookPoint, Answer] = {}
        self.calls: list[RecordedHookCall] = []
        self.cancelled: list[HookPoint] = []
        self.changes = Changes()  # notified of calls and cancellations
        self._keep = keep
        self._stalls: dict[HookPoint, Stall] = {}
        self._crashing: set[HookPoint] = set()
        self._servers: list[LocalServer] = []

    # -- how it behaves

    def stall(self, point: HookPoint) -> Stall:
        """Hold all calls of this hook point until the returned stall is released."""
        self._stalls[point] = stall = Stall()
        return stall

    def crash(self, *points: HookPoint) -> None:
        """From now on all connections end in the middle of such a call; without points: never again."""
        self._crashing = set(points)

    def garbage(self, point: HookPoint) -> None:
        """Answer with bytes that are no message."""
        self.answers[point] = GARBAGE

    def drop_connections(self) -> None:
        """End all connections; the socket stays."""
        for server in self._servers:
            for link in list(server.listener.links):
                link.abort()

    # -- how it is served

    def handlers(self) -> Handlers:
        """The handlers of all hook points, for a gRPC server."""
        return {point.rpc: Unary(partial(self._handle, point)) for point in HookPoint}

    def attach(self, server: LocalServer) -> None:
        """Note a server of these handlers; its connections are those that a crash ends."""
        self._servers.append(server)

    def detach(self, server: LocalServer) -> None:
        """Forget a server that has ended."""
        self._servers.remove(server)

    async def _handle(self, point: HookPoint, message: bytes, context: ServerContext) -> bytes:
        request = request_class(point).FromString(message)
        if self._keep:
            metadata = tuple(context.metadata)
            timeout = dict(metadata).get(b"grpc-timeout")
            left = parse_timeout(timeout) if timeout is not None else None
            self.calls.append(RecordedHookCall(point=point, request=request, metadata=metadata, timeout=left))
        self.changes.notify()
        try:
            if point in self._crashing:
                self.drop_connections()
                await asyncio.Event().wait()  # the lost connection ends this
            if (stall := self._stalls.get(point)) is not None:
                await stall.hold()
        except asyncio.CancelledError:
            self.cancelled.append(point)
            self.changes.notify()
            raise
        answer = self.answers.get(point, self.default)
        return _wire(point, answer(request) if callable(answer) else answer)


def _wire(point: HookPoint, given: Given) -> bytes:
    if isinstance(given, RpcError):
        raise given
    if given is None:
        return b""
    if isinstance(given, bytes):
        return given
    if not isinstance(given, response_class(point)):
        raise TypeError(f"{type(given).__name__} is no answer at {point}")
    wire: bytes = given.SerializeToString()
    return wire


def echo(request: Any) -> Any:
    """The answer of a koordlet that changes nothing: every field that an answer has, as it was asked."""
    if isinstance(request, PodSandboxHookRequest):
        return PodSandboxHookResponse(
            labels=request.labels,
            annotations=request.annotations,
            cgroup_parent=request.cgroup_parent,
            resources=request.resources if request.HasField("resources") else None,
        )
    return ContainerResourceHookResponse(
        container_annotations=request.container_annotations,
        container_resources=request.container_resources if request.HasField("container_resources") else None,
        pod_cgroup_parent=request.pod_cgroup_parent,
        container_envs=request.container_envs,
    )


def response_to(request: Any) -> Any:
    """An empty answer of the kind that fits."""
    return PodSandboxHookResponse() if isinstance(request, PodSandboxHookRequest) else ContainerResourceHookResponse()


def set_shares(shares: int, base: Callable[[Any], Any] = response_to) -> Callable[[Any], Any]:
    """An answer about containers that sets cpu_shares, in an echo or alone."""

    def answer(request: Any) -> Any:
        response = base(request)
        if isinstance(response, ContainerResourceHookResponse):
            response.container_resources.cpu_shares = shares
        return response

    return answer


@asynccontextmanager
async def serve_hooks(path: str | Path, server: FakeHookServer) -> AsyncIterator[LocalServer]:
    """The hook server answers on `path` inside the block; leaving it is a crash: connections end, the file goes."""
    local = await serve(path, server.handlers())
    server.attach(local)
    try:
        yield local
    finally:
        server.detach(local)
        Path(path).unlink(missing_ok=True)  # noqa: ASYNC240 - a test's own file
        await local.close()


def register(
    directory: str | Path,
    name: str,
    endpoint: str | Path,
    *,
    hooks: Iterable[HookPoint | str] = tuple(HookPoint),
    failure_policy: FailurePolicy | str | None = None,
    **more: object,
) -> Path:
    """Write the registration file of a hook server in one go; further keys as they are in the file."""
    document: dict[str, object] = {"remote-endpoint": str(endpoint)}
    if failure_policy is not None:
        document["failure-policy"] = str(failure_policy)
    document["runtime-hooks"] = [str(hook) for hook in hooks]
    path = Path(directory) / f"{name}.json"
    unfinished = path.with_name(f".{path.name}.{os.getpid()}.new")
    unfinished.write_text(json.dumps(document | more, indent=2) + "\n", encoding="utf-8")
    unfinished.chmod(0o644)
    unfinished.replace(path)
    return path


async def _serve(path: Path, answer: Answer) -> None:
    path.unlink(missing_ok=True)  # noqa: ASYNC240 - at start, nobody waits
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    async with serve_hooks(path, FakeHookServer(answer, keep=False)):
        await ended.wait()


def main(argv: Sequence[str] | None = None) -> None:
    import uvloop

    parser = argparse.ArgumentParser(prog="hookserver", description="A hook server for tests.")
    parser.add_argument("socket", type=Path)
    parser.add_argument("--echo", action="store_true", help="repeat what was asked; without it answers are empty")
    parser.add_argument("--set-shares", type=int, metavar="N", help="set cpu_shares of containers")
    options = parser.parse_args(argv)
    base = echo if options.echo else response_to
    uvloop.run(_serve(options.socket, base if options.set_shares is None else set_shares(options.set_shares, base)))


if __name__ == "__main__":
    main()
