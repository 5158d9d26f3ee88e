"""Leaving: what is in flight ends by itself, what never ends is ended, nothing new is begun."""

import asyncio
import math
import select
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.relay.docker import drain as drain_module
from interpose.testing.eventually import WAIT_LIMIT, eventually
from tests.support.docker.wire import DockerWire, RawEnd, docker_wire

PING = b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n"
PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
EVENTS = b"GET /events HTTP/1.1\r\nHost: docker\r\n\r\n"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
WAIT = b"POST /containers/a/wait HTTP/1.1\r\nHost: docker\r\n\r\n"
START = b"POST /containers/a/start HTTP/1.1\r\nHost: docker\r\n\r\n"
UPGRADE = b"POST /exec/a/start HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
LONG = WAIT_LIMIT


@pytest.fixture
async def wire(scratch: Path) -> AsyncIterator[DockerWire]:
    async with docker_wire(scratch) as running:
        running.relay.wanted = lambda head: head.route.endpoint.operation is not None
        yield running


async def drain(wire: DockerWire, grace: float = LONG) -> "asyncio.Future[bool]":
    task = asyncio.ensure_future(wire.listener.run_drain(grace))
    await eventually(lambda: all(link.draining for link in wire.listener.links), "the drain to begin")
    return task


def _said_all(end: RawEnd) -> bool:
    """Whether the other side has said that nothing will follow."""
    poller = select.poll()
    poller.register(end.sock, select.POLLRDHUP)
    return any(events & select.POLLRDHUP for _, events in poller.poll(0))


async def test_idle_clients_are_closed_at_once(wire: DockerWire) -> None:
    """Those who were answered; who never asked, or is in the middle of a head, has a moment to say it."""
    silent = await wire.client()
    answered, backend = await wire.ask(PING)
    await backend.send(PONG)
    await answered.expect(PONG)
    speaking = await wire.client()
    await speaking.send(PING[:7])
    await eventually(lambda: len(wire.listener.links) == 3, "all clients")
    await eventually(lambda: sum(link.bytes_read for link in wire.listener.links) == len(PING) + 7, "all bytes")
    draining = await drain(wire)
    assert await answered.ended()
    assert len(wire.listener.links) == 2
    assert await silent.ended()
    assert await speaking.ended()
    speaking.close()
    assert await draining


@pytest.mark.parametrize("request_", [PING, START], ids=["passing", "intercepted"])
async def test_a_call_in_flight_is_answered_and_nothing_later_is_taken(wire: DockerWire, request_: bytes) -> None:
    """A client that asks again finds out before anything of its request is on its way: it may ask whoever listens."""
    client, backend = await wire.ask(request_)
    draining = await drain(wire)
    await backend.send(PONG)
    await client.expect(PONG)
    assert await client.ended()
    assert await backend.ended()
    with pytest.raises(BrokenPipeError):
        await client.send(PING)
    assert await draining


@pytest.mark.parametrize("request_", [PING, START], ids=["passing", "intercepted"])
async def test_the_first_request_of_a_new_client_is_served(wire: DockerWire, request_: bytes) -> None:
    """It had only just connected, and no client asks again when its first word on a connection fails. One is enough."""
    client = await wire.client()
    await eventually(lambda: len(wire.listener.links) == 1, "the client")
    draining = await drain(wire)
    await client.send(request_)
    backend = await wire.dockerd.accept()
    await backend.expect(request_)
    await backend.send(PONG)
    assert await client.rest() == PONG
    assert await draining


@pytest.mark.parametrize("request_", [PING, START], ids=["passing", "intercepted"])
async def test_what_has_come_by_then_is_served(wire: DockerWire, request_: bytes) -> None:
    """It would be lost otherwise, and its client could not tell."""
    client, backend = await wire.ask(request_)
    await client.send(request_ * 2)
    draining = await drain(wire)
    for _ in range(2):
        await backend.send(PONG)
        await backend.expect(request_)
    await backend.send(PONG)
    assert await client.rest() == PONG * 3
    assert await draining


@pytest.mark.parametrize("body", [b"", b"0123456789"], ids=["whole", "body to come"])
async def test_a_request_in_the_socket_is_heard_out(wire: DockerWire, body: bytes) -> None:
    """Nobody has read a byte of it when the drain begins. dockerd is not told of an end that is our own doing."""
    request = b"POST /images/load HTTP/1.1\r\nHost: docker\r\nContent-Length: %d\r\n\r\n" % len(body)
    client, backend = await wire.ask(PING)
    await backend.send(PONG)
    await client.expect(PONG)
    (link,) = wire.listener.links
    client.sock.send(request)
    wire.listener.drain()
    await backend.expect(request)
    await client.send(body)
    await backend.expect(body)
    await asyncio.sleep(0.05)
    assert not _said_all(backend)
    await backend.send(PONG)
    await client.expect(PONG)
    assert await client.ended()
    assert link.requests == 2


async def test_the_end_that_we_make_is_not_the_client_s(wire: DockerWire) -> None:
    """Requests that waited for their turn are served to a client that cannot say more, and dockerd sees no half-close:
    that would end what it does for it."""
    client, backend = await wire.ask(PING)
    await client.send(START * 2)
    await eventually(lambda: all(link.reader.buffered for link in wire.listener.links), "requests to wait")
    (link,) = wire.listener.links
    draining = await drain(wire)
    await backend.send(PONG)
    await backend.expect(START)
    await backend.send(PONG)
    await backend.expect(START)
    await eventually(lambda: link.eof, "the end that we made")
    assert not _said_all(backend)
    await backend.send(PONG)
    assert await client.rest() == PONG * 3
    assert await draining


async def test_a_client_that_had_said_all_is_not_taken_for_one_that_we_cut(wire: DockerWire) -> None:
    """Its half-close came before the drain, so dockerd hears of it."""
    client, backend = await wire.ask(PING)
    client.half_close()
    draining = await drain(wire)
    assert await backend.ended()
    await backend.send(PONG)
    assert await client.rest() == PONG
    assert await draining


async def test_a_wait_is_a_call_in_flight(wire: DockerWire, monkeypatch: pytest.MonkeyPatch) -> None:
    """docker run and docker wait get their exit code."""
    monkeypatch.setattr(drain_module, "_FAREWELL", 0.01)
    client, backend = await wire.ask(WAIT)
    await backend.send(CHUNKED)
    await client.expect(CHUNKED)
    draining = asyncio.ensure_future(wire.listener.run_drain(LONG))
    await asyncio.sleep(0.1)  # longer than endless answers are left alone
    last = b"1\r\n7\r\n0\r\n\r\n"
    await backend.send(last)
    assert await client.rest() == last
    assert await draining


async def test_a_tunnel_is_a_call_in_flight(wire: DockerWire) -> None:
    """It goes on until one side ends it."""
    client, backend = await wire.ask(UPGRADE)
    await backend.send(SWITCHED)
    await client.expect(SWITCHED)
    draining = await drain(wire)
    await client.send(b"still here")
    await backend.expect(b"still here")
    assert not draining.done()
    client.close()
    assert await draining


async def test_endless_answers_end_when_nothing_else_is_left(wire: DockerWire, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not before: a client that follows what it does wants to see the end of it."""
    monkeypatch.setattr(drain_module, "_FAREWELL", math.inf)
    following, events = await wire.ask(EVENTS)
    await events.send(CHUNKED)
    await following.expect(CHUNKED)
    client, backend = await wire.ask(PING)
    draining = await drain(wire)
    await asyncio.sleep(0.1)
    await events.send(b"1\r\nx\r\n")
    await following.expect(b"1\r\nx\r\n")
    await backend.send(PONG)
    await client.expect(PONG)
    assert await client.ended()
    await events.send(b"1\r\ny\r\n")  # what comes of the last call has a moment to arrive
    await following.expect(b"1\r\ny\r\n")
    monkeypatch.setattr(drain_module, "_FAREWELL", 0.0)
    assert await following.ended()
    assert await events.ended()
    assert await draining


async def test_at_the_end_of_the_grace_time_everything_is_cut(wire: DockerWire) -> None:
    """And that is said."""
    client, backend = await wire.ask(START)
    tunnelled, other = await wire.ask(UPGRADE)
    await other.send(SWITCHED)
    await tunnelled.expect(SWITCHED)
    assert not await wire.listener.run_drain(0.1)
    assert await client.ended()
    assert await tunnelled.ended()
    assert await backend.ended()
    await wire.empty()


async def test_an_answer_that_is_not_read_yet_counts(wire: DockerWire) -> None:
    """What was answered has to arrive."""
    client, backend = await wire.ask(PING)
    size = 600_000
    await backend.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
    await backend.send(b"x" * size)
    await eventually(lambda: any(link.backlog for link in wire.listener.links), "bytes to wait")
    await eventually(lambda: all(link.work is None for link in wire.listener.links), "the answer to be taken")
    draining = await drain(wire)
    await asyncio.sleep(0.1)
    assert not draining.done()
    await client.head()
    assert len(await client.rest()) == size
    assert await draining


async def test_nobody_is_accepted_any_more(wire: DockerWire) -> None:
    """The socket is the successor's, or closed by whoever bound it."""
    assert await wire.listener.run_drain(LONG)
    late = await wire.client()
    await late.send(PING)
    await asyncio.sleep(0.05)
    assert wire.listener.accepted == 0
