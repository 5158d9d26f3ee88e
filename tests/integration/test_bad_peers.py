"""Peers that break the protocol beside one that does not: they lose their connection, it notices nothing."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from interpose.config.relay.settings import LimitSettings
from interpose.net.h2.errors import ErrorCode
from interpose.relay.api import Call, Proceed, Reply
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.grpcpeer import grpc_channel, grpc_server
from interpose.testing.stack import Stack, relay_stack
from tests.support.net import h2_peer
from tests.support.net.byte_seams import Stub
from tests.support.net.echo_service import EchoService
from tests.support.net.hpack import Encoder

CORPUS = Path(__file__).parent.parent / "data/h2corpus"
HELLO = h2_peer.PREFACE + h2_peer.settings()
REQUEST = Encoder().block(
    [
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", b"/test.Echo/Hang"),
        (b":authority", b"x"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    ],
    "plain",
)
BIG_REPLY = [
    (b":method", b"POST"),
    (b":scheme", b"http"),
    (b":path", b"/test.Echo/Unary"),
    (b":authority", b"x"),
    (b"content-type", b"application/grpc"),
]
# Small enough for floods that fit into one write.
LIMITS = LimitSettings(idle_frames=500, resets=50, header_list=8192, max_streams=100)


class Neighbour:
    """A well-behaved client that calls all the time; `rounds` grows, and any error ends it."""

    def __init__(self, channel: Any) -> None:
        self.rounds = 0
        self._channel = channel

    async def run(self) -> None:
        """Call until cancelled."""
        while True:
            message = b"%d" % self.rounds
            assert await self._channel.unary_unary("/test.Echo/Unary")(message, timeout=WAIT_LIMIT) == message
            self.rounds += 1

    async def goes_on(self, task: asyncio.Task[None]) -> None:
        """Two more calls were answered, both of them begun after now."""
        seen = self.rounds
        await eventually(lambda: self.rounds > seen + 1 or task.done(), "the neighbour's next calls")
        assert not task.done(), task.exception()


@asynccontextmanager
async def beside(folder: Path, limits: LimitSettings = LIMITS) -> AsyncIterator[tuple[Stack, Any]]:
    """A relay with a busy neighbour; the second value checks that it goes on."""
    async with (
        grpc_server(folder / "runtime.sock", EchoService().handlers()),
        relay_stack(folder / "relay.sock", folder / "runtime.sock", limits=limits) as stack,
        grpc_channel(folder / "relay.sock") as channel,
    ):
        neighbour = Neighbour(channel)
        task = asyncio.create_task(neighbour.run())
        await neighbour.goes_on(task)
        try:
            yield stack, lambda: neighbour.goes_on(task)
            await neighbour.goes_on(task)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


async def converse(path: Path, data: bytes) -> bytes:
    """Send everything and read until the relay closes."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    try:
        writer.write(data)
        return await asyncio.wait_for(reader.read(-1), WAIT_LIMIT)
    finally:
        writer.close()


CALL = h2_peer.headers(1, REQUEST)
FAULTS = {
    "bad preface": (b"PRI * HTTP/2.0\r\n\r\nNO\r\n\r\n" + h2_peer.settings(), ErrorCode.PROTOCOL_ERROR),
    "oversized frame": (HELLO + h2_peer.raw(0, 0, 1, length=16_385) + bytes(16_385), ErrorCode.FRAME_SIZE_ERROR),
    "bad padding": (HELLO + CALL + h2_peer.raw(0, 0x8, 1, b"\x09abc"), ErrorCode.PROTOCOL_ERROR),
    "HEADERS on stream 0": (HELLO + h2_peer.headers(0, REQUEST), ErrorCode.PROTOCOL_ERROR),
    "even stream": (HELLO + h2_peer.headers(2, REQUEST), ErrorCode.PROTOCOL_ERROR),
    "window overflow": (HELLO + h2_peer.window_update(0, 0x7FFFFFFF), ErrorCode.FLOW_CONTROL_ERROR),
    "HPACK index": (HELLO + h2_peer.headers(1, b"\xff\xff\x7f"), ErrorCode.COMPRESSION_ERROR),
    "decompression bomb": (
        HELLO + h2_peer.headers(1, REQUEST + Encoder().block([(b"bomb", b"x" * 3000)]) + b"\xbe" * 200),
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "CONTINUATION flood": (
        HELLO + h2_peer.headers(1, REQUEST, more=True) + h2_peer.continuation(1, b"", more=True) * 1100,
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "rapid reset": (
        HELLO + b"".join(h2_peer.headers(n, REQUEST) + h2_peer.rst_stream(n) for n in range(1, 203, 2)),
        ErrorCode.ENHANCE_YOUR_CALM,
    ),
    "PING flood": (HELLO + h2_peer.ping() * 600, ErrorCode.ENHANCE_YOUR_CALM),
    "SETTINGS flood": (HELLO + h2_peer.settings() * 600, ErrorCode.ENHANCE_YOUR_CALM),
    "empty DATA flood": (HELLO + CALL + h2_peer.data(1) * 600, ErrorCode.ENHANCE_YOUR_CALM),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_fault_ends_that_connection_with_the_right_code(scratch: Path, name: str) -> None:
    """GOAWAY with the code, then the end; counted by code; the neighbour goes on."""
    data, code = FAULTS[name]
    async with beside(scratch) as (stack, goes_on):
        answer = await converse(stack.socket, data)
        assert [frame.code for frame in h2_peer.read_frames(answer) if frame.kind == "GOAWAY"] == [code]
        await goes_on()
        await eventually(lambda: stack.listener.faults == {code.name: 1}, "the fault to be counted")
        await eventually(lambda: len(stack.listener.links) == 1, "the connection to be gone")


async def test_http1_gets_an_answer_it_can_read(scratch: Path) -> None:
    """Somebody with curl learns what this socket speaks."""
    async with beside(scratch) as (stack, _):
        answer = await converse(stack.socket, b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 505 ")
        assert b"gRPC" in answer


async def test_header_list_over_the_limit_costs_one_stream(scratch: Path) -> None:
    """That call is refused with both sizes, the connection is intact."""
    block = REQUEST + Encoder().block([(b"large", b"x" * 9000)], "plain")
    async with beside(scratch) as (stack, goes_on):
        reader, writer = await asyncio.open_unix_connection(str(stack.socket))
        writer.write(HELLO + h2_peer.headers(1, block, end=True) + h2_peer.ping(b"behindit"))
        answer = b""
        while b"behindit" not in answer:
            part = await asyncio.wait_for(reader.read(65536), WAIT_LIMIT)
            assert part, answer
            answer += part
        writer.close()
        assert b"over the limit of 8192" in answer
        await goes_on()


HALF_SAID = [b"", h2_peer.PREFACE[:10], HELLO + CALL[:-1], HELLO + h2_peer.headers(1, b"", more=True)]


@pytest.mark.parametrize("start", HALF_SAID, ids=["nothing", "preface", "frame", "block"])
async def test_slow_loris_is_cut_off(scratch: Path, start: bytes) -> None:
    """A peer that leaves something half said for longer than the handshake time; ticks stand for seconds."""
    limits = LimitSettings(handshake_timeout=1.0)
    async with beside(scratch, limits) as (stack, goes_on):
        reader, writer = await asyncio.open_unix_connection(str(stack.socket))
        writer.write(start)
        await eventually(lambda: len(stack.listener.links) == 2, "the slow one to be accepted")
        await eventually(
            lambda: sum(link.bytes_read for link in stack.listener.links if link.conn.half_read) == len(start),
            "its bytes to arrive",
        )
        stack.listener.tick()
        await goes_on()
        stack.listener.tick()
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await asyncio.wait_for(reader.readexactly(1 << 20), WAIT_LIMIT)
        await goes_on()
        assert stack.listener.faults == {"SLOW": 1}
        writer.close()


async def test_long_upload_is_not_slow(scratch: Path) -> None:
    """A client in the middle of a frame at every tick is not slow as long as frames keep coming."""
    limits = LimitSettings(handshake_timeout=1.0)
    async with beside(scratch, limits) as (stack, _):
        others = set(stack.listener.links)
        _, writer = await asyncio.open_unix_connection(str(stack.socket))
        frame = h2_peer.data(1, bytes(16_384))
        start = HELLO + CALL + frame[:100]
        writer.write(start)
        await eventually(lambda: set(stack.listener.links) - others, "the upload to be accepted")
        (link,) = set(stack.listener.links) - others
        for count in range(1, 7):
            writer.write(frame[100:] + frame[:100])
            await eventually(lambda: link.bytes_read == len(start) + count * len(frame), "a frame")  # noqa: B023
            assert link.conn.half_read
            stack.listener.tick()
        assert stack.listener.faults == {}
        assert link in stack.listener.links
        writer.close()


async def test_peer_that_does_not_read_is_cut_off(scratch: Path) -> None:
    """Answers to frames no window bounds pile up to a limit, then the connection ends, without waiting for a tick."""
    limits = LimitSettings(idle_frames=10_000_000)
    async with beside(scratch, limits) as (stack, goes_on):
        _, writer = await asyncio.open_unix_connection(str(stack.socket), limit=1024)
        writer.write(HELLO)
        gone = False
        for _ in range(400):
            try:
                writer.write(h2_peer.ping() * 4000)
                await asyncio.wait_for(writer.drain(), WAIT_LIMIT)
            except ConnectionError:
                gone = True
                break
        assert gone
        await goes_on()
        assert stack.listener.faults == {"ENHANCE_YOUR_CALM": 1}
        writer.close()


@pytest.mark.parametrize("names", [sorted(path.name for path in CORPUS.glob("*.bin"))[part::4] for part in range(4)])
async def test_corpus_disturbs_nobody(scratch: Path, names: list[str]) -> None:
    """Every input of the corpus in turn, whatever it leads to: the neighbour goes on, no connection is left."""
    assert names
    async with beside(scratch) as (stack, goes_on):
        for name in names:
            _, writer = await asyncio.open_unix_connection(str(stack.socket))
            writer.write((CORPUS / name).read_bytes())
            await goes_on()
            writer.close()
        await eventually(lambda: len(stack.listener.links) == 1, "all bad connections to be gone")
        await eventually(lambda: stack.relay.in_flight <= 1, "their calls to be gone")


async def test_a_burst_of_clients_finds_room(scratch: Path) -> None:
    """Clients that do not wait to be accepted fail at once if there is none."""
    async with relay_stack(scratch / "relay.sock", scratch / "nobody.sock"):
        socks = [socket.socket(socket.AF_UNIX) for _ in range(700)]
        try:
            for sock in socks:
                sock.setblocking(False)
                sock.connect(str(scratch / "relay.sock"))  # BlockingIOError: the queue is full
        finally:
            for sock in socks:
                sock.close()


async def test_who_leaves_most_unread_is_cut_when_memory_runs_out(scratch: Path) -> None:
    """Replies that wait for a window count, however many connections they are on; who has less is left alone."""
    limits = LimitSettings(buffered=2 << 20)
    closed = h2_peer.PREFACE + h2_peer.settings((4, 0))
    call = Encoder().block([*BIG_REPLY, (b"te", b"trailers")], "plain")
    async with beside(scratch, limits) as (stack, goes_on):
        peers = [await asyncio.open_unix_connection(str(stack.socket)) for _ in range(2)]
        for (_, writer), count in zip(peers, (2, 30), strict=True):
            message = b"\0" + (100_000).to_bytes(4, "big") + bytes(100_000)
            parts = [message[at : at + 16_384] for at in range(0, len(message), 16_384)]
            with contextlib.suppress(ConnectionError):  # the second may be cut before it has said everything
                for number in range(1, 2 * count, 2):
                    writer.write(closed if number == 1 else b"")
                    writer.write(h2_peer.headers(number, call))
                    writer.write(b"".join(h2_peer.data(number, part, end=part is parts[-1]) for part in parts))
                    await writer.drain()
        with contextlib.suppress(ConnectionError):
            await asyncio.wait_for(peers[1][0].read(-1), WAIT_LIMIT)
        await goes_on()
        await eventually(lambda: stack.hub.buffered.size <= 2 << 20, "memory to be free again")
        assert stack.listener.faults == {"ENHANCE_YOUR_CALM": 1}
        assert not peers[0][0].at_eof()
        for _, writer in peers:
            writer.close()
    assert stack.hub.buffered.size == 0


async def passed_on(_call: Call, proceed: Proceed) -> Reply:
    """Changes nothing."""
    return await proceed()


@pytest.mark.parametrize("kind", ["collected", "backend away"])
async def test_requests_that_are_held_count(scratch: Path, kind: str) -> None:
    """Messages for interceptors, and for a backend that is not there, until their client is cut."""
    limits = LimitSettings(buffered=2 << 20, backend_wait=60.0)
    interceptors = [Stub(passed_on)] if kind == "collected" else []
    relay, runtime = scratch / "relay.sock", scratch / "runtime.sock"
    async with relay_stack(relay, runtime, limits=limits, interceptors=interceptors) as stack:
        reader, writer = await asyncio.open_unix_connection(str(stack.socket))
        path = b"/runtime.v1.RuntimeService/CreateContainer"
        call = Encoder().block([(b":path", path), *(pair for pair in BIG_REPLY if pair[0] != b":path")], "plain")
        with contextlib.suppress(ConnectionError):
            writer.write(HELLO)
            for number in range(1, 41, 2):
                writer.write(h2_peer.headers(number, call) + h2_peer.data(number, bytes(16_000)) * 10)
                await writer.drain()
            await asyncio.wait_for(reader.read(-1), WAIT_LIMIT)
        await eventually(lambda: not stack.listener.links, "the client to be cut")
        assert stack.listener.faults == {"ENHANCE_YOUR_CALM": 1}
        await eventually(lambda: stack.hub.buffered.size == 0, "its requests to be gone")
        writer.close()


async def crowd(stack: Stack, count: int, said: bytes) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connections of one process, each accepted before the next."""
    listener = stack.listener
    found = []
    for number in range(listener.accepted + listener.refused, listener.accepted + listener.refused + count):
        found.append(await asyncio.open_unix_connection(str(stack.socket)))
        found[-1][1].write(said)
        await eventually(lambda: listener.accepted + listener.refused > number, "it to come in")  # noqa: B023
    return found


@asynccontextmanager
async def crowded(folder: Path) -> AsyncIterator[Stack]:
    """A relay that takes 64 connections, 48 of them of one process, in front of a server."""
    async with (
        grpc_server(folder / "runtime.sock", EchoService().handlers()),
        relay_stack(folder / "relay.sock", folder / "runtime.sock", limits=LIMITS) as stack,
    ):
        yield stack


async def test_idle_connections_make_room(scratch: Path) -> None:
    """Of a process with too many, the oldest that does nothing is told so and goes; one with a call stays."""
    async with crowded(scratch) as stack:
        busy = await crowd(stack, 1, HELLO + CALL)
        await eventually(lambda: stack.stats("/test.Echo/Hang").in_flight == 1, "a call")
        idle = await crowd(stack, 80, HELLO)
        answer = await asyncio.wait_for(idle[0][0].read(-1), WAIT_LIMIT)
        goaways = [frame for frame in h2_peer.read_frames(answer) if frame.kind == "GOAWAY"]
        assert [(frame.number, frame.code) for frame in goaways] == [(0, ErrorCode.NO_ERROR)]
        await eventually(lambda: len(stack.listener.links) == 48, "the share of one process")
        assert stack.listener.refused == 0
        assert stack.listener.evicted == 81 - 48
        async with grpc_channel(stack.socket) as channel:
            assert await channel.unary_unary("/test.Echo/Unary")(b"new") == b"new"
        assert stack.stats("/test.Echo/Hang").in_flight == 1
        for _, writer in busy + idle:
            writer.close()


async def test_connections_at_work_are_not_closed_for_others(scratch: Path) -> None:
    """If nobody is idle, the newcomer is refused."""
    async with crowded(scratch) as stack:
        busy = await crowd(stack, 48, HELLO + CALL)
        await eventually(lambda: stack.stats("/test.Echo/Hang").in_flight == 48, "the calls")
        late = await crowd(stack, 1, b"")
        assert await asyncio.wait_for(late[0][0].read(-1), WAIT_LIMIT) == b""
        assert (stack.listener.refused, stack.listener.evicted) == (1, 0)
        assert stack.stats("/test.Echo/Hang").in_flight == 48
        for _, writer in busy + late:
            writer.close()
