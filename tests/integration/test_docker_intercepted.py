"""Requests that somebody intercepts: collected whole, sent on at most once, answered whole."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.relay.docker.http_call import DockerHttpCall
from interpose.relay.docker.translate.errors import error_answer
from interpose.testing.eventually import eventually
from tests.support.docker.wire import DockerWire, docker_wire

START = b"POST /v1.41/containers/abc/start HTTP/1.1\r\nHost: docker\r\nContent-Length: 0\r\n\r\n"
CREATE = b"POST /containers/create?name=a HTTP/1.1\r\nHost: docker\r\nX-Odd: yes\r\nContent-Length: 13\r\n\r\n"
BODY = b'{"Image":"a"}'
IN_CHUNKS = CREATE.replace(b"Content-Length: 13", b"Transfer-Encoding: chunked")
CHUNKS = b"3\r\n" + BODY[:3] + b"\r\nA;x\r\n" + BODY[3:] + b"\r\n0\r\n\r\n"
WAITING = CREATE.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
CREATED = b'HTTP/1.1 201 Created\r\nApi-Version: 1.41\r\nContent-Length: 12\r\n\r\n{"Id":"abc"}'
PING = b"GET /_ping HTTP/1.1\r\nHost: docker\r\n\r\n"
PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOK"
GO_ON = b"HTTP/1.1 100 Continue\r\n\r\n"
NAME = "POST /containers/create"


@pytest.fixture
async def wire(scratch: Path) -> AsyncIterator[DockerWire]:
    async with docker_wire(scratch, limit=100_000) as running:
        running.relay.wanted = lambda head: head.route.endpoint.operation is not None
        yield running


def changing(wire: DockerWire, body: bytes) -> None:
    async def handler(call: DockerHttpCall) -> bytes:
        return (await call.forward(body)).raw

    wire.relay.handler = handler


@pytest.mark.parametrize("request_", [START, CREATE + BODY, IN_CHUNKS + CHUNKS], ids=["empty", "length", "chunks"])
async def test_a_call_that_nobody_changes_passes_as_it_came(wire: DockerWire, request_: bytes) -> None:
    """Framing and all, and so does its answer."""
    client, backend = await wire.ask(request_)
    await backend.send(CREATED)
    await client.expect(CREATED)
    assert wire.relay.seen == []


@pytest.mark.parametrize("request_", [CREATE + BODY, IN_CHUNKS + CHUNKS], ids=["length", "chunks"])
async def test_the_whole_body_is_seen_without_its_framing(wire: DockerWire, request_: bytes) -> None:
    """However it was sent."""
    seen = []

    async def handler(call: DockerHttpCall) -> bytes:
        seen.append(call.body)
        return error_answer(403, "no")

    wire.relay.handler = handler
    client = await wire.client()
    await client.send(request_)
    await client.head()
    assert seen == [BODY]


@pytest.mark.parametrize("request_", [CREATE + BODY, IN_CHUNKS + CHUNKS], ids=["length", "chunks"])
async def test_another_body_gets_another_length(wire: DockerWire, request_: bytes) -> None:
    """All other headers keep their bytes and their order."""
    changing(wire, b'{"Image":"another"}')
    client = await wire.client()
    await client.send(request_)
    backend = await wire.dockerd.accept()
    await backend.expect(CREATE.replace(b"13", b"19") + b'{"Image":"another"}')
    await backend.send(CREATED)
    await client.expect(CREATED)


async def test_it_goes_by_the_client_s_own_connection(wire: DockerWire) -> None:
    """Before and after it other calls do, too."""
    client, backend = await wire.ask(PING)
    await backend.send(PONG)
    await client.expect(PONG)
    for request, answer in ((START, CREATED), (PING, PONG), (CREATE + BODY, CREATED)):
        await client.send(request)
        await backend.expect(request)
        await backend.send(answer)
        await client.expect(answer)
    assert wire.upstream.dials == 1


async def test_a_client_that_waits_is_told_to_go_on(wire: DockerWire) -> None:
    """By us, since dockerd shall not see half a request; it is then not asked for that any more."""
    client = await wire.client()
    await client.send(WAITING)
    await client.expect(GO_ON)
    await client.send(BODY)
    backend = await wire.dockerd.accept()
    await backend.expect(CREATE + BODY)
    await backend.send(CREATED)
    await client.expect(CREATED)


async def test_interim_answers_of_dockerd_are_not_the_answer(wire: DockerWire) -> None:
    """The client did not wait for them."""
    client, backend = await wire.ask(WAITING + BODY)
    await backend.send(GO_ON + CREATED)
    await client.expect(CREATED)


async def test_a_refusal_keeps_the_connection_if_it_says_so(wire: DockerWire) -> None:
    """dockerd was never asked."""

    async def handler(_call: DockerHttpCall) -> bytes:
        return error_answer(403, "plugin says no")

    wire.relay.handler = handler
    client = await wire.client()
    await client.send(CREATE + BODY + PING)
    head = await client.head()
    assert head.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert json.loads(await client.exactly(len(b'{"message": "plugin says no"}\n'))) == {"message": "plugin says no"}
    backend = await wire.dockerd.accept()
    await backend.expect(PING)


async def test_a_refusal_may_end_the_connection(wire: DockerWire) -> None:
    """The answer's own head decides."""

    async def handler(_call: DockerHttpCall) -> bytes:
        return error_answer(403, "plugin says no", close=True)

    wire.relay.handler = handler
    client = await wire.client()
    await client.send(CREATE + BODY + PING)
    assert (await client.rest()).count(b"HTTP/1.1") == 1
    assert wire.upstream.dials == 0


async def test_a_bug_costs_one_call(wire: DockerWire, caplog: pytest.LogCaptureFixture) -> None:
    """The client is told, the log knows more."""

    async def handler(_call: DockerHttpCall) -> bytes:
        raise ZeroDivisionError("secret")

    wire.relay.handler = handler
    client = await wire.client()
    await client.send(CREATE + BODY)
    answer = await client.rest()
    assert answer.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
    assert answer.endswith(b'{"message": "internal error"}\n')
    assert "ZeroDivisionError" in caplog.text
    assert wire.relay.endpoints[NAME].failed == 1


async def test_an_answer_that_is_none_is_a_bug(wire: DockerWire) -> None:
    """The client never sees it."""

    async def handler(_call: DockerHttpCall) -> bytes:
        return b"whatever"

    wire.relay.handler = handler
    client = await wire.client()
    await client.send(CREATE + BODY)
    assert (await client.rest()).startswith(b"HTTP/1.1 500 Internal Server Error\r\n")


async def test_what_follows_a_call_runs_after_the_answer_was_written(wire: DockerWire) -> None:
    """And a failure of one part of it leaves the others alone."""
    done = []

    async def handler(call: DockerHttpCall) -> bytes:
        call.afterwards += [lambda: done.append(1 / 0), lambda: done.append(1)]
        return (await call.forward()).raw

    wire.relay.handler = handler
    client, backend = await wire.ask(START)
    assert done == []
    await backend.send(CREATED)
    await client.expect(CREATED)
    await eventually(lambda: done == [1], "what follows")


async def test_a_call_is_sent_on_once(wire: DockerWire) -> None:
    """Twice would be two containers."""
    errors = []

    async def handler(call: DockerHttpCall) -> bytes:
        reply = await call.forward()
        with pytest.raises(RuntimeError) as error:
            await call.forward()
        errors.append(str(error.value))
        return reply.raw

    wire.relay.handler = handler
    client, backend = await wire.ask(START)
    await backend.send(CREATED)
    await client.expect(CREATED)
    assert errors == ["a call is sent on at most once"]


@pytest.mark.parametrize(
    "request_",
    [
        CREATE.replace(b"13", b"100001"),
        IN_CHUNKS + b"186a1\r\n" + b"x" * 100_001 + b"\r\n",
        IN_CHUNKS + b"1\r\nx\r\n" * 50_000,
    ],
    ids=["length", "chunks", "framing"],
)
async def test_a_body_over_the_limit_is_refused(wire: DockerWire, request_: bytes) -> None:
    """413 as dockerd writes errors, as soon as it is known."""
    client = await wire.client()
    sending = asyncio.ensure_future(client.send(request_))
    answer = await client.rest()
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"larger than 100000 bytes" in answer
    await sending
    client.close()
    await wire.empty()


async def test_what_is_held_for_all_clients_is_bounded(wire: DockerWire) -> None:
    """Large requests that never end cannot fill our memory; when they are gone there is room again."""
    clients = [await wire.client() for _ in range(53)]
    for client in clients:
        await client.send(CREATE.replace(b"13", b"100000") + b"x" * 99_999)
    await eventually(lambda: [one.failed for one in wire.relay.endpoints.values()] == [1], "one to be refused")
    for client in clients:
        client.close()
    await wire.empty()
    again, _ = await wire.ask(CREATE.replace(b"13", b"100000") + b"x" * 100_000)
    again.close()


async def test_a_body_that_is_cut_never_reaches_dockerd(wire: DockerWire) -> None:
    """400; half a request is none."""
    client = await wire.client()
    await client.send(CREATE + BODY[:5])
    client.half_close()
    assert (await client.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert wire.upstream.dials == 0


async def test_a_broken_chunk_never_reaches_dockerd(wire: DockerWire) -> None:
    """400, and counted."""
    client = await wire.client()
    await client.send(IN_CHUNKS + b"zz\r\n")
    assert (await client.rest()).startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert wire.upstream.dials == 0
    assert wire.listener.faults == {"BAD_REQUEST": 1}


async def test_dockerd_lost_before_the_answer_is_a_failure_of_the_call(wire: DockerWire) -> None:
    """Who handles it decides what the client is told."""

    async def handler(call: DockerHttpCall) -> bytes:
        return error_answer(503, (await call.forward()).failure, close=True)

    wire.relay.handler = handler
    client, backend = await wire.ask(START)
    backend.close()
    assert b"dockerd closed the connection" in await client.rest()


async def test_a_dockerd_that_is_away_is_named(scratch: Path) -> None:
    """503 if nobody says otherwise."""
    async with docker_wire(scratch, dockerd=False, wait=0.05) as wire:
        wire.relay.wanted = lambda _: True
        client = await wire.client()
        await client.send(START)
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert str(wire.dockerd.path).encode() in answer


@pytest.mark.parametrize("garbage", [b"what?\r\n\r\n", b"HTTP/1.1 101 Switch\r\n\r\n", b"x" * 70_000])
async def test_garbage_of_dockerd_is_a_failure_of_the_call(wire: DockerWire, garbage: bytes) -> None:
    """And the end of that connection."""
    failures = []

    async def handler(call: DockerHttpCall) -> bytes:
        failures.append((await call.forward()).failure)
        return error_answer(502, "x")

    wire.relay.handler = handler
    client, backend = await wire.ask(START)
    await backend.send(garbage)
    await client.head()
    assert failures != [""]
    assert await backend.ended()


async def test_an_answer_over_the_limit_is_a_failure_of_the_call(wire: DockerWire) -> None:
    """It is not collected to its end."""

    async def handler(call: DockerHttpCall) -> bytes:
        return error_answer(502, (await call.forward()).failure, close=True)

    wire.relay.handler = handler
    client, backend = await wire.ask(START)
    await backend.send(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 150_000)
    assert b"larger than 100000 bytes" in await client.rest()


async def test_an_answer_that_ends_with_the_connection_is_whole(wire: DockerWire) -> None:
    """And the client's connection ends with it, too."""
    client, backend = await wire.ask(START)
    answer = b"HTTP/1.1 200 OK\r\n\r\nall"
    await backend.send(answer)
    backend.close()
    assert await client.rest() == answer


async def test_a_half_close_reaches_dockerd_with_the_call(wire: DockerWire) -> None:
    """And the answer still comes back."""
    client = await wire.client()
    await client.send(START)
    client.half_close()
    backend = await wire.dockerd.accept()
    assert await backend.rest() == START
    await backend.send(CREATED)
    assert await client.rest() == CREATED


async def test_a_half_close_during_the_call_reaches_dockerd(wire: DockerWire) -> None:
    """Not before its bytes, not after its answer."""
    client, backend = await wire.ask(START)
    client.half_close()
    assert await backend.rest() == b""
    await backend.send(CREATED)
    assert await client.rest() == CREATED


async def test_a_client_that_leaves_cancels_the_call(wire: DockerWire) -> None:
    """dockerd sees it leave; whoever handles it is told."""
    cancelled = []

    async def handler(call: DockerHttpCall) -> bytes:
        try:
            return (await call.forward()).raw
        except asyncio.CancelledError:
            cancelled.append(call)
            raise

    wire.relay.handler = handler
    client, backend = await wire.ask(START)
    client.close()
    assert await backend.ended()
    await wire.empty()
    assert len(cancelled) == 1
    assert wire.relay.endpoints["POST /containers/{id}/start"].in_flight == 0


async def test_whoever_goes_on_after_the_client_left_is_not_counted_twice(wire: DockerWire) -> None:
    """Nobody is there to take the answer."""
    done = []

    async def handler(call: DockerHttpCall) -> bytes:
        try:
            await call.forward()
        except asyncio.CancelledError:
            done.append(call)
        return error_answer(500, "too late")

    wire.relay.handler = handler
    client, _ = await wire.ask(START)
    client.close()
    await wire.empty()
    assert len(done) == 1
    assert wire.relay.endpoints["POST /containers/{id}/start"].in_flight == 0


async def test_requests_after_it_wait_for_their_turn(wire: DockerWire) -> None:
    """Also when they came with it."""
    client, backend = await wire.ask(START)
    await client.send(PING + CREATE + BODY)
    await backend.send(CREATED)
    await client.expect(CREATED)
    await backend.expect(PING)
    await backend.send(PONG)
    await backend.expect(CREATE + BODY)
    await backend.send(CREATED)
    await client.expect(PONG + CREATED)


@pytest.mark.parametrize("half_close", [False, True], ids=["open", "half-closed"])
async def test_who_does_not_read_its_answers_may_not_ask_for_more(wire: DockerWire, half_close: bool) -> None:
    """What waits for it is bounded; when it reads, all that it asked for is answered."""
    refusal = error_answer(403, "x" * 10_000)

    async def handler(_call: DockerHttpCall) -> bytes:
        return refusal

    wire.relay.handler = handler
    client = await wire.client()
    asked = still = 0
    while still < 20:
        try:
            sent = client.sock.send(START)
            assert sent == len(START)
            asked += 1
            still = 0
        except BlockingIOError:
            still += 1
            await asyncio.sleep(0.005)
    (link,) = wire.listener.links
    assert link.blocked
    assert link.backlog < 400_000
    assert link.reader.buffered < 300_000
    if half_close:
        client.half_close()
    assert len(await client.exactly(asked * len(refusal))) == asked * len(refusal)
    if half_close:
        assert await client.ended()


async def test_what_reading_them_costs_bounds_how_many_are_held(wire: DockerWire) -> None:
    """Two of the largest; one more is told to come later, and finds room when they are gone."""
    go_on = asyncio.Event()

    async def handler(_call: DockerHttpCall) -> bytes:
        await go_on.wait()
        return CREATED

    wire.relay.handler = handler
    large = CREATE.replace(b"13", b"100000") + b" " * 100_000
    held = [await wire.client() for _ in range(2)]
    for client in held:
        await client.send(large)
    await eventually(lambda: len(wire.listener.tasks) == 2, "both to be handled")
    late = await wire.client()
    await late.send(large)
    answer = await late.rest()
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b"too many large requests at once" in answer
    go_on.set()
    for client in held:
        await client.expect(CREATED)
    late = await wire.client()
    await late.send(large)
    await late.expect(CREATED)
