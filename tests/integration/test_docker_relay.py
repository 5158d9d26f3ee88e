"""Requests that nobody intercepts, between raw sockets: what arrives is what was sent, both ways and in its order."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from interpose.testing.eventually import eventually
from tests.support.docker.wire import CHUNK, DockerWire, RawEnd, docker_wire

PING = b"GET /_ping HTTP/1.1\r\nHost: docker\r\nX-odd:  spaces \r\n\r\n"
PONG = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nserver: Docker/20.10\r\n\r\nOK"
LOAD = b"POST /v1.41/images/load HTTP/1.1\r\nHost: docker\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKED = b"5;ext=1\r\nhello\r\n0000003\r\n-th\r\n0\r\nTrailer-Of: theirs\r\n\r\n"
UPLOAD = b"PUT /containers/a/archive?path=/ HTTP/1.1\r\nHost: docker\r\nContent-Length: 10\r\n\r\n"
EVENTS = b"GET /events HTTP/1.1\r\nHost: docker\r\n\r\n"
ENDLESS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.fixture
async def wire(scratch: Path) -> AsyncIterator[DockerWire]:
    async with docker_wire(scratch) as running:
        yield running


async def test_bytes_pass_as_they_came(wire: DockerWire) -> None:
    """Odd spaces, case and order of headers survive in both directions."""
    client, backend = await wire.ask(PING)
    await backend.send(PONG)
    await client.expect(PONG)
    assert wire.relay.seen[0].ended == [(200, "")]


async def test_one_connection_serves_all_requests_of_a_client(wire: DockerWire) -> None:
    """Keep-alive goes through to dockerd."""
    client, backend = await wire.ask(PING)
    for _ in range(3):
        await backend.send(PONG)
        await client.expect(PONG)
        await client.send(PING)
        await backend.expect(PING)
    assert wire.upstream.dials == 1


async def test_pipelined_requests_go_one_at_a_time(wire: DockerWire) -> None:
    """dockerd sees the second request when the first is answered; the answers come in order."""
    other = PING.replace(b"_ping", b"info")
    client = await wire.client()
    await client.send(PING + other + PING)
    backend = await wire.dockerd.accept()
    for number, request in enumerate((PING, other, PING)):
        await backend.expect(request)
        await asyncio.sleep(0.01)  # nothing may come in that time
        with pytest.raises(BlockingIOError):
            backend.sock.recv(1)
        answer = PONG.replace(b"OK", b"K%d" % number)
        await backend.send(answer)
        await client.expect(answer)


async def test_chunks_pass_as_they_came_both_ways(wire: DockerWire) -> None:
    """Sizes, extensions and trailers are not rewritten."""
    client, backend = await wire.ask(LOAD + CHUNKED)
    await backend.send(ENDLESS + CHUNKED)
    await client.expect(ENDLESS + CHUNKED)
    await client.send(PING)
    await backend.expect(PING)


async def test_every_byte_of_an_answer_arrives_at_once(wire: DockerWire) -> None:
    """An event is not kept until there are more."""
    client, backend = await wire.ask(EVENTS)
    await backend.send(ENDLESS)
    await client.expect(ENDLESS)
    for _ in range(3):
        await backend.send(b"3\r\n{}\n\r\n")
        await client.expect(b"3\r\n{}\n\r\n")
    await backend.send(b"10\r\nhalf of i")
    await client.expect(b"10\r\nhalf of i")


async def test_a_request_body_is_not_kept_until_it_is_whole(wire: DockerWire) -> None:
    """Each part goes on as it comes."""
    client, backend = await wire.ask(UPLOAD)
    await client.send(b"01234")
    await backend.expect(b"01234")
    await client.send(b"56789")
    await backend.expect(b"56789")
    await backend.send(EMPTY)
    await client.expect(EMPTY)
    await client.send(PING)
    await backend.expect(PING)


@pytest.mark.parametrize("size", [1, 3, 7])
async def test_cutting_bytes_anywhere_changes_nothing(wire: DockerWire, size: int) -> None:
    """A head or a chunk may come in pieces of any size."""
    client = await wire.client()
    message = LOAD + CHUNKED
    for start in range(0, len(message), size):
        await client.send(message[start : start + size])
    backend = await wire.dockerd.accept()
    await backend.expect(message)
    answer = ENDLESS + CHUNKED
    for start in range(0, len(answer), size):
        await backend.send(answer[start : start + size])
    await client.expect(answer)


async def test_continue_of_dockerd_reaches_the_client(wire: DockerWire) -> None:
    """The client waits for it before it sends the body."""
    request = UPLOAD.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    client, backend = await wire.ask(request)
    await backend.send(b"HTTP/1.1 100 Continue\r\n\r\n")
    await client.expect(b"HTTP/1.1 100 Continue\r\n\r\n")
    await client.send(b"0123456789")
    await backend.expect(b"0123456789")
    await backend.send(EMPTY)
    await client.expect(EMPTY)
    await client.send(PING)
    await backend.expect(PING)


async def test_a_final_answer_instead_of_continue_ends_the_connection(wire: DockerWire) -> None:
    """Nobody can tell whether the body will come, so nothing after it is read as a request."""
    request = UPLOAD.replace(b"\r\n\r\n", b"\r\nExpect: 100-continue\r\n\r\n")
    client, backend = await wire.ask(request)
    answer = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
    await backend.send(answer)
    await client.expect(answer)
    await client.send(PING)
    assert await client.ended()
    assert await backend.ended()


async def test_interim_answers_pass(wire: DockerWire) -> None:
    """Any number of them, before the final one."""
    client, backend = await wire.ask(PING)
    early = b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    await backend.send(early)
    await client.expect(early)
    await backend.send(early + PONG)
    await client.expect(early + PONG)


async def test_head_has_no_body(wire: DockerWire) -> None:
    """A Content-Length in the answer to HEAD announces nothing."""
    request = PING.replace(b"GET", b"HEAD")
    client, backend = await wire.ask(request)
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    await backend.send(answer)
    await client.expect(answer)
    await client.send(PING)
    await backend.expect(PING)


async def test_an_early_answer_does_not_end_an_upload_that_goes_on(wire: DockerWire) -> None:
    """dockerd answers before the body is there and reads on: the connection lives."""
    client, backend = await wire.ask(UPLOAD)
    await backend.send(PONG)
    await client.expect(PONG)
    await client.send(b"0123456789" + PING)
    await backend.expect(b"0123456789" + PING)
    await backend.send(PONG)
    await client.expect(PONG)


async def test_an_early_refusal_reaches_a_client_that_still_sends(wire: DockerWire) -> None:
    """dockerd refuses an upload and closes; the client reads the answer though it was not done."""
    request = UPLOAD.replace(b"10", b"100000000")
    client, backend = await wire.ask(request)
    answer = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno\n"
    sending = asyncio.ensure_future(client.send(b"x" * 1_000_000))
    await backend.exactly(100_000)
    await backend.send(answer)
    backend.close()
    await client.expect(answer)
    await sending
    client.close()
    await wire.empty()


REFUSAL = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 3\r\n\r\nno\n"


async def test_an_early_refusal_arrives_though_writing_failed_before_it_was_read(wire: DockerWire) -> None:
    """The relay finds out that dockerd has closed by writing to it; the answer is in its socket by then."""
    client, backend = await wire.ask(UPLOAD)
    client.sock.send(b"01234")
    backend.sock.send(REFUSAL)
    backend.close()
    await client.expect(REFUSAL)
    assert await client.ended()


async def test_an_early_refusal_arrives_though_bytes_waited_for_dockerd(wire: DockerWire) -> None:
    """The same, found out by the transport while nothing is read from dockerd."""
    request = UPLOAD.replace(b"10", b"100000000")
    client, backend = await wire.ask(request)
    (link,) = wire.listener.links
    assert link.backend is not None
    dockerd = link.backend
    await eventually(lambda: client.fill(CHUNK) == 0 and dockerd.blocked, "dockerd's buffers to be full")
    dockerd.read(False)
    await backend.send(REFUSAL)
    backend.close()
    await client.expect(REFUSAL)
    assert await client.ended()


async def test_a_kept_connection_that_is_just_being_closed_is_the_client_s_to_judge(wire: DockerWire) -> None:
    """No answer of ours: it sees the connection end, as it would see dockerd's, and may ask again what may be asked
    again."""
    client, backend = await wire.ask(PING)
    await backend.send(PONG)
    await client.expect(PONG)
    await client.send(PING)
    await backend.expect(PING)
    backend.close()
    assert await client.ended()
    assert wire.relay.seen[1].ended[0][0] == 0


async def test_a_kept_connection_that_ends_after_a_first_word_is_502(wire: DockerWire) -> None:
    """dockerd had begun to work on it."""
    client, backend = await wire.ask(PING)
    await backend.send(PONG)
    await client.expect(PONG)
    await client.send(PING)
    await backend.expect(PING)
    await backend.send(PONG[:5])
    backend.close()
    assert (await client.rest()).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")


async def test_an_answer_of_our_own_to_head_has_no_body(wire: DockerWire) -> None:
    """Its length is told, as by any server."""
    client, backend = await wire.ask(PING.replace(b"GET", b"HEAD"))
    backend.close()
    answer = await client.rest()
    assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert b"\r\nContent-Length: 92\r\n" in answer
    assert answer.endswith(b"\r\n\r\n")


async def test_a_dockerd_that_dies_during_an_upload_is_told(wire: DockerWire) -> None:
    """The client gets an answer although it was still sending."""
    client, backend = await wire.ask(UPLOAD)
    await client.send(b"123")
    await backend.expect(b"123")
    backend.close()
    assert (await client.head()).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")


async def test_an_answer_that_ends_with_the_connection(wire: DockerWire) -> None:
    """Without a length the end of the connection is the end of the body, for the client too."""
    client, backend = await wire.ask(PING)
    answer = b"HTTP/1.0 200 OK\r\n\r\nall of it"
    await backend.send(answer)
    await client.expect(answer)
    backend.close()
    assert await client.ended()
    assert wire.relay.seen[0].ended == [(200, "")]


@pytest.mark.parametrize(
    ("request_", "answer"),
    [
        (PING.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"), PONG),
        (PING.replace(b"1.1", b"1.0"), PONG),
        (PING, PONG.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")),
    ],
    ids=["client", "http 1.0", "dockerd"],
)
async def test_either_side_may_say_that_the_connection_ends(wire: DockerWire, request_: bytes, answer: bytes) -> None:
    """After the answer both are closed."""
    client, backend = await wire.ask(request_)
    await backend.send(answer)
    assert await client.rest() == answer
    assert await backend.ended()
    await wire.empty()


async def test_dockerd_closing_between_two_requests_is_not_the_client_s_business(wire: DockerWire) -> None:
    """The next request goes on a new connection."""
    client, backend = await wire.ask(PING)
    await backend.send(PONG)
    await client.expect(PONG)
    backend.close()
    await eventually(lambda: wire.upstream.connections == 0, "the connection to end")
    await client.send(PING)
    backend = await wire.dockerd.accept()
    await backend.expect(PING)
    await backend.send(PONG)
    await client.expect(PONG)


async def test_a_request_waits_for_a_dockerd_that_comes(scratch: Path) -> None:
    """A restart of dockerd costs a moment, not an error."""
    async with docker_wire(scratch, dockerd=False, wait=30) as wire:
        client = await wire.client()
        await client.send(PING)
        await eventually(lambda: wire.upstream.failures > 0, "a dial in vain")
        wire.dockerd.start()
        backend = await wire.dockerd.accept()
        await backend.expect(PING)
        await backend.send(PONG)
        await client.expect(PONG)


async def test_a_dockerd_that_does_not_come_is_named(scratch: Path) -> None:
    """503 as dockerd writes errors, with the socket and the reason."""
    async with docker_wire(scratch, dockerd=False, wait=0.05) as wire:
        client = await wire.client()
        await client.send(PING)
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 503 Service Unavailable\r\n")
        assert b'{"message": "docker daemon %s is not reachable: ' % str(wire.dockerd.path).encode() in answer
        assert wire.relay.seen[0].ended[0][0] == 503


async def test_dockerd_lost_before_its_answer_is_502(wire: DockerWire) -> None:
    """Nothing was said yet, so something can be said."""
    client, backend = await wire.ask(PING)
    backend.close()
    answer = await client.rest()
    assert answer.startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert b"\r\nContent-Type: application/json\r\n" in answer
    assert answer.endswith(
        b'{"message": "docker daemon was lost before it had answered: dockerd closed the connection"}\n'
    )


async def test_dockerd_lost_in_its_answer_cuts_the_answer(wire: DockerWire) -> None:
    """The client can tell that it is not whole."""
    client, backend = await wire.ask(PING)
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst"
    await backend.send(cut)
    await client.expect(cut)
    backend.close()
    assert await client.ended()


@pytest.mark.parametrize(
    "garbage",
    [b"SSH-2.0-OpenSSH\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", b"\0" * 100],
)
async def test_an_answer_that_is_no_http_is_502(wire: DockerWire, garbage: bytes) -> None:
    """What nobody could read alike is not passed on."""
    client, backend = await wire.ask(PING)
    await backend.send(garbage + b"\r\n" * 4)
    assert (await client.rest()).startswith(b"HTTP/1.1 502 Bad Gateway\r\n")
    assert await backend.ended()
    assert wire.listener.faults == {"BAD_GATEWAY": 1}


async def test_a_broken_chunk_of_dockerd_cuts_the_answer(wire: DockerWire) -> None:
    """What was sent is sent; nothing of what cannot be read is."""
    client, backend = await wire.ask(EVENTS)
    await backend.send(ENDLESS + b"2\r\n{}\r\n")
    await client.expect(ENDLESS + b"2\r\n{}\r\n")
    await backend.send(b"nonsense\r\n")
    assert await client.ended()
    assert wire.listener.faults == {"BAD_GATEWAY": 1}


async def test_an_answer_nobody_asked_for_ends_dockerd_s_connection_only(wire: DockerWire) -> None:
    """It must not become the answer to the next request."""
    client, backend = await wire.ask(PING)
    await backend.send(PONG + PONG.replace(b"OK", b"NO"))
    await client.expect(PONG)
    await client.send(PING)
    backend = await wire.dockerd.accept()
    await backend.expect(PING)
    await backend.send(PONG)
    await client.expect(PONG)
    await backend.send(b"more")
    await eventually(lambda: wire.upstream.connections == 0, "the connection to end")
    assert wire.listener.faults == {"BAD_GATEWAY": 2}


async def test_a_client_s_half_close_reaches_dockerd_after_its_bytes(wire: DockerWire) -> None:
    """The answer still comes back."""
    client, backend = await wire.ask(PING)
    client.half_close()
    assert await backend.rest() == b""
    await backend.send(PONG)
    assert await client.rest() == PONG
    await wire.empty()


async def test_requests_before_a_half_close_are_all_answered(wire: DockerWire) -> None:
    """dockerd is told after the last of them."""
    client = await wire.client()
    await client.send(PING + PING)
    client.half_close()
    backend = await wire.dockerd.accept()
    await backend.expect(PING)
    await backend.send(PONG)
    await backend.expect(PING)
    assert await backend.rest() == b""
    await backend.send(PONG)
    assert await client.rest() == PONG + PONG


async def test_a_body_cut_by_the_client_is_dockerd_s_to_judge(wire: DockerWire) -> None:
    """It sees the end where it was and answers."""
    client, backend = await wire.ask(UPLOAD)
    await client.send(b"half")
    client.half_close()
    assert await backend.rest() == b"half"
    answer = b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
    await backend.send(answer)
    assert await client.rest() == answer


async def test_a_client_that_half_closes_before_it_asks_is_closed(wire: DockerWire) -> None:
    """Nothing is owed to it."""
    client = await wire.client()
    await client.send(PING[:10])
    client.half_close()
    assert await client.ended()
    assert wire.upstream.dials == 0


async def answered(wire: DockerWire, request: bytes, answer: bytes) -> tuple[RawEnd, RawEnd]:
    client, backend = await wire.ask(request)
    await backend.send(answer)
    await client.expect(answer)
    return client, backend


async def test_counters_tell_what_passed(wire: DockerWire) -> None:
    """By endpoint, with bytes as they came."""
    await answered(wire, PING, PONG)
    stats = wire.relay.endpoints["GET|HEAD /_ping"]
    assert (stats.started, stats.in_flight, stats.failed) == (1, 0, 0)
    assert (stats.bytes_received, stats.bytes_sent) == (len(PING), len(PONG))
