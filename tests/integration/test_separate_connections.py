"""A client that asks for more than its share, and the connection to the backend that it has for itself."""

import asyncio
import gc
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

from interpose.config.relay.settings import LimitSettings
from interpose.net.grpc.fairness import PeerAccount
from interpose.net.grpc.status import Code
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream, Waiter
from interpose.net.h2.limits import Limits
from interpose.net.h2.server import ServerConnection
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.grpcpeer import grpc_channel, grpc_server
from interpose.testing.stack import Stack, relay_stack
from tests.support.net import h2_peer
from tests.support.net.echo_service import EchoService
from tests.support.net.h2_bench import REQUEST
from tests.support.net.hpack import Decoder, Encoder
from tests.support.net.raw_backend import raw_backend

LONG = ("x-long", "v" * 9000)
PRESENT = LimitSettings(backend_wait=WAIT_LIMIT)  # the backend is there; how long a dial takes does not matter


class Caller:
    """A client that writes frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._encoder = Encoder()
        self._decoder = Decoder()
        self._rest = b""
        self.codes: list[bytes] = []  # of calls that ended

    def send(self, *parts: bytes) -> None:
        self._writer.write(b"".join(parts))

    def request(self, number: int, *more: tuple[bytes, bytes]) -> bytes:
        return h2_peer.headers(number, self._encoder.block([*REQUEST, *more]), end=True)

    async def read_until(self, count: int) -> None:
        """So many calls have ended."""
        while len(self.codes) < count:
            self._rest += await self._reader.read(1 << 16)
            end = 0
            while len(self._rest) - end >= 9:
                size = 9 + int.from_bytes(self._rest[end : end + 3], "big")
                if len(self._rest) - end < size:
                    break
                end += size
            for frame in h2_peer.read_frames(self._rest[:end]):
                if frame.kind == "HEADERS":
                    fields = dict(self._decoder.pairs(frame.payload))
                    self.codes += [fields[b"grpc-status"]] if frame.end else []
            self._rest = self._rest[end:]


@asynccontextmanager
async def caller(path: Path) -> AsyncIterator[Caller]:
    """Connected inside the block."""
    reader, writer = await asyncio.open_unix_connection(str(path))
    one = Caller(reader, writer)
    one.send(h2_peer.PREFACE, h2_peer.settings((4, 1 << 20)), h2_peer.window_update(0, 1 << 28))
    try:
        yield one
    finally:
        writer.close()
        await writer.wait_closed()


@contextmanager
def other_process(path: Path) -> Iterator[None]:
    """A client that is there and asks for nothing."""
    script = f"import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect({str(path)!r}); sys.stdin.read()"
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)
    try:
        yield
    finally:
        process.communicate()


def remember(stack: Stack) -> PeerAccount:
    """All clients of this stack are one process; it has asked for too much."""
    (account,) = {link.account for link in stack.listener.links}
    account.remember()
    return account


async def test_many_calls_in_a_read(relay_path: Path, runtime_path: Path) -> None:
    """Once is nothing; a client that goes on with it has a connection of its own. None of its calls fails."""
    async with (
        raw_backend(runtime_path) as backend,
        relay_stack(relay_path, runtime_path, limits=PRESENT) as stack,
        caller(relay_path) as client,
    ):
        await eventually(lambda: stack.runtime.up, "the backend")
        for times in range(1, 101):
            client.send(*[client.request(number) for number in range(times * 2000 + 1, times * 2000 + 1801, 2)])
            await client.read_until(times * 900)
            if times == 1:
                assert stack.runtime.connections == 1
            if stack.runtime.connections == 2:
                break
        assert stack.runtime.connections == 2
        assert client.codes == [b"0"] * times * 900
        assert len(backend.requests) == times * 900


async def test_many_calls_beside_another_client(relay_path: Path, runtime_path: Path) -> None:
    """Where somebody else is connected, a client's calls beyond a few dozen are on a connection of its own, from the
    first read on: nobody's answer has to wait for hundreds of others."""
    async with (
        raw_backend(runtime_path) as backend,
        relay_stack(relay_path, runtime_path, limits=PRESENT) as stack,
        caller(relay_path) as client,
    ):
        await eventually(lambda: stack.runtime.up, "the backend")
        with other_process(relay_path):
            await eventually(lambda: len(stack.listener.links) == 2, "the other client")
            client.send(*[client.request(number) for number in range(1, 1801, 2)])
            await client.read_until(900)
            assert client.codes == [b"0"] * 900
            assert len(backend.requests) == 900
            assert stack.runtime.connections == 2


@contextmanager
def no_collector() -> Iterator[None]:
    """Objects that refer to each other stay."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def is_tracked(conn: int) -> bool:
    """Whether the connection with this id exists. Objects of compiled classes have no weak references."""
    return any(type(value) is ServerConnection and id(value) == conn for value in gc.get_objects())


@pytest.mark.parametrize("end", ["ended by the client", "cut", "cut without a backend"])
async def test_nothing_of_a_lost_connection_waits_for_the_collector(
    relay_path: Path, runtime_path: Path, end: str
) -> None:
    """It is freed when it ends, with its calls, those that wait for a backend included: full passes are rare."""
    async with AsyncExitStack() as around:
        stack = await around.enter_async_context(relay_stack(relay_path, runtime_path, limits=PRESENT))
        if end != "cut without a backend":
            await around.enter_async_context(raw_backend(runtime_path))
            await eventually(lambda: stack.runtime.up, "the backend")
        with no_collector():
            async with caller(relay_path) as client:
                client.send(*[client.request(number) for number in range(1, 1201, 2)])
                if end == "ended by the client":
                    await client.read_until(600)
                await eventually(lambda: any(stats.started for stats in stack.relay.routes.stats()), "calls")
                (conn,) = [id(link.conn) for link in stack.listener.links]
                assert is_tracked(conn)
                if end != "ended by the client":
                    next(iter(stack.listener.links)).cut("a test")
            await eventually(lambda: not is_tracked(conn), "the connection to be freed")


async def test_headers_that_no_client_of_cri_has(relay_path: Path, runtime_path: Path) -> None:
    """A call with such headers is no burden for the connection that everybody has, from the first one on."""
    service = EchoService()
    async with (
        grpc_server(runtime_path, service.handlers(), options=[("grpc.max_metadata_size", 1 << 16)]),
        relay_stack(relay_path, runtime_path, limits=PRESENT) as stack,
        grpc_channel(relay_path) as channel,
    ):
        assert await channel.unary_unary("/test.Echo/Unary")(b"short") == b"short"
        assert stack.runtime.connections == 1
        assert await channel.unary_unary("/test.Echo/Unary")(b"long", metadata=[LONG]) == b"long"
        assert stack.runtime.connections == 2


async def test_it_ends_when_it_is_forgotten(relay_path: Path, runtime_path: Path) -> None:
    """Some seconds later calls go the common way again, and the other connection is closed when its last one has
    ended."""
    service = EchoService()
    async with (
        grpc_server(runtime_path, service.handlers()),
        relay_stack(relay_path, runtime_path, limits=PRESENT) as stack,
        grpc_channel(relay_path) as channel,
    ):
        echo = channel.unary_unary("/test.Echo/Unary")
        await echo(b"")
        account = remember(stack)
        assert await echo(b"apart") == b"apart"
        assert stack.runtime.connections == 2
        stack.runtime.tick()
        assert stack.runtime.connections == 2
        while account.memory:
            account.tick()
        stack.runtime.tick()
        await eventually(lambda: stack.runtime.connections == 1, "the connection to be closed")
        assert await echo(b"together") == b"together"


async def test_lost_one_is_dialled_for_calls_only(relay_path: Path, runtime_path: Path) -> None:
    """Nobody keeps it alive for its own sake."""
    service = EchoService()
    async with relay_stack(relay_path, runtime_path, limits=PRESENT) as stack, grpc_channel(relay_path) as channel:
        echo = channel.unary_unary("/test.Echo/Unary")
        async with grpc_server(runtime_path, service.handlers()):
            await echo(b"")
            account = remember(stack)
            await echo(b"")
            assert stack.runtime.connections == 2
        await eventually(lambda: stack.runtime.connections == 0, "both to be lost")
        async with grpc_server(runtime_path, service.handlers()):
            await eventually(lambda: stack.runtime.up, "the common one to be back")
            stack.runtime.tick()
            assert stack.runtime.connections == 1
            account.remember()
            assert await echo(b"again") == b"again"
            assert stack.runtime.connections == 2
            stack.runtime.hang_up()
            await eventually(lambda: stack.runtime.up, "the common one to be back")


async def test_what_waits_for_a_backend_is_bounded(relay_path: Path, runtime_path: Path) -> None:
    """Calls whose headers are long are refused when a lot of such wait already, and not held for the longest wait."""
    async with relay_stack(relay_path, runtime_path, limits=PRESENT), caller(relay_path) as client:
        first = client.request(1, (b"x-long", b"v" * 4000))
        again = [client.request(number, *[(b"x-long", b"v" * 4000)] * 12) for number in range(3, 403, 2)]
        client.send(first, *again)
        await client.read_until(50)
        assert client.codes == [b"%d" % Code.UNAVAILABLE] * len(client.codes)
        async with raw_backend(runtime_path):
            await client.read_until(201)
        assert client.codes.count(b"0") > 50


async def test_calls_that_wait_are_bounded_in_number() -> None:
    """However short their headers are, each holds more than those."""
    upstream = Upstream("/nowhere", hub=Hub(), limits=Limits(), wait=1000.0)
    full = []
    for _ in range(5000):
        full.append(upstream.overfull)
        upstream.wait(Waiter(lambda _: None, lambda _: None))
    assert (full[1000], full[-1]) == (False, True)
    await upstream.close()
    assert not upstream.overfull


async def test_calls_that_wait_for_their_turn_do_not_expire(runtime_path: Path) -> None:
    """The backend is there: a slow machine is no reason to say that it is not."""
    async with raw_backend(runtime_path):
        upstream = Upstream(str(runtime_path), hub=Hub(), limits=Limits(), wait=0.0)
        upstream.start()
        await eventually(lambda: upstream.up, "the backend")
        ends: list[str] = []
        for _ in range(100):  # more than go on in one turn of the loop
            upstream.wait(Waiter(lambda _: ends.append("goes on"), ends.append))
        await eventually(lambda: len(ends) == 100, "all of them")
        assert set(ends) == {"goes on"}
        await upstream.close()


async def test_few_are_kept_apart_each_for_itself() -> None:
    """The others share what there is."""
    upstream = Upstream("/nowhere", hub=Hub(), limits=Limits(), wait=1.0)
    accounts = [PeerAccount(Limits()) for _ in range(12)]
    for account in accounts:
        account.remember()
    parts = [upstream.separate(account) for account in accounts]
    assert len(set(map(id, parts))) == 4
    assert [upstream.separate(account) for account in accounts] == parts
    upstream.tick()
    await upstream.close()
