"""Large bodies and peers who do not read: memory is bounded, nobody waits for nothing, no byte is lost."""

import asyncio
import hashlib
import resource
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.testing.eventually import eventually
from tests.support.docker.wire import CHUNK, DockerWire, RawEnd, docker_wire

MB = 1 << 20
LARGE = 100 * MB
GET = b"GET /images/a/get HTTP/1.1\r\nHost: docker\r\n\r\n"
UPGRADE = b"POST /exec/a/start HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
DONE = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
# Two sockets' buffers and two high water marks, and some room: far from everything.
BOUND = 4 * MB
PIECE = bytes(range(256)) * (CHUNK // 256)


@pytest.fixture
async def wire(scratch: Path) -> AsyncIterator[DockerWire]:
    async with docker_wire(scratch) as running:
        yield running


def load(size: int) -> bytes:
    return b"POST /images/load HTTP/1.1\r\nHost: docker\r\nContent-Length: %d\r\n\r\n" % size


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


async def pour(end: RawEnd, size: int, chunked: bool = False) -> str:
    """Send that much; its digest with framing."""
    digest = hashlib.sha256()
    for _ in range(size // CHUNK):
        piece = b"%x\r\n%s\r\n" % (CHUNK, PIECE) if chunked else PIECE
        digest.update(piece)
        await end.send(piece)
    if chunked:
        digest.update(b"0\r\n\r\n")
        await end.send(b"0\r\n\r\n")
    return digest.hexdigest()


async def drink(end: RawEnd, size: int) -> str:
    """Read that much; its digest."""
    digest = hashlib.sha256(end.seen)
    left = size - len(end.seen)
    end.seen = b""
    loop = asyncio.get_running_loop()
    while left:
        data = await loop.sock_recv(end.sock, min(CHUNK, left))
        assert data
        digest.update(data)
        left -= len(data)
    return digest.hexdigest()


def framed(size: int) -> int:
    return size + size // CHUNK * (len(b"%x\r\n\r\n" % CHUNK)) + len(b"0\r\n\r\n")


async def test_a_large_upload_needs_no_memory(wire: DockerWire) -> None:
    """docker load of 100 MB."""
    client, backend = await wire.ask(load(LARGE))
    before = peak()
    sent, got = await asyncio.gather(pour(client, LARGE), drink(backend, LARGE))
    assert sent == got
    assert peak() - before < 16 * MB
    await backend.send(DONE)
    await client.expect(DONE)


async def test_a_large_chunked_answer_needs_no_memory(wire: DockerWire) -> None:
    """docker save of 100 MB."""
    client, backend = await wire.ask(GET)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    await backend.send(head)
    await client.expect(head)
    before = peak()
    sent, got = await asyncio.gather(pour(backend, LARGE, chunked=True), drink(client, framed(LARGE)))
    assert sent == got
    assert peak() - before < 16 * MB
    await client.send(GET)
    await backend.expect(GET)


async def fill(end: RawEnd) -> int:
    """Send until nothing goes any more; how much went."""
    sent = 0
    still = 0
    while still < 20:
        more = end.fill(64 * MB - sent)
        sent += more
        still = 0 if more else still + 1
        await asyncio.sleep(0.005)
    return sent


async def test_a_dockerd_that_does_not_read_stops_the_upload(wire: DockerWire) -> None:
    """The client is held up, and goes on when dockerd does."""
    client, backend = await wire.ask(load(1 << 40))
    sent = await fill(client)
    assert sent < BOUND
    assert sum(link.bytes_read for link in wire.listener.links) < BOUND
    await backend.exactly(sent)
    await client.send(b"y")
    await backend.expect(b"y")


async def test_a_client_that_does_not_read_stops_the_answer(wire: DockerWire) -> None:
    """dockerd is held up, and goes on when the client does."""
    client, backend = await wire.ask(GET)
    await backend.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % (1 << 40))
    sent = await fill(backend)
    assert sent < BOUND
    await client.head()
    await client.exactly(sent)
    await backend.send(b"y")
    await client.expect(b"y")


async def test_tunnels_hold_up_both_ways(wire: DockerWire) -> None:
    """Neither side can fill our memory, and nothing is lost."""
    client, backend = await wire.ask(UPGRADE)
    await backend.send(SWITCHED)
    await client.expect(SWITCHED)
    down, up = await fill(backend), await fill(client)
    assert max(down, up) < BOUND
    await client.exactly(down)
    await backend.exactly(up)
    await client.send(b"y")
    await backend.expect(b"y")
    await backend.send(b"z")
    await client.expect(b"z")


async def test_requests_ahead_of_their_turn_are_bounded(wire: DockerWire) -> None:
    """A client that asks and asks while dockerd thinks is held up; all are answered in the end."""
    client, backend = await wire.ask(GET)
    count = 20_000
    sending = asyncio.ensure_future(client.send(GET * count))
    await asyncio.sleep(0.1)
    assert not sending.done()
    assert sum(link.bytes_read for link in wire.listener.links) < MB
    for _ in range(count):
        await backend.send(DONE)
        await backend.expect(GET)
        await client.expect(DONE)
    await sending


async def test_a_large_body_while_dockerd_is_away_is_bounded(scratch: Path) -> None:
    """The client waits with it."""
    async with docker_wire(scratch, dockerd=False, wait=30) as wire:
        client = await wire.client()
        await client.send(load(1 << 40))
        sent = await fill(client)
        assert sent < BOUND
        wire.dockerd.start()
        backend = await wire.dockerd.accept()
        await backend.expect(load(1 << 40))
        await backend.exactly(sent)


async def test_an_answer_before_the_end_of_an_upload_does_not_lock_up(wire: DockerWire) -> None:
    """dockerd answers at length and reads nothing; the client reads nothing until it has sent everything."""
    client, backend = await wire.ask(load(8 * MB))
    answering = asyncio.ensure_future(
        backend.send(b"HTTP/1.1 200 OK\r\nContent-Length: 8388608\r\n\r\n" + b"a" * 8 * MB)
    )
    sending = asyncio.ensure_future(client.send(b"u" * 8 * MB))
    await asyncio.sleep(0.05)
    assert not answering.done()
    assert not sending.done()
    await backend.exactly(8 * MB)
    await sending
    await client.head()
    await client.exactly(8 * MB)
    await answering
    await eventually(lambda: not any(link.in_flight for link in wire.listener.links), "the call to end")
