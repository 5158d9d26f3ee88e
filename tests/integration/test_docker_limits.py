"""Who and what is refused between raw sockets: broken heads and chunks, slow heads, too many clients, strangers."""

import contextlib
import os
import resource
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from interpose.net.grpc.listener import Admission
from interpose.testing.eventually import eventually
from tests.support.docker.wire import DockerWire, docker_wire

PING = b"GET /_ping HTTP/1.1\r\nHost: docker\r\nX-odd:  spaces \r\n\r\n"
LOAD = b"POST /v1.41/images/load HTTP/1.1\r\nHost: docker\r\nTransfer-Encoding: chunked\r\n\r\n"
UPLOAD = b"PUT /containers/a/archive?path=/ HTTP/1.1\r\nHost: docker\r\nContent-Length: 10\r\n\r\n"


@pytest.fixture
async def wire(scratch: Path) -> AsyncIterator[DockerWire]:
    async with docker_wire(scratch) as running:
        yield running


@pytest.mark.parametrize(
    ("bad", "status"),
    [
        (b"GET /_ping HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", b"400"),
        (b"GET /_ping HTTP/1.1\nHost: a\n\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
        (b"GET /_ping HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 70000 + b"\r\n\r\n", b"431"),
    ],
    ids=["two lengths", "bare lf", "http2", "too long"],
)
async def test_bad_heads_are_refused_and_never_reach_dockerd(wire: DockerWire, bad: bytes, status: bytes) -> None:
    """An answer as dockerd writes errors, and the end; what follows is not looked at."""
    client = await wire.client()
    await client.send(bad + PING)
    answer = await client.rest()
    assert answer.split(b" ")[1] == status
    assert b"\r\nConnection: close\r\n" in answer
    assert answer.count(b"HTTP/1.1") == 1
    assert wire.upstream.dials == 0
    assert sum(wire.listener.faults.values()) == 1
    client.close()
    await wire.empty()


async def test_a_bad_chunk_is_refused_and_dockerd_never_sees_the_end(wire: DockerWire) -> None:
    """What came before it is on its way already."""
    client, backend = await wire.ask(LOAD + b"3\r\nabc\r\n")
    await client.send(b"0x3\r\nabc\r\n0\r\n\r\n")
    assert (await client.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert await backend.ended()


async def test_a_head_that_is_never_finished_is_cut_off(scratch: Path) -> None:
    """408 after the patience is over; a connection on which nothing was said may stay."""
    async with docker_wire(scratch, admission=Admission(handshake_timeout=2)) as wire:
        silent = await wire.client()
        client = await wire.client()
        await client.send(PING[:20])
        await eventually(lambda: any(link.bytes_read for link in wire.listener.links), "the bytes to come")
        for _ in range(3):
            wire.listener.tick()
        assert (await client.rest()).startswith(b"HTTP/1.1 408 Request Timeout\r\n")
        assert wire.listener.faults == {"REQUEST_TIMEOUT": 1}
        await silent.send(PING)
        await (await wire.dockerd.accept()).expect(PING)


async def test_a_body_may_stand_still(scratch: Path) -> None:
    """A pipe that says nothing for long is everyday."""
    async with docker_wire(scratch, admission=Admission(handshake_timeout=2)) as wire:
        client, backend = await wire.ask(UPLOAD)
        for _ in range(10):
            wire.listener.tick()
        await client.send(b"0123456789")
        await backend.expect(b"0123456789")


@pytest.mark.parametrize("method", [b"GET", b"HEAD"])
async def test_the_number_of_clients_is_bounded(scratch: Path, method: bytes) -> None:
    """One more is told so when it asks: an answer before the question is none to some clients."""
    async with docker_wire(scratch, admission=Admission(connections=1)) as wire:
        first = await wire.client()
        await eventually(lambda: wire.listener.accepted == 1, "the first client")
        second = await wire.client()
        await eventually(lambda: wire.listener.refused == 1, "the second client")
        await second.send(PING.replace(b"GET", method))
        answer = await second.rest()
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        said = answer.partition(b"\r\n\r\n")[2]
        assert said == (b'{"message": "too many connections: the limit is 1"}\n' if method == b"GET" else b"")
        await first.send(PING)
        await (await wire.dockerd.accept()).expect(PING)


async def test_an_idle_client_makes_room(scratch: Path) -> None:
    """Once a second has found it with nothing under way: who has just come is about to ask."""
    async with docker_wire(scratch, admission=Admission(connections=2)) as wire:
        client, backend = await wire.ask(PING)
        idle = await wire.client()
        await eventually(lambda: wire.listener.accepted == 2, "both clients")
        wire.listener.tick()
        newcomer = await wire.client()
        assert await idle.ended()
        await eventually(lambda: wire.listener.accepted == 3, "the newcomer")
        late = await wire.client()
        await eventually(lambda: wire.listener.refused == 1, "one that nobody makes room for")
        assert wire.listener.evicted == 1
        await backend.send(b"HTTP/1.1 204 No Content\r\n\r\n")
        await client.expect(b"HTTP/1.1 204 No Content\r\n\r\n")
        newcomer.close()
        late.close()


async def test_many_who_are_too_many_are_closed_at_once(scratch: Path) -> None:
    """They may not cost what is kept for those who are here."""
    async with docker_wire(scratch, admission=Admission(connections=0)) as wire:
        told = [await wire.client() for _ in range(32)]
        await eventually(lambda: wire.listener.refused == 32, "the first of them")
        assert await (await wire.client()).ended()
        told[0].close()
        told[1].half_close()
        assert await told[1].ended()
        late = await wire.client()
        await late.send(PING)
        assert (await late.rest()).startswith(b"HTTP/1.1 503 ")
        wire.listener.abort()
        assert await told[2].ended()


@contextlib.contextmanager
def files_left(count: int) -> Iterator[None]:
    """This process may open only so many files more."""
    highest = max(int(one.name) for one in Path("/proc/self/fd").iterdir())
    taken = [os.dup(0)]
    while taken[-1] < highest:
        taken.append(os.dup(0))
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (taken[-1] + 1 + count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
        for one in taken:
            os.close(one)


async def test_clients_are_refused_before_file_descriptors_run_out(wire: DockerWire) -> None:
    """Those who are here need some to get to dockerd."""
    first = await wire.client()
    await eventually(lambda: wire.listener.accepted == 1, "the first client")
    with files_left(3):
        second = await wire.client()
        await second.send(PING)
        answer = await second.rest()
        second.close()
        await first.send(PING)
        backend = await wire.dockerd.accept()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'{"message": "too many open files: the limit is ' in answer
    await backend.expect(PING)


async def test_a_dial_without_a_file_descriptor_says_so(scratch: Path, caplog: pytest.LogCaptureFixture) -> None:
    """In the log too: the limit is ours, not dockerd's."""
    async with docker_wire(scratch, wait=0.05) as wire:
        client = await wire.client()
        await eventually(lambda: wire.listener.accepted == 1, "the client")
        with files_left(0):
            await client.send(PING)
            answer = await client.rest()
    assert b"is not reachable: Too many open files" in answer
    assert "Too many open files" in caplog.text


async def test_a_burst_of_clients_finds_room(wire: DockerWire) -> None:
    """Clients that do not wait to be accepted fail at once if there is none."""
    socks = [socket.socket(socket.AF_UNIX) for _ in range(300)]
    try:
        for sock in socks:
            sock.setblocking(False)
            sock.connect(str(wire.socket))  # BlockingIOError: the queue is full
    finally:
        for sock in socks:
            sock.close()


class _Somebody:
    pid = 7
    uid = 4711


async def test_peers_who_are_not_allowed_are_closed_at_once(scratch: Path) -> None:
    """The kernel says who it is."""
    admission = Admission(identify=lambda _: _Somebody(), uids=(0,))
    async with docker_wire(scratch, admission=admission) as wire:
        assert await (await wire.client()).ended()
        assert (wire.listener.refused, wire.listener.accepted) == (1, 0)
