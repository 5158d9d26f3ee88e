"""A runtime behind a socket: CRI v1, or v1alpha2 where the runtime is that old. Images may have a socket of their own.

A call is sent once. One that was under way when the connection ended has failed, and its outcome is unknown. The
version is asked for again after each new connection: another runtime may be there now.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final

from google.protobuf.message import Message

from interpose.config.endpoint import parse_endpoint
from interpose.cri.api_version import VersionFallback
from interpose.cri.messages import parse_message
from interpose.cri.methods import METHODS, Method
from interpose.net.grpc.client import Client
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Reports, Upstream
from interpose.net.h2.limits import Limits
from interpose.tasks import TaskBag

# Seconds. A runtime that is restarted is back within this time; the user of one that is not there wants to know soon.
CONNECT_WAIT: Final = 3.0
_VERSION_TIMEOUT: Final = 10.0
_MAX_MESSAGE: Final = 32 << 20
# The calls by which a version is found: both are cheap and no runtime lacks them.
_VERSION_PROBES: Final = {"RuntimeService": "Version", "ImageService": "ImageFsInfo"}


class RemoteCaller:
    """Answers CRI calls by asking the runtime at `endpoint`, and for images the one at `image_endpoint`."""

    def __init__(
        self,
        endpoint: str,
        image_endpoint: str | None = None,
        *,
        patience: float = CONNECT_WAIT,
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
        """Connect and agree on a version. RpcError UNAVAILABLE that names the socket if no runtime listens there."""
        peers = dict.fromkeys(self._peers.values())
        for peer in peers:
            peer.upstream.start()
        self._tasks.spawn(_beat([peer.upstream for peer in peers]), name="runtime connections")
        for peer in peers:
            await peer.agree()

    async def close(self) -> None:
        await self._tasks.cancel()
        for peer in dict.fromkeys(self._peers.values()):
            await peer.upstream.close()

    async def call(self, method: str, request: Message, *, timeout: float | None = None) -> Any:
        row = _row(method, streaming=False)
        peer = self._peers[row.service]
        path = await peer.path_of(row, timeout)
        body = await peer.client.unary(path, request.SerializeToString(), timeout=timeout)
        return _parse_answer(row, body)

    async def stream(self, method: str, request: Message, *, timeout: float | None = None) -> AsyncGenerator[Any, None]:
        row = _row(method, streaming=True)
        peer = self._peers[row.service]
        path = await peer.path_of(row, timeout)
        bodies: Any = peer.client.server_stream(path, request.SerializeToString(), timeout=timeout)
        async with aclosing(bodies):
            async for body in bodies:
                yield _parse_answer(row, body)


class _Peer:
    """One socket: its connections and the version of the runtime there."""

    def __init__(self, path: str, hub: Hub, service: str, patience: float, reports: Reports | None) -> None:
        self.upstream = Upstream(path, hub=hub, limits=Limits(), wait=patience, reports=reports)
        self.upstream.on_up = self._on_up
        self.client = Client(self.upstream, hub, limit=_MAX_MESSAGE)
        self.version = ""
        self._probe = METHODS[_VERSION_PROBES[service]]
        self._versions = VersionFallback(self._send)
        self._current = False  # whether the runtime of this connection has answered in a version
        self._agreeing = asyncio.Lock()

    async def path_of(self, row: Method, timeout: float | None) -> bytes:
        """The path of a method there. The version is mostly known; else it is found out within the time of the call."""
        if not self._known:
            try:
                async with asyncio.timeout(timeout):
                    await self.agree()
            except TimeoutError:
                raise RpcError(Code.DEADLINE_EXCEEDED, f"no answer within {timeout:g} s") from None
        return self._versions.choose_path(row.paths).encode()

    @property
    def _known(self) -> bool:
        """Whether the version of the runtime that is there now is known. Without a connection it never is."""
        return self._current and self.upstream.up

    async def agree(self) -> None:
        """Find the version of the runtime. RpcError with its answer if it answers in none."""
        async with self._agreeing:
            if self._known:
                return
            await self.client.raw.connection()  # so that on_up of it comes before what is found out
            await asyncio.sleep(0)
            self._versions.forget()
            await self._versions.call(self._probe.paths, b"", _VERSION_TIMEOUT)
            self.version = self._versions.version
            self._current = True

    async def _send(self, path: str, message: bytes, timeout: float) -> bytes:
        return await self.client.unary(path.encode(), message, timeout=timeout)

    def _on_up(self) -> None:
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


def _parse_answer(row: Method, body: bytes) -> Message:
    return parse_message(row.response, body, f"the runtime's answer to {row.name} cannot be read")
