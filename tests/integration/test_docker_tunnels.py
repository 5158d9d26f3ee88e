"""Calls that become raw streams: attach, exec, upgrades. Each half ends by itself."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.testing.eventually import eventually
from tests.support.docker.wire import DockerWire, RawEnd, docker_wire

ATTACH = b"POST /v1.41/containers/abc/attach?stream=1 HTTP/1.1\r\nHost: docker\r\n"
UPGRADE = ATTACH + b"Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
PLAIN = ATTACH + b"\r\n"
SWITCHED = b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
RAW = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\n\r\n"
MULTIPLEXED = RAW.replace(b"raw-stream", b"multiplexed-stream")
BODY = b'{"Detach":false}'
EXEC = (
    b"POST /exec/e/start HTTP/1.1\r\nHost: docker\r\nContent-Length: 16\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"
)
SESSION = b"POST /session HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"
CONNECT = b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n"


@pytest.fixture
async def wire(scratch: Path) -> AsyncIterator[DockerWire]:
    async with docker_wire(scratch) as running:
        yield running


async def tunnel(wire: DockerWire, request: bytes = UPGRADE, answer: bytes = SWITCHED) -> tuple[RawEnd, RawEnd]:
    client, backend = await wire.ask(request)
    await backend.send(answer)
    await client.expect(answer)
    assert [link.tunnelled for link in wire.listener.links] == [True]
    return client, backend


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (UPGRADE, SWITCHED),
        (PLAIN, RAW),
        (PLAIN, MULTIPLEXED),
        (EXEC + BODY, SWITCHED),
        (SESSION, SWITCHED.replace(b"tcp", b"h2c")),
        (CONNECT, b"HTTP/1.1 200 OK\r\n\r\n"),
    ],
    ids=["upgrade", "raw", "multiplexed", "exec", "buildkit", "connect"],
)
async def test_raw_bytes_pass_both_ways(wire: DockerWire, request_: bytes, answer: bytes) -> None:
    """Whatever they look like, at once, and any number of times."""
    client, backend = await tunnel(wire, request_, answer)
    for number in range(3):
        said = b"GET / HTTP/1.1\r\n\r\n\0\xff%d\n" % number
        await client.send(said)
        await backend.expect(said)
        await backend.send(said)
        await client.expect(said)


async def test_bytes_sent_before_the_answer_come_first(wire: DockerWire) -> None:
    """docker run -i with a pipe does not wait."""
    client = await wire.client()
    await client.send(UPGRADE + b"early bird\r\n\r\n")
    backend = await wire.dockerd.accept()
    await backend.expect(UPGRADE)
    await backend.send(SWITCHED + b"first words")
    await client.expect(SWITCHED + b"first words")
    await backend.expect(b"early bird\r\n\r\n")
    await client.send(b"late")
    await backend.expect(b"late")


async def test_early_bytes_after_a_refusal_are_no_stream(wire: DockerWire) -> None:
    """dockerd answers 404: what follows is the next request, and must look like one."""
    client = await wire.client()
    await client.send(UPGRADE + b"early bird\r\n\r\n")
    backend = await wire.dockerd.accept()
    await backend.expect(UPGRADE)
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    await backend.send(answer)
    await client.expect(answer)
    assert (await client.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")


async def test_a_plain_answer_of_an_attach_is_no_tunnel(wire: DockerWire) -> None:
    """Only a raw stream without a length is."""
    client, backend = await wire.ask(PLAIN)
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: application/vnd.docker.raw-stream\r\nContent-Length: 2\r\n\r\nok"
    await backend.send(answer)
    await client.expect(answer)
    await client.send(PLAIN)
    await backend.expect(PLAIN)


async def test_a_raw_answer_elsewhere_is_no_tunnel(wire: DockerWire) -> None:
    """Logs have that type, too; nobody sends anything to them."""
    request = b"GET /containers/a/logs?follow=1&stdout=1 HTTP/1.1\r\nHost: docker\r\n\r\n"
    client, backend = await wire.ask(request)
    await backend.send(RAW + b"a line\n")
    await client.expect(RAW + b"a line\n")
    assert [link.tunnelled for link in wire.listener.links] == [False]
    backend.close()
    assert await client.ended()


async def test_a_client_that_ends_its_input_still_reads(wire: DockerWire) -> None:
    """docker run -i cat: the end of stdin goes on, then the output comes back."""
    client, backend = await tunnel(wire)
    await client.send(b"last words")
    client.half_close()
    assert await backend.rest() == b"last words"
    for _ in range(2):
        await backend.send(b"output")
        await client.expect(b"output")
    backend.close()
    assert await client.ended()
    await wire.empty()


async def test_an_input_that_ended_before_the_answer_ends_after_its_bytes(wire: DockerWire) -> None:
    """echo | docker run -i: everything was said before dockerd answered."""
    client = await wire.client()
    await client.send(UPGRADE + b"all of it")
    client.half_close()
    backend = await wire.dockerd.accept()
    await backend.expect(UPGRADE)
    await backend.send(SWITCHED)
    assert await backend.rest() == b"all of it"
    await backend.send(b"output")
    backend.close()
    assert await client.rest() == SWITCHED + b"output"


async def test_dockerd_may_end_its_half_first(wire: DockerWire) -> None:
    """The output is over, the input is not."""
    client, backend = await tunnel(wire)
    await backend.send(b"bye")
    backend.half_close()
    assert await client.rest() == b"bye"
    await client.send(b"more input")
    await backend.expect(b"more input")
    client.close()
    assert await backend.ended()
    await wire.empty()


async def test_both_halves_ended_is_the_end(wire: DockerWire) -> None:
    """Neither side has to close for it."""
    client, backend = await tunnel(wire)
    client.half_close()
    assert await backend.ended()
    backend.half_close()
    assert await client.ended()
    await wire.empty()
    assert wire.relay.seen[0].ended == [(101, "")]


async def test_a_client_that_leaves_takes_the_stream_with_it_but_not_its_last_words(wire: DockerWire) -> None:
    """What it had said is delivered, then dockerd sees it leave."""
    client, backend = await tunnel(wire)
    await client.send(b"x" * 100_000)
    client.close()
    assert await backend.rest() == b"x" * 100_000
    await wire.empty()
    await eventually(lambda: wire.upstream.connections == 0, "the connection to end")


async def test_a_dockerd_that_leaves_takes_the_stream_with_it_but_not_its_last_words(wire: DockerWire) -> None:
    """The client reads all of it, then sees the end and cannot send any more."""
    client, backend = await tunnel(wire)
    await backend.send(b"x" * 100_000)
    backend.close()
    assert await client.rest() == b"x" * 100_000
    await wire.empty()
    with pytest.raises(BrokenPipeError):
        await client.send(b"anybody?")


async def test_a_dockerd_that_leaves_after_its_last_word_is_noticed(wire: DockerWire) -> None:
    """It ended its half first, so that nothing more is read from it; the tick looks."""
    client, backend = await tunnel(wire)
    backend.half_close()
    assert await client.ended()
    backend.close()
    wire.listener.tick()
    await wire.empty()


async def test_a_client_that_leaves_after_its_last_word_is_noticed(wire: DockerWire) -> None:
    """The other way round."""
    client, backend = await tunnel(wire)
    client.half_close()
    assert await backend.ended()
    client.close()
    wire.listener.tick()
    await wire.empty()
