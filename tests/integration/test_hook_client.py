"""The client of one hook server, against hook servers that work, fail, hang, lie, come and go."""

import asyncio
import logging
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose._pb import hook_pb2 as hook
from interpose.hooks.api.hookpoint import HookPoint
from interpose.hooks.dispatch.breaker import BreakerState
from interpose.hooks.dispatch.client import FailureReason, HookCallError, HookClient
from interpose.net.grpc.framing import RESPONSE_HEADERS, frame, status_trailers
from interpose.net.grpc.status import Code, RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.h2.errors import ErrorCode
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.grpcpeer import grpc_server, unary
from interpose.testing.hookserver import FakeHookServer, echo, serve_hooks
from tests.support.lab.processes import Child
from tests.support.net import h2_peer
from tests.support.net.hpack import Encoder
from tests.support.net.raw_backend import RawAnswer, answer_headers, raw_backend

CREATE = HookPoint.PRE_CREATE_CONTAINER
REQUEST = hook.ContainerResourceHookRequest(container_envs={"A": "1"}, pod_cgroup_parent="/kube")
MESSAGE = REQUEST.SerializeToString()
MIB = 1024 * 1024


class Clock:
    """Real time, which a test can hurry on."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return asyncio.get_running_loop().time() + self.ahead


class Bench:
    """A client and its clock."""

    def __init__(self, path: Path) -> None:
        self.clock = Clock()
        # The machine may need longer to connect than a hook server gets.
        self.client = HookClient(str(path), name="tested", hub=Hub(), now=self.clock, connect_wait=WAIT_LIMIT)
        self.dials = self.client._upstream

    async def connected(self) -> None:
        """Dial, and wait for the connection."""
        self.client.start()
        await eventually(lambda: self.dials.up, "the connection")

    async def call(self, timeout: float = WAIT_LIMIT) -> bytes:
        """A call that does not matter in detail."""
        return await self.client.call(CREATE, MESSAGE, timeout=timeout)

    async def failure(self, timeout: float = WAIT_LIMIT) -> HookCallError:
        """How a call fails."""
        with pytest.raises(HookCallError) as caught:
            await self.call(timeout)
        return caught.value

    async def time_out(self, server: FakeHookServer) -> HookCallError:
        """A call whose time is over while the hook server has it: no deadline is so short and so exact."""
        asked = len(server.calls)
        task = asyncio.create_task(self.failure())
        await asyncio.wait_for(server.changes.until(lambda: len(server.calls) > asked), WAIT_LIMIT)
        list(self.client.deadlines.waiting)[-1].expire()
        return await task

    async def open_breaker(self, stalled: FakeHookServer | None = None) -> None:
        """Fail often enough."""
        while self.client.breaker.state is not BreakerState.OPEN:
            await (self.failure() if stalled is None else self.time_out(stalled))


@pytest.fixture
def path(scratch: Path) -> Path:
    """Where the hook server's socket is, or will be."""
    return scratch / "hook.sock"


@pytest.fixture
async def bench(path: Path) -> AsyncIterator[Bench]:
    """A client."""
    bench = Bench(path)
    yield bench
    await bench.client.close()


@pytest.fixture
def hasty(bench: Bench) -> None:
    """A hook server that is away is not waited for."""
    bench.client.connect_wait = 0.05


@asynccontextmanager
async def peer(path: Path, behave: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]) -> AsyncIterator[None]:
    """Any program on that socket."""
    server = await asyncio.start_unix_server(behave, str(path))
    try:
        yield
    finally:
        server.close()
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - a test's own file


# -- calls that work


async def test_a_call(bench: Bench, path: Path) -> None:
    """The hook server sees the message, our metadata and the time left; we get its answer."""
    server = FakeHookServer(echo)
    async with serve_hooks(path, server):
        answer = await bench.client.call(CREATE, MESSAGE, metadata=((b"x-a", b"1"),), timeout=WAIT_LIMIT)
    assert hook.ContainerResourceHookResponse.FromString(answer).container_envs == {"A": "1"}
    (asked,) = server.calls
    assert (asked.point, asked.request) == (CREATE, REQUEST)
    assert (b"x-a", b"1") in asked.metadata
    assert asked.timeout is not None
    assert 0 < asked.timeout <= WAIT_LIMIT


async def test_headers_of_a_call(bench: Bench, path: Path) -> None:
    """Those of a gRPC call to localhost, and nothing else."""
    async with raw_backend(path) as backend:
        await bench.call()
    fields = dict(backend.requests[0].metadata)
    assert b"grpc-timeout" in fields
    del fields[b"grpc-timeout"]
    assert fields == {
        b":method": b"POST",
        b":scheme": b"http",
        b":path": b"/runtime.v1alpha1.RuntimeHookService/PreCreateContainerHook",
        b":authority": b"localhost",
        b"content-type": b"application/grpc",
        b"te": b"trailers",
    }


@pytest.mark.parametrize("compression", [None, grpc.Compression.Gzip], ids=["plain", "gzip"])
async def test_grpcio_hook_server(bench: Bench, path: Path, compression: Any) -> None:
    """A plugin made with grpcio sees the same and is understood, also when it compresses."""
    seen: dict[str, Any] = {}

    async def answer(request: bytes, context: Any) -> bytes:
        seen["remaining"] = context.time_remaining()
        return request

    async with grpc_server(path, {CREATE.rpc.decode(): unary(answer)}, compression=compression):
        assert await bench.client.call(CREATE, MESSAGE + bytes(100_000), timeout=WAIT_LIMIT) == MESSAGE + bytes(100_000)
        assert 0 < seen["remaining"] <= WAIT_LIMIT
        error = await _failure_at(bench, HookPoint.PRE_START_CONTAINER)
        assert (error.code, error.reason) == (Code.UNIMPLEMENTED, FailureReason.REFUSED)


async def _failure_at(bench: Bench, point: HookPoint) -> HookCallError:
    with pytest.raises(HookCallError) as caught:
        await bench.client.call(point, MESSAGE, timeout=WAIT_LIMIT)
    return caught.value


async def test_many_calls_share_a_connection(bench: Bench, path: Path) -> None:
    """Dialled once, also when the first calls come together and when nothing is asked for a while."""
    async with serve_hooks(path, FakeHookServer(echo)) as server:
        bench.client.start()
        await asyncio.gather(*[bench.call() for _ in range(50)])
        bench.clock.ahead += 1000
        bench.client.tick()
        await bench.call()
        assert (server.listener.accepted, bench.dials.dials) == (1, 1)


async def test_nothing_is_dialled_before_the_start(bench: Bench, path: Path) -> None:
    """Not by ticks either."""
    async with serve_hooks(path, FakeHookServer()) as server:
        bench.client.tick()
        assert (bench.client.state, len(asyncio.all_tasks())) == ("idle", 1)
        bench.client.start()
        await eventually(lambda: bench.client.state == "connected", "the connection")
        assert server.listener.accepted == 1


# -- answers that are failures


@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK], ids=lambda code: code.name)
async def test_a_status_is_told_as_it_is(bench: Bench, path: Path, code: Code) -> None:
    """With code and text. Only UNAVAILABLE and DEADLINE_EXCEEDED are signs that the hook server does not work."""
    trouble = code in (Code.UNAVAILABLE, Code.DEADLINE_EXCEEDED)
    async with serve_hooks(path, FakeHookServer(RpcError(code, "100% nein ☃"))):
        for _ in range(3):
            error = await bench.failure()
            assert (error.code, error.message) == (code, "100% nein ☃")
            assert error.reason is (FailureReason.TIMEOUT if code is Code.DEADLINE_EXCEEDED else FailureReason.REFUSED)
    assert bench.client.breaker.state is (BreakerState.OPEN if trouble else BreakerState.CLOSED)


async def test_a_long_text_is_cut(bench: Bench, path: Path) -> None:
    """It ends up in events of pods."""
    async with serve_hooks(path, FakeHookServer(RpcError(Code.ABORTED, "x" * 20_000))):
        assert len((await bench.failure()).message) == 1000


def _raw(body: bytes, trailers: bytes = status_trailers(Code.OK, "")) -> RawAnswer:
    return RawAnswer(headers=RESPONSE_HEADERS, body=body, trailers=trailers)


NONSENSE = {
    "no message": _raw(b""),
    "two messages": _raw(frame(b"") * 2),
    "half a message": _raw(frame(b"abc")[:-1]),
    "unknown compression": RawAnswer(
        headers=answer_headers((b"grpc-encoding", b"snappy")), body=b"\x01\x00\x00\x00\x01x"
    ),
    "over 4 MiB": _raw(frame(bytes(4 * MIB + 1))),
    "over 4 MiB, says the prefix": _raw(b"\x00\xff\xff\xff\xff"),
    "no status": _raw(frame(b""), Encoder().block([(b"x-a", b"1")], "plain")),
    "plain HTTP": RawAnswer(headers=None, trailers=Encoder().block([(b":status", b"404")], "plain")),
}


@pytest.mark.parametrize("name", NONSENSE)
async def test_nonsense_is_told_from_a_status(bench: Bench, path: Path, name: str) -> None:
    """It is broken, counts for the breaker, and the connection stays of use."""
    async with raw_backend(path) as backend:
        backend.answer = NONSENSE[name]
        assert (await bench.failure()).reason is FailureReason.BROKEN
        assert (await bench.failure()).reason is FailureReason.BROKEN
        backend.answer = RawAnswer()
        assert await bench.call() == b""
        backend.answer = NONSENSE[name]
        await bench.open_breaker()
        assert bench.dials.dials == 1


async def test_an_answer_of_4_mib_is_fine(bench: Bench, path: Path) -> None:
    """The limit is for the message, not for its frame."""
    async with raw_backend(path) as backend:
        backend.answer = _raw(frame(bytes(4 * MIB)))
        assert len(await bench.call()) == 4 * MIB


async def test_garbage_the_caller_found(bench: Bench, path: Path) -> None:
    """Three answers in a row that could not be parsed open the breaker, a good one between them does not let it."""
    async with serve_hooks(path, FakeHookServer()):
        for garbage in (True, True, False, True, True):
            await bench.call()
            if garbage:
                bench.client.note_unreadable_answer("wire type 7")
        assert bench.client.breaker.state is BreakerState.CLOSED
        assert bench.client.last_error == "its answer cannot be read: wire type 7"
        await bench.call()
        bench.client.note_unreadable_answer("wire type 7")
        assert bench.client.state == "broken"


# -- time


async def test_no_answer_in_time(bench: Bench, path: Path) -> None:
    """A timeout, and the hook server is told to stop."""
    server = FakeHookServer()
    server.stall(CREATE)
    async with serve_hooks(path, server):
        error = await bench.time_out(server)
        assert (error.code, error.reason) == (Code.DEADLINE_EXCEEDED, FailureReason.TIMEOUT)
        assert error.message == f"no answer within {WAIT_LIMIT:g} s"
        await asyncio.wait_for(server.changes.until(lambda: server.cancelled == [CREATE]), WAIT_LIMIT)


async def test_cancellation_reaches_the_hook_server(bench: Bench, path: Path) -> None:
    """The call is reset there with CANCEL; the breaker has no opinion about it."""
    async with raw_backend(path) as backend:
        backend.answer = None
        for _ in range(5):
            backend.resets.clear()
            task = asyncio.create_task(bench.call())
            seen = len(backend.requests)
            await asyncio.wait_for(backend.changes.until(lambda seen=seen: len(backend.requests) > seen), WAIT_LIMIT)  # type: ignore[misc]
            task.cancel()
            await asyncio.wait_for(backend.changes.until(lambda: backend.resets == [ErrorCode.CANCEL]), WAIT_LIMIT)
    assert bench.client.breaker.state is BreakerState.CLOSED


async def test_cancelled_trial_lets_another_one_try(bench: Bench, path: Path) -> None:
    """Who tries a broken hook server and leaves does not block it for ever."""
    server = FakeHookServer()
    stall = server.stall(CREATE)
    async with serve_hooks(path, server):
        await bench.open_breaker(server)
        bench.clock.ahead += 2
        asked = len(server.calls)
        trial = asyncio.create_task(bench.call())
        await asyncio.wait_for(server.changes.until(lambda: len(server.calls) > asked), WAIT_LIMIT)
        assert (await bench.failure()).reason is FailureReason.OPEN
        trial.cancel()
        await asyncio.gather(trial, return_exceptions=True)
        stall.release()
        assert await bench.call() == b""


async def test_breaker_keeps_callers_away_and_tries_again(bench: Bench, path: Path) -> None:
    """Open, nothing is asked; after the pause one call goes through and closes it."""
    server = FakeHookServer()
    stall = server.stall(CREATE)
    async with serve_hooks(path, server):
        await bench.open_breaker(server)
        assert (len(server.calls), bench.client.state) == (3, "broken")
        error = await bench.failure()
        assert (error.code, error.reason) == (Code.UNAVAILABLE, FailureReason.OPEN)
        assert f"no answer within {WAIT_LIMIT:g} s" in error.message
        stall.release()
        bench.clock.ahead += 2
        await bench.call()
        assert (len(server.calls), bench.client.state) == (4, "connected")


# -- hook servers that are not there


async def test_absent_socket(bench: Bench, path: Path, hasty: None) -> None:
    """Unreachable before the deadline, never dialled, and the reason is told."""
    error = await bench.failure()
    assert (error.code, error.reason) == (Code.UNAVAILABLE, FailureReason.UNREACHABLE)
    assert error.message == f"{path} is not reachable: No such file or directory"
    assert (bench.dials.dials, bench.client.state) == (0, "unreachable")


async def test_absent_socket_and_little_time(bench: Bench, hasty: None) -> None:
    """Unreachable all the same."""
    assert (await bench.failure(timeout=0.01)).reason is FailureReason.UNREACHABLE


async def test_socket_nobody_listens_on(bench: Bench, path: Path, hasty: None) -> None:
    """Unreachable; dialled now and then, less and less often."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    error = await bench.failure()
    assert error.reason is FailureReason.UNREACHABLE
    assert error.message.endswith("Connection refused")
    assert bench.dials.dials <= 4


async def test_no_socket_at_all(bench: Bench, path: Path, hasty: None) -> None:
    """A plain file."""
    path.write_text("")  # noqa: ASYNC240 - a test's own file
    assert (await bench.failure()).message.endswith("Connection refused")


async def test_late_socket(bench: Bench, path: Path) -> None:
    """A call that came a moment too early is answered."""
    bench.client.start()
    await eventually(lambda: bench.client.state == "unreachable", "the first look")
    task = asyncio.create_task(bench.call())
    await asyncio.sleep(0)
    async with serve_hooks(path, FakeHookServer(echo)):
        assert await task


@pytest.mark.parametrize("says", [b"", h2_peer.settings()[:-3]], ids=["nothing", "half a frame"])
async def test_peer_that_hangs_from_the_start(bench: Bench, path: Path, says: bytes) -> None:
    """Bounded by the time of the call."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(says)
        await reader.read(-1)
        writer.close()

    async with peer(path, behave):
        bench.client.start()
        await eventually(lambda: bench.dials.greeting, "the connection")
        error = await bench.failure(timeout=0.01)
        assert error.reason is FailureReason.TIMEOUT
        assert error.message == "no answer within 0.01 s, not even HTTP/2 settings"
        await bench.client.close()


async def test_peer_that_speaks_no_http2(bench: Bench, path: Path, hasty: None) -> None:
    """Unreachable, with the reason; dialled again with pauses."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await reader.read(-1)
        writer.close()

    async with peer(path, behave):
        # Who looks in the moment of a dial waits for what becomes of it, until the deadline.
        error = await bench.failure(timeout=WAIT_LIMIT)
        assert error.reason is FailureReason.UNREACHABLE
        assert bench.dials.dials <= 10
        await bench.client.close()


async def test_log_names_the_plugin_once_per_error(
    bench: Bench, path: Path, caplog: pytest.LogCaptureFixture, hasty: None
) -> None:
    """Absent, then dead, then there: a line each."""
    caplog.set_level(logging.INFO, "interpose")
    await bench.failure()
    await bench.failure()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    await eventually(lambda: bench.client.last_error == "Connection refused", "the dead socket to be noticed")
    await bench.failure()
    path.unlink(missing_ok=True)  # noqa: ASYNC240 - a test's own file
    await eventually(lambda: bench.client.last_error == "No such file or directory", "its end")
    async with serve_hooks(path, FakeHookServer()):
        await eventually(lambda: bench.client.state == "connected", "the connection")
    lines = [(record.levelname, record.getMessage(), getattr(record, "kv", {})) for record in caplog.records]
    own = [(level, text, kv.get("err")) for level, text, kv in lines if kv.get("plugin") == "tested"]
    assert own[:4] == [
        ("WARNING", "Hook server is not reachable", "No such file or directory"),
        ("WARNING", "Hook server is not reachable", "Connection refused"),
        ("WARNING", "Hook server is not reachable", "No such file or directory"),
        ("INFO", "Connected to hook server", None),
    ]
    assert not any("ackend" in text for _, text, _ in lines)


# -- hook servers that go


async def test_crash_during_a_call(bench: Bench, path: Path) -> None:
    """All calls in flight fail at once, the next one is answered."""
    server = FakeHookServer(echo)
    server.stall(HookPoint.PRE_START_CONTAINER)
    server.crash(CREATE)
    async with serve_hooks(path, server):
        other = asyncio.create_task(bench.client.call(HookPoint.PRE_START_CONTAINER, b"", timeout=WAIT_LIMIT))
        await asyncio.wait_for(server.changes.until(lambda: len(server.calls) == 1), WAIT_LIMIT)
        error = await bench.failure()
        assert (error.code, error.reason) == (Code.UNAVAILABLE, FailureReason.BROKEN)
        assert error.message == "its connection was lost during the call"
        with pytest.raises(HookCallError) as caught:
            await other
        assert caught.value.reason is FailureReason.BROKEN
        server.crash()
        assert await bench.call()


async def test_plugin_that_always_crashes_opens_the_breaker(bench: Bench, path: Path) -> None:
    """That it can be connected to again does not count as an answer."""
    server = FakeHookServer()
    server.crash(CREATE)
    async with serve_hooks(path, server):
        for _ in range(3):
            assert (await bench.failure()).reason is FailureReason.BROKEN
        assert bench.client.breaker.state is BreakerState.OPEN
        await eventually(lambda: bench.dials.up, "the connection")
        assert bench.client.state == "broken"


async def test_back_when_the_socket_reappears(bench: Bench, path: Path, hasty: None) -> None:
    """Also with an open breaker, without waiting for its pause: at most one call in between fails."""
    async with serve_hooks(path, FakeHookServer(echo)):
        await bench.connected()
        await bench.call()
    await bench.open_breaker()
    for _ in range(3):
        bench.clock.ahead += 40
        await bench.failure()  # each failed trial makes the pause longer, up to half a minute
    assert bench.client.breaker.retry_in(bench.clock()) > 5
    openings = bench.client.breaker.openings
    async with serve_hooks(path, FakeHookServer(echo)):
        await eventually(lambda: bench.client.breaker.state is BreakerState.CLOSED, "the breaker to hear of it")
        assert bench.client.state == "connected"
        assert await bench.call()
    assert (bench.client.breaker.openings, bench.client.breaker.state) == (openings, BreakerState.CLOSED)


async def test_restarts_cost_no_call(bench: Bench, path: Path) -> None:
    """A call made while the hook server is being restarted waits for it."""
    for _ in range(5):
        task = asyncio.create_task(bench.call())
        await eventually(lambda: bool(bench.dials._waiters), "the call to wait")
        async with serve_hooks(path, FakeHookServer(echo)):
            assert await task
        await eventually(lambda: not bench.dials.up, "the end of the connection")


async def test_socket_replaced_behind_a_plugin_that_hangs(bench: Bench, path: Path, scratch: Path) -> None:
    """The old process holds our connection and answers nothing; its successor is found by the next tick."""
    old = FakeHookServer()
    old.stall(CREATE)
    async with serve_hooks(path, old):
        await bench.open_breaker(old)
        bench.client.tick()
        assert bench.dials.up  # nobody else is there
        path.rename(scratch / "old.sock")  # noqa: ASYNC240 - a test's own file
        async with serve_hooks(path, FakeHookServer(echo)):
            bench.client.tick()
            await eventually(lambda: bench.client.breaker.state is BreakerState.CLOSED, "the successor")
            assert await bench.call()


async def test_goaway_is_followed_by_another_connection(bench: Bench, path: Path) -> None:
    """A graceful restart of the hook server fails no call."""
    server = FakeHookServer(echo)
    stall = server.stall(CREATE)
    async with serve_hooks(path, server) as local:
        early = asyncio.create_task(bench.call())
        await asyncio.wait_for(server.changes.until(lambda: len(server.calls) == 1), WAIT_LIMIT)
        local.listener.drain()
        for link in local.listener.links:
            link.conn.flush()
        await eventually(lambda: not bench.dials.up, "GOAWAY")
        late = asyncio.create_task(bench.call())
        await asyncio.wait_for(server.changes.until(lambda: len(server.calls) == 2), WAIT_LIMIT)
        stall.release()
        assert await early
        assert await late


@pytest.fixture
def start_plugin(path: Path, spawn: Callable[..., Child]) -> Callable[..., Child]:
    """Starts a hook server in a process of its own and waits until it listens."""

    def start(*options: str) -> Child:
        child = spawn(sys.executable, "-m", "interpose.testing.hookserver", path, *options)
        child.wait_listening(path)
        return child

    return start


async def shares(bench: Bench) -> int:
    """What the process says about a container."""
    answer = hook.ContainerResourceHookResponse.FromString(await bench.call())
    return answer.container_resources.cpu_shares


async def test_process_that_is_killed(bench: Bench, start_plugin: Callable[..., Child], hasty: None) -> None:
    """Its socket stays behind and leads nowhere; the next one is found."""
    plugin = start_plugin("--set-shares", "5")
    await bench.connected()
    assert await shares(bench) == 5
    plugin.kill()
    await eventually(lambda: bench.client.last_error == "Connection refused", "the end to be noticed")
    await bench.open_breaker()
    start_plugin("--echo", "--set-shares", "7")
    await eventually(lambda: bench.client.state == "connected", "the next one")
    assert await shares(bench) == 7


async def test_process_that_stands_still(bench: Bench, start_plugin: Callable[..., Child]) -> None:
    """Calls time out and the connection is kept; when it goes on, so do we."""
    plugin = start_plugin("--set-shares", "5")
    assert await shares(bench) == 5
    plugin.pause()
    assert (await bench.failure(timeout=0.05)).reason is FailureReason.TIMEOUT
    plugin.resume()
    assert await shares(bench) == 5
    assert bench.dials.dials == 1


# -- hook servers that misbehave


async def _until_request(reader: asyncio.StreamReader) -> None:
    received = b""
    while CREATE.rpc not in received:
        chunk = await reader.read(65536)
        if not chunk:
            return
        received += chunk


FLOODS = {
    "PING flood": h2_peer.ping() * 11_000,
    "SETTINGS flood": h2_peer.settings() * 11_000,
    "no frames": b"\xff" * 100,
    "a stream of its own": h2_peer.headers(2, Encoder().block([(b":status", b"200")], "plain")),
    "bad HPACK": h2_peer.headers(1, b"\xff\xff\x7f"),
    "oversized frame": h2_peer.raw(0, 0, 1, length=16_385) + bytes(16_385),
}


@pytest.mark.parametrize("name", FLOODS)
async def test_peer_that_floods_or_breaks_http2(bench: Bench, path: Path, name: str) -> None:
    """It loses its connection, the call fails at once, and the client goes on dialling."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(h2_peer.settings())
        await _until_request(reader)
        writer.write(FLOODS[name])
        await reader.read(-1)
        writer.close()

    async with peer(path, behave):
        error = await bench.failure()
        assert (error.code, error.reason) == (Code.UNAVAILABLE, FailureReason.BROKEN)
        assert bench.client.last_error_age is not None
        await eventually(lambda: bench.dials.dials == 2, "the next dial")
        await bench.client.close()


async def test_reset_call(bench: Bench, path: Path) -> None:
    """Broken, with the code."""
    async with raw_backend(path) as backend:
        backend.answer = None
        task = asyncio.create_task(bench.failure())
        await asyncio.wait_for(backend.changes.until(lambda: bool(backend.streams)), WAIT_LIMIT)
        backend.streams[0].reset(ErrorCode.INTERNAL_ERROR)
        backend.streams[0].conn.flush()
        error = await task
    assert (error.code, error.reason) == (Code.INTERNAL, FailureReason.BROKEN)
    assert error.message == "it reset the call (HTTP/2 error 2)"


async def test_greets_and_leaves_again_and_again(bench: Bench, path: Path) -> None:
    """A peer that closes each connection at once is not dialled in a tight loop."""
    accepted = 0

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal accepted
        accepted += 1
        writer.write(h2_peer.settings())
        await writer.drain()
        writer.close()

    async with peer(path, behave):
        bench.client.start()
        await eventually(lambda: accepted >= 3, "some dials")
        enough = asyncio.get_running_loop().time() + 0.5
        await eventually(lambda: asyncio.get_running_loop().time() > enough, "time to pass")
        assert accepted <= 10
        await bench.client.close()


async def test_no_room_for_a_call(bench: Bench, path: Path) -> None:
    """A hook server that allows no streams keeps a call waiting for its time and no longer."""

    async def behave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(h2_peer.settings((3, 0)))
        await reader.read(-1)
        writer.close()

    async with peer(path, behave):
        await bench.connected()
        assert (await bench.failure(timeout=0.01)).reason is FailureReason.TIMEOUT
        await bench.client.close()


# -- the end


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_close_leaves_nothing(path: Path) -> None:
    """No task, no descriptor; calls in flight and waiting fail, later ones too."""
    server = FakeHookServer()
    server.stall(CREATE)
    async with serve_hooks(path, server) as local:
        tasks, descriptors = len(asyncio.all_tasks()), _descriptors()
        bench = Bench(path)
        call = asyncio.create_task(bench.failure())
        await asyncio.wait_for(server.changes.until(lambda: len(server.calls) == 1), WAIT_LIMIT)
        await bench.client.close()
        assert (await call).reason is FailureReason.BROKEN
        assert (await bench.failure()).message == f"{path} is not reachable: the client is closed"
        bench.client.start()
        bench.client.tick()
        await eventually(lambda: not local.listener.links, "the server to notice")
        await eventually(lambda: (len(asyncio.all_tasks()), _descriptors()) == (tasks, descriptors), "nothing left")


async def test_close_while_somebody_waits(path: Path) -> None:
    """A call that waits for a connection fails at once."""
    tasks = len(asyncio.all_tasks())
    bench = Bench(path)
    bench.client.start()
    call = asyncio.create_task(bench.failure())
    await eventually(lambda: bool(bench.dials._waiters), "the call to wait")
    await bench.client.close()
    assert (await call).reason is FailureReason.UNREACHABLE
    assert len(asyncio.all_tasks()) == tasks


async def test_views(bench: Bench, path: Path) -> None:
    """State, since when, the last error and its age."""
    client = bench.client
    assert (client.state, client.last_error, client.last_error_age) == ("idle", "", None)
    async with serve_hooks(path, FakeHookServer(RpcError(Code.ABORTED, "no"))):
        await bench.failure()
        bench.clock.ahead += 100
        assert (client.state, client.last_error) == ("connected", "ABORTED: no")
        assert client.last_error_age is not None
        assert 100 <= client.last_error_age < 200
        assert 100 <= client.state_seconds < 200
    await eventually(lambda: client.state == "unreachable", "the end to be noticed")
    assert client.state_seconds < 100
