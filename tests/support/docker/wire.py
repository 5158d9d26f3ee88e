"""Both ends of a Docker relay as raw sockets: a dockerd and clients that say exactly the bytes a test wants.

Invariant: leaving a stack closes every socket it opened, and fails if the relay still holds a link, a task or a
connection of its own by then.
"""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

from interpose.net.grpc.listener import Admission
from interpose.net.h1.heads import Heads, RequestHead
from interpose.relay.docker.http_call import DockerHttpCall
from interpose.relay.docker.listener import DockerListener
from interpose.relay.docker.routes import classify
from interpose.relay.docker.stats import EndpointStats
from interpose.relay.docker.upstream import DockerUpstream
from interpose.testing.eventually import WAIT_LIMIT, eventually

CHUNK = 65536


class RawEnd:
    """One end of a connection. What is waited for in vain is a TimeoutError."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.seen = b""  # read and not asked for yet

    async def _more(self) -> bool:
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(WAIT_LIMIT):
            data = await loop.sock_recv(self.sock, CHUNK)
        self.seen += data
        return bool(data)

    async def exactly(self, size: int) -> bytes:
        """That many bytes; EOFError if the peer ends before."""
        while len(self.seen) < size:
            if not await self._more():
                raise EOFError(self.seen)
        found, self.seen = self.seen[:size], self.seen[size:]
        return found

    async def expect(self, wanted: bytes) -> None:
        """Exactly these bytes come next."""
        found = await self.exactly(len(wanted))
        assert found == wanted, (found, wanted)

    async def head(self) -> bytes:
        """A head with its blank line."""
        while b"\r\n\r\n" not in self.seen:
            if not await self._more():
                raise EOFError(self.seen)
        found, blank, self.seen = self.seen.partition(b"\r\n\r\n")
        return found + blank

    async def rest(self) -> bytes:
        """Everything up to the end."""
        while await self._more():
            pass
        found, self.seen = self.seen, b""
        return found

    async def ended(self) -> bool:
        """The peer has closed or reset the connection, and said nothing before."""
        try:
            return await self.rest() == b""
        except ConnectionResetError:
            return True

    async def send(self, data: bytes) -> None:
        """These bytes, all of them."""
        async with asyncio.timeout(WAIT_LIMIT):
            await asyncio.get_running_loop().sock_sendall(self.sock, data)

    def fill(self, most: int) -> int:
        """Send until the socket takes no more at this moment; how much it took."""
        sent = 0
        with contextlib.suppress(BlockingIOError):
            while sent < most:
                sent += self.sock.send(b"x" * CHUNK)
        return sent

    def half_close(self) -> None:
        """Nothing will follow, but we go on reading."""
        self.sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        self.sock.close()


class RawDockerd:
    """Listens where dockerd would. Connections are taken up by the test, in their order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.ends: list[RawEnd] = []
        self._sock: socket.socket | None = None

    def start(self) -> None:
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.setblocking(False)
        self._sock.bind(str(self.path))
        self._sock.listen(128)

    async def accept(self) -> RawEnd:
        """The next connection."""
        assert self._sock is not None
        async with asyncio.timeout(WAIT_LIMIT):
            sock, _ = await asyncio.get_running_loop().sock_accept(self._sock)
        self.ends.append(RawEnd(sock))
        return self.ends[-1]

    def stop(self) -> None:
        """As if the process had ended."""
        if self._sock is not None:
            self._sock.close()
            self._sock = None
            self.path.unlink()
        for end in self.ends:
            end.close()
        self.ends.clear()


class SeenCall:
    """What was told about a call that passed."""

    def __init__(self, head: RequestHead) -> None:
        self.head = head
        self.ended: list[tuple[int, str]] = []

    def end(self, status: int, why: str = "") -> None:
        self.ended.append((status, why))


class StandInRelay:
    """Says what is done with requests: all pass, unless the test wants some of them."""

    def __init__(self) -> None:
        self.wanted: Callable[[RequestHead], bool] = lambda _: False
        self.handler: Callable[[DockerHttpCall], Awaitable[bytes]] = _forward
        self.seen: list[SeenCall] = []
        self.endpoints: dict[str, EndpointStats] = {}

    def needs_buffering(self, head: RequestHead) -> bool:
        return self.wanted(head)

    async def handle(self, call: DockerHttpCall) -> bytes:
        return await self.handler(call)

    def begin(self, head: RequestHead, _peer: object) -> SeenCall:
        self.seen.append(SeenCall(head))
        return self.seen[-1]

    def stats(self, endpoint: Any) -> EndpointStats:
        return self.endpoints.setdefault(endpoint.name, EndpointStats(endpoint.name))


async def _forward(call: DockerHttpCall) -> bytes:
    reply = await call.forward()
    assert not reply.failure, reply.failure
    return reply.raw


class DockerWire:
    """A relay between raw ends."""

    def __init__(self, folder: Path, *, wait: float, limit: int, admission: Admission) -> None:
        self.heads = Heads(classify=classify)
        self.dockerd = RawDockerd(folder / "dockerd.sock")
        self.relay = StandInRelay()
        self.upstream = DockerUpstream(str(self.dockerd.path), heads=self.heads, wait=wait, limit=limit)
        self.listener = DockerListener(relay=self.relay, upstream=self.upstream, heads=self.heads, admission=admission)
        self.socket = folder / "relay.sock"
        self._clients: list[RawEnd] = []

    async def client(self) -> RawEnd:
        """A new client of the relay."""
        sock = socket.socket(socket.AF_UNIX)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, str(self.socket))
        self._clients.append(RawEnd(sock))
        return self._clients[-1]

    async def ask(self, request: bytes) -> tuple[RawEnd, RawEnd]:
        """A client that sends a request, and dockerd's end of the connection it came by."""
        client = await self.client()
        await client.send(request)
        backend = await self.dockerd.accept()
        await backend.expect(request)
        return client, backend

    async def empty(self) -> None:
        """Nothing is left of any client."""
        await eventually(lambda: not self.listener.links, "links to end")
        await eventually(lambda: not len(self.listener.tasks), "tasks to end")

    async def leave(self) -> None:
        """Take everything down, and look whether something stays."""
        self.listener.stop_accepting()
        for client in self._clients:
            client.close()
        self.dockerd.stop()
        await self.empty()
        await self.upstream.close()
        await eventually(lambda: not self.upstream.connections, "connections to dockerd to end")


@contextlib.asynccontextmanager
async def docker_wire(
    folder: Path,
    *,
    wait: float = 2.0,
    limit: int = 1 << 20,
    dockerd: bool = True,
    admission: Admission = Admission(),  # noqa: B008 - frozen
) -> AsyncIterator[DockerWire]:
    """A relay on real sockets; the event stream of its own is not started."""
    wire = DockerWire(folder, wait=wait, limit=limit, admission=admission)
    if dockerd:
        wire.dockerd.start()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(wire.socket))
        sock.listen(128)
        await wire.listener.start(sock)
        yield wire
    await wire.leave()


def open_files() -> int:
    """Descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())
