"""One relay takes over from another while calls are going on: nobody is refused, no call fails."""

import asyncio
import json
import signal
import socket
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest

from interpose.relay.restart.takeover import PATH
from interpose.testing.eventually import WAIT_LIMIT, eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.serve import serve_runtime
from tests.support.kube.agent_stack import fetch
from tests.support.lab.processes import Child, accepts
from tests.support.lab.relay import Relay, relay_argv
from tests.support.net.echo_service import failed

V1 = "/runtime.v1.RuntimeService"
# As every gRPC client has it by default: what GOAWAY says was never begun is sent again without the caller's notice.
RETRIES = [("grpc.enable_retries", 1)]
Ask = Callable[..., tuple[int, str]]
Start = Callable[..., Relay]
Spawn = Callable[..., Child]


@pytest.fixture
async def runtime(runtime_path: Path) -> AsyncIterator[FakeRuntime]:
    """A backend in this process, which a test can stall and release."""
    runtime = FakeRuntime()
    runtime.populate(3)
    async with serve_runtime(runtime_path, runtime):
        yield runtime


@pytest.fixture
def successor(spawn: Spawn, scratch: Path, runtime_path: Path) -> Callable[[], Child]:
    """Starts a relay that takes over."""
    argv = relay_argv(scratch / "relay.sock", runtime_path, scratch / "admin.sock", "--take-over")
    return lambda: spawn(*argv)


async def pid_of(admin: Ask) -> int:
    """Who answers on the admin socket."""
    pid: int = json.loads((await asyncio.to_thread(admin, "/v1/status"))[1])["pid"]
    return pid


async def took_over(child: Child) -> None:
    """Wait until the successor says so."""
    await eventually(lambda: "Took over" in child.log_tail() or not child.running, "the take-over")
    assert child.running, child.log_tail()


async def test_take_over_under_load_fails_no_call(
    start_relay: Start, successor: Callable[[], Child], runtime: FakeRuntime, admin: Ask
) -> None:
    """Callers with connections of their own, new and old ones, never see an error; the old relay ends with 0."""
    relay = start_relay()
    stop = False
    answered = 0

    async def keep_calling() -> None:
        nonlocal answered
        async with grpc_channel(relay.socket, options=RETRIES) as channel:
            while not stop:
                await channel.unary_unary(f"{V1}/Version")(b"", timeout=WAIT_LIMIT)
                answered += 1

    async def keep_connecting() -> None:
        nonlocal answered
        while not stop:
            async with grpc_channel(relay.socket, options=RETRIES) as channel:
                await channel.unary_unary(f"{V1}/Version")(b"", timeout=WAIT_LIMIT)
                answered += 1

    callers = [asyncio.create_task(one()) for one in (keep_calling, keep_calling, keep_connecting)]
    await eventually(lambda: answered > 20, "the load to begin")
    child = successor()
    await took_over(child)
    assert await asyncio.to_thread(relay.child.wait) == 0
    so_far = answered
    await eventually(lambda: answered > so_far + 20, "the load to go on")
    stop = True
    await asyncio.gather(*callers)
    assert await pid_of(admin) == child.pid
    assert relay.socket.exists()
    assert await asyncio.to_thread(child.stop) == 0
    assert not relay.socket.exists()


async def test_call_in_flight_finishes_on_the_old_relay(
    start_relay: Start, successor: Callable[[], Child], runtime: FakeRuntime
) -> None:
    """A StopContainer that takes its time is answered; meanwhile new calls go to the successor."""
    relay = start_relay()
    stall = runtime.stall("StopContainer")
    container = next(iter(runtime.containers))
    # The old relay may let the second client in at the very moment it is told to go; then it sends it away unserved.
    async with grpc_channel(relay.socket) as channel, grpc_channel(relay.socket, options=RETRIES) as other:
        request = b"\x0a" + bytes([len(container)]) + container.encode()
        call = channel.unary_unary(f"{V1}/StopContainer")(request)
        await asyncio.wait_for(stall.entered.wait(), WAIT_LIMIT)
        child = successor()
        await took_over(child)
        assert b"containerd" in await other.unary_unary(f"{V1}/Version")(b"")
        assert relay.child.running
        stall.release()
        assert await call == b""
        assert await asyncio.to_thread(relay.child.wait) == 0
    assert runtime.calls["StopContainer"] == 1


async def test_event_stream_ends_unavailable_and_comes_back(
    start_relay: Start, successor: Callable[[], Child], runtime: FakeRuntime
) -> None:
    """It would hold the old relay for ever; the client subscribes again and is on the successor."""
    relay = start_relay()
    async with grpc_channel(relay.socket) as channel:
        stream = channel.unary_stream(f"{V1}/GetContainerEvents")(b"")
        await asyncio.wait_for(runtime.events.wait_for_subscribers(1), WAIT_LIMIT)
        child = successor()
        await took_over(child)
        assert (await failed(stream.read())).code() is grpc.StatusCode.UNAVAILABLE
        assert await asyncio.to_thread(relay.child.wait) == 0
        await asyncio.wait_for(runtime.events.wait_for_subscribers(0), WAIT_LIMIT)
        again = channel.unary_stream(f"{V1}/GetContainerEvents")(b"", wait_for_ready=True)
        await asyncio.wait_for(runtime.events.wait_for_subscribers(1), WAIT_LIMIT)
        again.cancel()


async def test_admin_socket_belongs_to_the_successor_at_once(
    start_relay: Start, successor: Callable[[], Child], runtime: FakeRuntime, admin: Ask
) -> None:
    """While the old relay still drains, every question is answered by the new one, a second take-over included."""
    relay = start_relay()
    stall = runtime.stall("Status")
    async with grpc_channel(relay.socket) as channel:
        call = channel.unary_unary(f"{V1}/Status")(b"")
        await asyncio.wait_for(stall.entered.wait(), WAIT_LIMIT)
        child = successor()
        await took_over(child)
        assert relay.child.running
        await eventually(lambda: "Relay is draining" in relay.child.log_tail(), "the old relay to drain")
        assert {await pid_of(admin) for _ in range(30)} == {child.pid}
        third = successor()
        await took_over(third)
        assert f"predecessor={child.pid}" in third.log_tail()
        stall.release()
        assert await call


async def test_successor_that_dies_before_ready_changes_nothing(
    start_relay: Start, successor: Callable[[], Child], runtime: FakeRuntime, scratch: Path, admin: Ask
) -> None:
    """It asked, got the descriptors, and died: the old relay serves on, and the next take-over works."""
    relay = start_relay()
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(WAIT_LIMIT)
        sock.connect(str(relay.admin))
        sock.sendall(f"POST {PATH} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n".encode())
        data, fds, _, _ = await asyncio.to_thread(socket.recv_fds, sock, 65536, 16)
        for fd in fds:
            socket.close(fd)
    assert b" 200 " in data
    assert len(fds) == 4
    async with grpc_channel(relay.socket) as channel:
        assert b"containerd" in await channel.unary_unary(f"{V1}/Version")(b"")
    assert await pid_of(admin) == relay.child.pid
    child = successor()
    await took_over(child)
    assert await asyncio.to_thread(relay.child.wait) == 0


def test_take_over_without_a_predecessor_just_starts(successor: Callable[[], Child], scratch: Path) -> None:
    """The same command line works for the first start."""
    child = successor()
    child.wait_until(lambda: "Relay is listening" in child.log_tail(), what="the start")
    assert accepts(scratch / "relay.sock")
    assert child.stop() == 0


async def test_systemd_learns_the_new_main_process(
    spawn: Spawn, scratch: Path, runtime_path: Path, runtime: FakeRuntime
) -> None:
    """MAINPID of the successor comes with READY; the old one does not say STOPPING."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(scratch / "notify.sock"))
        notify.settimeout(WAIT_LIMIT)
        env = {"NOTIFY_SOCKET": str(scratch / "notify.sock")}
        argv = relay_argv(scratch / "relay.sock", runtime_path, scratch / "admin.sock")
        old = spawn(*argv, env=env)
        assert f"MAINPID={old.pid}" in (await asyncio.to_thread(notify.recv, 4096)).decode()
        new = spawn(*argv, "--take-over", env=env)
        text = (await asyncio.to_thread(notify.recv, 4096)).decode()
        assert f"MAINPID={new.pid}" in text
        assert "READY=1" in text
        assert await asyncio.to_thread(old.wait) == 0
        new.signal(signal.SIGTERM)
        assert "STOPPING=1" in (await asyncio.to_thread(notify.recv, 4096)).decode()
        assert await asyncio.to_thread(new.wait) == 0


async def test_metrics_stay_open_while_a_relay_is_replaced(
    start_relay: Start, spawn: Spawn, scratch: Path, runtime_path: Path, runtime: FakeRuntime, unused_tcp_port: int
) -> None:
    """Whoever scrapes is never refused: the successor goes on with the same socket. Nobody else can have the port."""
    address = f"127.0.0.1:{unused_tcp_port}"
    relay = start_relay("--metrics-listen", address)
    relay.child.wait_until(lambda: "Relay is listening" in relay.child.log_tail(), what="all sockets")
    assert "interpose_build_info" in (await asyncio.to_thread(fetch, f"{address}/metrics"))[1]
    assert (await asyncio.to_thread(fetch, f"{address}/v1/status"))[0] == 404
    answers: list[int] = []
    stop = asyncio.Event()

    async def scrape() -> None:
        while not stop.is_set():
            answers.append((await asyncio.to_thread(fetch, f"{address}/livez"))[0])

    scraper = asyncio.create_task(scrape())
    argv = relay_argv(scratch / "relay.sock", runtime_path, scratch / "admin.sock", "--metrics-listen", address)
    child = spawn(*argv, "--take-over")
    await took_over(child)
    await eventually(lambda: not relay.child.running, "the old relay to end")
    seen = len(answers)
    await eventually(lambda: len(answers) > seen + 3, "scrapes of the new relay")
    stop.set()
    await scraper
    assert set(answers) == {200}


async def test_a_successor_may_listen_elsewhere(
    start_relay: Start, spawn: Spawn, scratch: Path, runtime_path: Path, runtime: FakeRuntime, unused_tcp_port: int
) -> None:
    """The old address is closed with the old relay; one without the setting has none."""
    address = f"127.0.0.1:{unused_tcp_port}"
    relay = start_relay("--metrics-listen", address)
    child = spawn(*relay_argv(scratch / "relay.sock", runtime_path, scratch / "admin.sock"), "--take-over")
    await took_over(child)
    await eventually(lambda: not relay.child.running, "the old relay to end")
    with pytest.raises(OSError, match="refused"):
        await asyncio.to_thread(fetch, f"{address}/livez")
