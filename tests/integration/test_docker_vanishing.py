"""Clients and daemons that are gone, at every stage of a call: no link, task or descriptor stays."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from interpose.relay.docker.http_call import DockerHttpCall
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.docker.wire import DockerWire, RawEnd, docker_wire, open_files

GET = b"GET /events HTTP/1.1\r\nHost: docker\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
LOAD = b"POST /images/load HTTP/1.1\r\nHost: docker\r\nContent-Length: 1000000\r\n\r\n"
RENAME = b"POST /containers/a/rename?name=b HTTP/1.1\r\nHost: docker\r\nContent-Length: 0\r\n\r\n"
CREATE = b"POST /containers/create HTTP/1.1\r\nHost: docker\r\nContent-Length: 10\r\n\r\n"
UPGRADE = b"POST /exec/a/start HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"

Ends = tuple[RawEnd, RawEnd | None]


@pytest.fixture
async def wire(scratch: Path) -> AsyncIterator[DockerWire]:
    async with docker_wire(scratch) as running:
        running.relay.wanted = lambda head: head.route.endpoint.operation is not None
        yield running


async def silent(wire: DockerWire) -> Ends:
    return await wire.client(), None


async def in_head(wire: DockerWire) -> Ends:
    client = await wire.client()
    await client.send(GET[:9])
    return client, None


async def asked(wire: DockerWire) -> Ends:
    return await wire.ask(GET)


async def answered(wire: DockerWire) -> Ends:
    client, backend = await wire.ask(GET)
    await backend.send(OK)
    await client.expect(OK)
    return client, backend


async def in_answer(wire: DockerWire) -> Ends:
    client, backend = await wire.ask(GET)
    await backend.send(CHUNKED)
    await client.expect(CHUNKED)
    return client, backend


async def in_upload(wire: DockerWire) -> Ends:
    return await wire.ask(LOAD + b"some")


async def collecting(wire: DockerWire) -> Ends:
    client = await wire.client()
    await client.send(CREATE + b"some")
    return client, None


async def intercepted(wire: DockerWire) -> Ends:
    return await wire.ask(CREATE + b"0123456789")


async def tunnelled(wire: DockerWire) -> Ends:
    client, backend = await wire.ask(UPGRADE)
    await backend.send(SWITCHED)
    await client.expect(SWITCHED)
    return client, backend


async def refused(wire: DockerWire) -> Ends:
    client = await wire.client()
    await client.send(b"no\r\n\r\n")
    await client.head()
    return client, None


async def piled_up(wire: DockerWire) -> Ends:
    """The client does not read and dockerd has a lot to say: nothing is read from either."""
    client, backend = await wire.ask(GET)
    await backend.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
    await _fill(backend)
    await client.send(GET * 2000)
    return client, backend


async def full_upload(wire: DockerWire) -> Ends:
    """dockerd does not read and the client has a lot to say."""
    client, backend = await wire.ask(LOAD.replace(b"1000000", b"100000000"))
    await _fill(client)
    return client, backend


async def ahead(wire: DockerWire) -> Ends:
    """Requests wait until no more are read."""
    client, backend = await wire.ask(GET)
    await _fill_with(client, GET * 100)
    return client, backend


async def half_closed(wire: DockerWire) -> Ends:
    client, backend = await wire.ask(GET)
    client.half_close()
    await backend.rest()
    return client, backend


async def half_closed_tunnel(wire: DockerWire) -> Ends:
    client, backend = await tunnelled(wire)
    assert backend is not None
    client.half_close()
    await backend.rest()
    return client, backend


STAGES = [
    silent, in_head, asked, answered, in_answer, in_upload, collecting, intercepted, tunnelled, refused, piled_up,
    full_upload, ahead, half_closed, half_closed_tunnel,
]  # fmt: skip


async def _fill(end: RawEnd) -> None:
    await _fill_with(end, b"x" * 65536)


async def _fill_with(end: RawEnd, piece: bytes) -> None:
    still = 0
    while still < 5:
        try:
            end.sock.send(piece)
        except BlockingIOError:
            still += 1
            await asyncio.sleep(0.005)


async def _to_the_end(end: RawEnd) -> None:
    with contextlib.suppress(ConnectionResetError):
        await end.rest()


async def _links_end(wire: DockerWire) -> None:
    """At the latest with a tick; seconds pass quickly here."""

    def gone() -> bool:
        wire.listener.tick()
        return not wire.listener.links

    await eventually(gone, "the link to end")


@pytest.mark.parametrize("stage", STAGES)
async def test_a_client_that_vanishes_leaves_nothing(
    wire: DockerWire, stage: Callable[[DockerWire], Awaitable[Ends]]
) -> None:
    """dockerd sees it leave, at the latest with the next tick."""
    before = open_files()
    client, backend = await stage(wire)
    await eventually(lambda: bool(wire.listener.links), "the link")
    client.close()
    reading = None if backend is None else asyncio.ensure_future(_to_the_end(backend))
    await _links_end(wire)
    if reading is not None:
        await reading
    await eventually(lambda: not len(wire.listener.tasks), "tasks to end")
    await eventually(lambda: not wire.upstream.connections, "the connection to dockerd to end")
    if backend is not None:
        backend.close()
    await eventually(lambda: open_files() == before, "descriptors to be closed")
    assert [stats.in_flight for stats in wire.relay.endpoints.values()] in ([], [0])
    assert all(len(seen.ended) == 1 for seen in wire.relay.seen)


@pytest.mark.parametrize("stage", [one for one in STAGES if one not in (silent, in_head, collecting, refused)])
async def test_a_dockerd_that_vanishes_leaves_nothing(
    wire: DockerWire, stage: Callable[[DockerWire], Awaitable[Ends]]
) -> None:
    """The client is answered or cut; when it leaves, everything is gone."""
    before = open_files()
    client, backend = await stage(wire)
    assert backend is not None
    wire.dockerd.stop()
    client.close()
    await _links_end(wire)
    await eventually(lambda: not len(wire.listener.tasks), "tasks to end")
    await eventually(lambda: not wire.upstream.connections, "the connection to dockerd to end")
    await eventually(lambda: open_files() < before, "descriptors to be closed")
    assert [stats.in_flight for stats in wire.relay.endpoints.values()] in ([], [0])


async def test_a_client_that_leaves_while_dockerd_is_away_waits_for_nobody(scratch: Path) -> None:
    """Its request is not kept for a dockerd that comes later."""
    async with docker_wire(scratch, dockerd=False, wait=60) as wire:
        client = await wire.client()
        await client.send(GET)
        await eventually(lambda: wire.upstream.failures > 0, "a dial in vain")
        client.close()
        await wire.empty()


async def test_a_client_that_sends_and_leaves_is_heard(wire: DockerWire) -> None:
    """A whole upload that dockerd reads slowly arrives, though nobody waits for the answer."""
    size = 3_000_000
    client, backend = await wire.ask(LOAD.replace(b"1000000", b"%d" % size))
    sending = asyncio.ensure_future(client.send(b"x" * size))
    got = 0
    while not sending.done():
        await asyncio.sleep(0.005)
        got += len(await backend.exactly(50_000))
    client.close()
    for _ in range(3):
        wire.listener.tick()
    await backend.exactly(size - got)
    assert await backend.ended()


async def _said_and_gone(wire: DockerWire, request: bytes) -> None:
    """All of it is in the socket, and the client is gone, before the relay knows of either."""
    client = await wire.client()
    client.sock.send(request)
    client.close()


@pytest.mark.parametrize("request_", [RENAME, LOAD[:-11] + b"5\r\n\r\nhello"], ids=["bare", "with a body"])
async def test_a_request_of_a_client_that_is_gone_at_once_reaches_dockerd(wire: DockerWire, request_: bytes) -> None:
    """As it would without us: whoever fires and forgets is obeyed."""
    await _said_and_gone(wire, request_)
    backend = await wire.dockerd.accept()
    await backend.expect(request_)
    assert await backend.ended()
    await wire.empty()


async def test_a_large_one_does_too(wire: DockerWire) -> None:
    """More than is read ahead while dockerd is dialled."""
    request = LOAD.replace(b"1000000", b"150000") + b"x" * 150_000
    await _said_and_gone(wire, request)
    backend = await wire.dockerd.accept()
    await backend.expect(request)
    assert await backend.ended()
    await wire.empty()


@pytest.mark.parametrize("times", [0, 2], ids=["at once", "after seconds"])
async def test_an_intercepted_call_of_a_client_that_was_gone_before_is_done(wire: DockerWire, times: int) -> None:
    """Nobody waits for it, and nobody cancels it."""
    done = []

    async def handler(call: DockerHttpCall) -> bytes:
        await asyncio.sleep(0)
        reply = await call.forward()
        done.append(reply.failure)
        return reply.raw

    wire.relay.handler = handler
    await _said_and_gone(wire, CREATE + b"0123456789")
    backend = await wire.dockerd.accept()
    await backend.expect(CREATE + b"0123456789")
    for _ in range(times):
        wire.listener.tick()
    await backend.send(OK)
    await wire.empty()
    assert done == [""]


async def test_an_intercepted_call_is_cancelled_if_the_client_leaves_meanwhile(wire: DockerWire) -> None:
    """As a call of CRI is whose caller gives up."""
    begun, ended = asyncio.Event(), []

    async def handler(_call: DockerHttpCall) -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)
        return b""

    wire.relay.handler = handler
    client = await wire.client()
    await client.send(CREATE + b"0123456789")
    await asyncio.wait_for(begun.wait(), WAIT_LIMIT)
    client.close()
    await wire.empty()
    assert ended == [True]


async def test_dockerd_not_reading_the_last_words_is_cut_off(wire: DockerWire) -> None:
    """They are kept for a while, not for ever."""
    client, backend = await full_upload(wire)
    assert backend is not None
    wire.listener.abort()
    await eventually(lambda: not wire.listener.links, "the link to end")
    assert wire.upstream.connections == 1
    for _ in range(11):
        wire.upstream.tick()
    await eventually(lambda: not wire.upstream.connections, "the connection to dockerd to end")
    client.close()
