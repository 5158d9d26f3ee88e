"""The life of `interpose relay` as a process: backends that come and go, stopping, restarting, admin views."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.serve import serve_runtime
from tests.support.lab.processes import Child, accepts
from tests.support.lab.relay import Relay
from tests.support.net.echo_service import failed

V1 = "/runtime.v1.RuntimeService"
Ask = Callable[..., tuple[int, str]]
Start = Callable[..., Relay]
StartRuntime = Callable[..., Child]


def status(admin: Ask) -> Any:
    """What the relay says about itself."""
    return json.loads(admin("/v1/status")[1])


def _says(relay: Relay, text: str) -> bool:
    """Whether its log has this."""
    return text in relay.child.log_tail()


def connections(admin: Ask) -> str:
    """How many connections were accepted since the start."""
    lines = admin("/metrics")[1].splitlines()
    return next(line for line in lines if line.startswith("interpose_connections_total "))


@asynccontextmanager
async def runtime_here(path: Path) -> AsyncIterator[FakeRuntime]:
    """A FakeRuntime in this process, which a test can stall and release."""
    runtime = FakeRuntime()
    async with serve_runtime(path, runtime):
        yield runtime


# -- the backend


async def test_relay_starts_before_the_backend_and_waits(start_relay: Start, runtime_path: Path, admin: Ask) -> None:
    """A call that comes before the backend succeeds when the backend appears in time."""
    relay = start_relay("--backend-wait", "5s")
    async with grpc_channel(relay.socket) as channel:
        call = channel.unary_unary(f"{V1}/Version")(b"")
        await eventually(lambda: status(admin)["calls"]["in_flight"] == 1, "the call to wait")
        async with runtime_here(runtime_path):
            assert b"containerd" in await call


async def test_without_a_backend_calls_fail_with_a_clear_text(start_relay: Start, runtime_path: Path) -> None:
    """UNAVAILABLE after the wait, with the socket and what is wrong with it; unknown services too."""
    relay = start_relay("--backend-wait", "50ms")
    async with grpc_channel(relay.socket) as channel:
        for path in (f"{V1}/Version", "/some.Other/Service"):
            error = await failed(channel.unary_unary(path)(b""))
            assert error.code() is grpc.StatusCode.UNAVAILABLE
            assert error.details() == f"runtime {runtime_path} is not reachable: No such file or directory"


async def test_backend_crash_ends_calls_and_keeps_clients(
    start_relay: Start, start_runtime: StartRuntime, admin: Ask
) -> None:
    """Calls in flight end UNAVAILABLE; the client's connection stays and works with the next backend."""
    runtime = start_runtime("Status")
    relay = start_relay("--backend-wait", "10s")
    async with grpc_channel(relay.socket) as channel:
        version = channel.unary_unary(f"{V1}/Version")
        await version(b"")
        accepted = connections(admin)
        stalled = channel.unary_unary(f"{V1}/Status")(b"")
        await eventually(lambda: status(admin)["calls"]["in_flight"] == 1, "the call to be in flight")
        runtime.kill()
        error = await failed(stalled)
        assert (error.code(), error.details()) == (
            grpc.StatusCode.UNAVAILABLE,
            "connection to the runtime was lost",
        )
        again = version(b"")
        start_runtime()
        assert b"containerd" in await again
        assert connections(admin) == accepted


async def test_hanging_backend_hangs_only_its_calls(
    start_relay: Start, start_runtime: StartRuntime, admin: Ask
) -> None:
    """The relay lives, deadlines hold, and what waited is answered when the backend goes on."""
    runtime = start_runtime()
    relay = start_relay()
    async with grpc_channel(relay.socket) as channel:
        version = channel.unary_unary(f"{V1}/Version")
        await version(b"")
        runtime.pause()
        waiting = version(b"")
        error = await failed(version(b"", timeout=0.2))
        assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert admin("/livez")[0] == 200
        assert not waiting.done()
        runtime.resume()
        assert b"containerd" in await waiting


async def test_health_with_and_without_backend(start_relay: Start, runtime_path: Path, admin: Ask) -> None:
    """/livez says that the process works, /readyz that calls do, with the reason when they do not."""
    start_relay()
    assert admin("/livez") == (200, "ok")
    code, text = admin("/readyz")
    assert code == 503
    assert "backend-runtime failed: No such file or directory" in text
    async with runtime_here(runtime_path):
        await eventually_ready(admin)
    await eventually(lambda: admin("/readyz")[0] == 503, "the loss to show")
    assert admin("/livez") == (200, "ok")


async def eventually_ready(admin: Ask) -> None:
    """Wait in a thread: the backend answers on this loop."""
    for _ in range(1000):
        if (await asyncio.to_thread(admin, "/readyz"))[0] == 200:
            return
    raise AssertionError("never ready")


# -- stopping and starting again


async def test_sigterm_lets_calls_finish(start_relay: Start, runtime_path: Path) -> None:
    """No new connection, the socket file goes, the call in flight is answered, exit code 0."""
    relay = start_relay()
    async with runtime_here(runtime_path) as runtime, grpc_channel(relay.socket) as channel:
        stall = runtime.stall("Status")
        call = channel.unary_unary(f"{V1}/Status")(b"")
        await asyncio.wait_for(stall.entered.wait(), WAIT_LIMIT)
        relay.child.signal(signal.SIGTERM)
        await eventually(lambda: not accepts(relay.socket), "the socket to close")
        assert not relay.socket.exists()
        assert relay.child.running
        stall.release()
        assert await call
        assert await asyncio.to_thread(relay.child.wait) == 0


async def test_grace_time_ends(start_relay: Start, runtime_path: Path) -> None:
    """A call that takes too long ends UNAVAILABLE, the backend hears of it, and the exit code says so."""
    relay = start_relay("--grace", "100ms")
    async with runtime_here(runtime_path) as runtime, grpc_channel(relay.socket) as channel:
        stall = runtime.stall("Status")
        call = channel.unary_unary(f"{V1}/Status")(b"")
        await asyncio.wait_for(stall.entered.wait(), WAIT_LIMIT)
        relay.child.signal(signal.SIGTERM)
        error = await failed(call)
        assert error.code() is grpc.StatusCode.UNAVAILABLE
        assert "going down" in error.details()
        assert await asyncio.to_thread(relay.child.wait) == 1
        await eventually(lambda: stall.waiting == 0, "the backend's call to be cancelled")


async def test_event_streams_do_not_hold_up_a_stop(start_relay: Start, runtime_path: Path) -> None:
    """They never end by themselves: UNAVAILABLE at once, so that the client connects again; exit code 0."""
    relay = start_relay()
    async with runtime_here(runtime_path) as runtime, grpc_channel(relay.socket) as channel:
        stream = channel.unary_stream(f"{V1}/GetContainerEvents")(b"")
        await asyncio.wait_for(runtime.events.wait_for_subscribers(1), WAIT_LIMIT)
        relay.child.signal(signal.SIGTERM)
        assert (await failed(stream.read())).code() is grpc.StatusCode.UNAVAILABLE
        assert await asyncio.to_thread(relay.child.wait) == 0


async def test_killed_relay_starts_again(start_relay: Start, start_runtime: StartRuntime) -> None:
    """kill -9 leaves a dead socket file; the next relay replaces it, and the same channel works again."""
    start_runtime()
    relay = start_relay()
    async with grpc_channel(relay.socket) as channel:
        version = channel.unary_unary(f"{V1}/Version")
        await version(b"")
        relay.kill()
        assert relay.socket.exists()
        relay.start()
        assert b"containerd" in await version(b"", wait_for_ready=True, timeout=WAIT_LIMIT)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR2])
def test_stray_signals_are_ignored(start_relay: Start, admin: Ask, number: signal.Signals) -> None:
    """One must not end the node's runtime."""
    relay = start_relay()
    assert admin("/livez")[0] == 200
    relay.child.signal(number)
    relay.child.wait_until(lambda: f"{number.name} was ignored" in relay.child.log_tail(), what="the log line")
    assert admin("/livez")[0] == 200


def test_sigusr1_turns_debugging_on_and_off(start_relay: Start, admin: Ask) -> None:
    """As it did in programs before this one; the log says so."""
    relay = start_relay()
    for level in ("debug", "info"):
        relay.child.signal(signal.SIGUSR1)
        said = partial(_says, relay, f'"SIGUSR1 changed the log level" level="{level}"')
        relay.child.wait_until(said, what="the log line")
        assert json.loads(admin("/v1/log-level")[1]) == {"level": level}


# -- views


async def test_admin_views(start_relay: Start, start_runtime: StartRuntime, admin: Ask) -> None:
    """Status, methods, connections, settings and metrics of a relay with one call behind it."""
    start_runtime()
    relay = start_relay()
    async with grpc_channel(relay.socket) as channel:
        await channel.unary_unary(f"{V1}/Version")(b"")
        await failed(channel.unary_unary("/no.Such/Service")(b""))
        view = status(admin)
        assert (view["pid"], view["listen"], view["clients"]) == (relay.child.pid, str(relay.socket), 1)
        assert view["backends"]["runtime"]["up"] is True
        assert view["calls"] == {"in_flight": 0, "total": 2, "failed": 1}
        methods = {one["method"]: one for one in json.loads(admin("/v1/methods")[1])}
        assert (methods["Version"]["calls"], methods["other"]["failed"]) == (1, 1)
        (connection,) = json.loads(admin("/v1/connections")[1])
        assert connection["bytes_read"] > 0
        assert json.loads(admin("/v1/config")[1])["listen"] == str(relay.socket)
        metrics = admin("/metrics")[1]
    labels = 'code="OK",method="Version",service="runtime.v1.RuntimeService"'
    assert f"interpose_cri_requests_total{{{labels}}} 1.0" in metrics
    assert 'interpose_backend_up{backend="runtime"} 1.0' in metrics
    assert admin("/no-such-page")[0] == 404


def test_log_level_changes_at_run_time(start_relay: Start, admin: Ask) -> None:
    """Up and down again without a restart; nonsense is refused with the possible values."""
    relay = start_relay()
    assert json.loads(admin("/v1/log-level", "PUT", '{"level": "debug"}')[1]) == {"level": "debug"}
    assert status(admin)["log_level"] == "debug"
    code, text = admin("/v1/log-level", "PUT", '{"level": "loud"}')
    assert code == 400
    assert "loud" in text
    assert admin("/v1/log-level", "PUT", '{"level": "error"}')[0] == 200
    relay.child.signal(signal.SIGHUP)
    assert json.loads(admin("/v1/log-level")[1]) == {"level": "error"}
    assert "SIGHUP was ignored" not in relay.child.log_tail()


@pytest.mark.parametrize("form", ["text", "json"])
async def test_log_has_no_metadata(start_relay: Start, start_runtime: StartRuntime, form: str) -> None:
    """Whatever a client sends, its secrets are not in the log, at any level."""
    start_runtime()
    relay = start_relay("--log-level", "debug", "--log-format", form)
    async with grpc_channel(relay.socket) as channel:
        await channel.unary_unary(f"{V1}/Version")(b"", metadata=(("authorization", "hunter2"),))
    assert relay.child.stop() == 0
    assert "Relay is listening" in relay.child.log_tail()
    assert "hunter2" not in relay.child.log_tail(1 << 20)
