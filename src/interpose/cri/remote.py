"""A runtime behind a socket: CRI v1, or v1alpha2 where the runtime is that old. Images may have a socket of their own.

A call is sent once. One that was under way when the connection ended is over, and nobody knows what came of it. Which
version is spoken is asked again after each new connection: another runtime may be there now.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from google.protobuf.message import DecodeError, Message

from interpose.config.endpoint import parse_endpoint
from interpose.cri.messages import cri
from interpose.cri.methods import METHODS, Method
from interpose.net.grpc.client import Client
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Reports, Upstream
from interpose.net.h2.limits import Limits
from interpose.tasks import TaskBag

# A runtime that is restarted is back within this time; who asks a runtime that is not there wants to know soon.
PATIENCE: Final = 3.0
_ASKING: Final = 10.0
_LARGEST: Final = 32 << 20
# What is asked to learn the version: both are cheap and no runtime lacks them.
_FIRST: Final = {"RuntimeService": "Version", "ImageService": "ImageFsInfo"}


class RemoteCaller:
    """Answers CRI calls by asking the runtime at `endpoint`, and for images the one at `image_endpoint`."""

    def __init__(
        self,
        endpoint: str,
        image_endpoint: str | None = None,
        *,
        patience: float = PATIENCE,
        hub: Hub | None = None,
        reports: Reports | None = None,
    ) -> None:
        """Endpoints as `/path` or `unix:///path`; ConfigError for anything else. `patience`: seconds that a call waits
        for a connection."""
        self.path = parse_endpoint(endpoint, "--runtime-endpoint")
        self.image_path = parse_endpoint(image_endpoint or endpoint, "--image-endpoint")
        hub = hub if hub is not None else Hub()
        self._tasks = TaskBag()
        main = _Peer(self.path, hub, "RuntimeService", patience, reports)
        same = self.image_path == self.path
        images = main if same else _Peer(self.image_path, hub, "ImageService", patience, reports)
        self._peers = {"RuntimeService": main, "ImageService": images}

    @property
    def version(self) -> str:
        """The API version in use; empty before the first answer."""
        return self._peers["RuntimeService"].version

    @property
    def up(self) -> bool:
        """Whether all connections are there."""
        return all(peer.upstream.up for peer in self._peers.values())

    async def start(self) -> None:
        """Connect and agree on a version. RpcError UNAVAILABLE that names the socket if nobody listens there."""
        peers = dict.fromkeys(self._peers.values())
        for peer in peers:
            peer.upstream.start()
        self._tasks.spawn(_beat([peer.upstream for peer in peers]), name="runtime connections")
        for peer in peers:
            await peer.agree()

    async def close(self) -> None:
        """Drop the connections."""
        await self._tasks.cancel()
        for peer in dict.fromkeys(self._peers.values()):
            await peer.upstream.close()

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        """A unary call."""
        row = _row(method, streaming=False)
        peer = self._peers[row.service]
        path = await peer.path_of(row, timeout)
        body = await peer.client.unary(path, request.SerializeToString(), timeout=timeout)
        return _parsed(row, body)

    async def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        """A server-streaming call."""
        row = _row(method, streaming=True)
        peer = self._peers[row.service]
        path = await peer.path_of(row, timeout)
        bodies: Any = peer.client.server_stream(path, request.SerializeToString(), timeout=timeout)
        async with aclosing(bodies):
            async for body in bodies:
                yield _parsed(row, body)


class _Peer:
    """One socket: its connections and the version that is spoken there."""

    def __init__(self, path: str, hub: Hub, service: str, patience: float, reports: Reports | None) -> None:
        self.upstream = Upstream(path, hub=hub, limits=Limits(), wait=patience, reports=reports)
        self.upstream.on_up = self._forget
        self.client = Client(self.upstream, hub, limit=_LARGEST)
        self.version = ""
        self._first = METHODS[_FIRST[service]]
        self._current = False  # whether this very runtime has said which version it speaks
        self._asking = asyncio.Lock()

    async def path_of(self, row: Method, timeout: float | None) -> bytes:
        """How a method is called there. Mostly known; else it is found out within the time of the call."""
        if not self._known:
            try:
                async with asyncio.timeout(timeout):
                    await self.agree()
            except TimeoutError:
                raise RpcError(Code.DEADLINE_EXCEEDED, f"no answer within {timeout:g} s") from None
        return f"/runtime.{self.version}.{row.service}/{row.name}".encode()

    @property
    def _known(self) -> bool:
        """Whether the runtime that is there now has been asked. While nobody is there the next one is not known."""
        return self._current and self.upstream.up

    async def agree(self) -> None:
        """v1; v1alpha2 if that is not known there. Any other failure is the answer."""
        async with self._asking:
            if self._known:
                return
            await self.client.connection()  # so that on_up of it comes before what is found out
            await asyncio.sleep(0)
            try:
                await self._ask("v1")
            except RpcError as error:
                if error.code is not Code.UNIMPLEMENTED:
                    raise
                await self._ask("v1alpha2")
            self._current = True

    async def _ask(self, version: str) -> None:
        path = f"/runtime.{version}.{self._first.service}/{self._first.name}".encode()
        await self.client.unary(path, b"", timeout=_ASKING)
        self.version = version

    def _forget(self) -> None:
        self._current = False


async def _beat(upstreams: list[Upstream]) -> None:
    while True:
        await asyncio.sleep(1.0)
        for upstream in upstreams:
            upstream.tick()


def _row(method: str, *, streaming: bool) -> Method:
    row = METHODS.get(method)
    if row is None or row.server_streaming is not streaming:
        raise RpcError(Code.UNIMPLEMENTED, f"unknown method {method}")
    return row


def _parsed(row: Method, body: bytes) -> Message:
    kind: type[Message] = getattr(cri, row.response)
    answer = kind()
    try:
        answer.ParseFromString(body)
    except DecodeError as error:
        raise RpcError(Code.INTERNAL, f"the runtime's answer to {row.name} cannot be read: {error}") from None
    return answer
