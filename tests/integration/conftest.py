"""What integration tests share: uvloop as in the product, short socket paths, relays in this process and beside it."""

import http.client
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import uvloop

from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.hookserver import FakeHookServer, serve_hooks
from interpose.testing.hookstack import HookStack, hook_stack
from interpose.testing.stack import Stack
from tests.support.hooks.node import write_boot, write_cpus
from tests.support.lab.hookserver import HookServer
from tests.support.lab.processes import Child
from tests.support.lab.relay import Relay
from tests.support.net.subnets import reserved_subnet
from tests.support.node.shim_node import ShimNode, shim_node, why_not


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> dict[str, Callable[[], Any]]:
    """Every async test here runs on the loop of the product."""
    return {"uvloop": uvloop.new_event_loop}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """An idle uvloop does not run signal handlers: a test that hangs can only be ended by a thread.

    What a module says of its own tests counts: a mark that is added here would hide it.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(900, method="thread"))


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings of the developer's shell must not reach a relay of a test."""
    for name in list(os.environ):
        if name.startswith(("INTERPOSE_", "LISTEN_", "NOTIFY_", "WATCHDOG_")):
            monkeypatch.delenv(name)


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A folder of this test alone with a short name: a unix socket path has 107 characters at most."""
    folder = Path(tempfile.mkdtemp(prefix="ip-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def subnet() -> Iterator[str]:
    """The beginning of addresses for pods of this test alone: `10.231.7.`."""
    with reserved_subnet() as reserved:
        yield reserved


@pytest.fixture
def runtime_path(scratch: Path) -> Path:
    """Where the backend's socket is, or will be."""
    return scratch / "runtime.sock"


@pytest.fixture
def relay_path(scratch: Path) -> Path:
    """Where the relay's socket is, or will be."""
    return scratch / "relay.sock"


@pytest.fixture
def start_relay(scratch: Path, runtime_path: Path) -> Iterator[Callable[..., Relay]]:
    """Starts the real command and waits until it listens; whatever it started is stopped. Errors carry its log."""
    with ExitStack() as stack:

        def start(*options: str, runtime: Path = runtime_path) -> Relay:
            relay = stack.enter_context(Relay(scratch, runtime, options))
            relay.child.wait_listening(relay.admin)
            return relay

        yield start


@pytest.fixture
def spawn(scratch: Path) -> Iterator[Callable[..., Child]]:
    """Starts any program with a log of its own; it is stopped at the end."""
    with ExitStack() as stack:
        count = 0

        def start(*argv: str | Path, env: dict[str, str] | None = None) -> Child:
            nonlocal count
            count += 1
            return stack.enter_context(Child([str(word) for word in argv], log=scratch / f"child-{count}.log", env=env))

        yield start


@pytest.fixture
def interpreter_rss(spawn: Callable[..., Child]) -> Callable[..., int]:
    """Resident bytes of a process of this interpreter that has these modules and does nothing: builds of Python differ
    by more than what we load."""

    def measure(*modules: str) -> int:
        code = "".join(f"import {name}\n" for name in modules)
        child = spawn(sys.executable, "-c", f"{code}import signal\nprint('loaded', flush=True)\nsignal.pause()")
        child.wait_until(lambda: "loaded" in child.log_tail(), what="the modules")
        return child.rss_bytes()

    return measure


@pytest.fixture
def start_runtime(runtime_path: Path, spawn: Callable[..., Child]) -> Callable[..., Child]:
    """Starts a FakeRuntime in a process of its own and waits until it listens; calls of `stalled` stand still."""

    def start(*stalled: str) -> Child:
        child = spawn(sys.executable, "-m", "tests.support.runtime_process", runtime_path, *stalled)
        child.wait_listening(runtime_path)
        return child

    return start


@pytest.fixture
def memory() -> Iterator[Path]:
    """A folder of this test alone for many small files: in memory, where that can be had."""
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="ip-", dir=shared if os.access(shared, os.W_OK) else None))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fake_node(memory: Path, runtime_path: Path, spawn: Callable[..., Child]) -> Callable[..., Path]:
    """Starts a fake node in a process of its own and waits until all pods are there; returns its cgroup root."""

    def start(*, pods: int = 3, version: str = "v1") -> Path:
        write_cpus(memory / "sys", ["0-31", "32-63"])
        child = spawn(
            *(sys.executable, "-m", "interpose.testing.fakenode", "--socket", runtime_path, "--pods", pods),
            *("--cgroups", memory / "cgroup", "--proc", memory / "proc", "--version", version),
        )
        child.wait_listening(runtime_path)
        return memory / "cgroup"

    return start


@pytest.fixture
def hookserver(scratch: Path, memory: Path, runtime_path: Path) -> Iterator[Callable[..., HookServer]]:
    """Our hook server for the fake node, not started yet; whatever is started is stopped."""
    with ExitStack() as stack:

        def make(*options: str, folder: Path = scratch) -> HookServer:
            write_boot(memory / "proc")
            places = {"--cgroup-root": "cgroup", "--proc-root": "proc", "--sys-root": "sys"}
            said = [part for flag, name in places.items() for part in (flag, str(memory / name))]
            server = HookServer(folder, runtime_path, kubepods="kubepods", options=(*said, *options))
            stack.push(server)
            return server

        yield make


class _UnixHttp(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=WAIT_LIMIT)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(WAIT_LIMIT)
        self.sock.connect(str(self._path))


@pytest.fixture
def admin(scratch: Path) -> Callable[..., tuple[int, str]]:
    """Asks an admin socket, the relay's unless another is named: status and text."""

    def ask(path: str, method: str = "GET", body: str | None = None, at: str = "admin.sock") -> tuple[int, str]:
        connection = _UnixHttp(scratch / at)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    return ask


@pytest.fixture
async def channel(stack: Stack) -> AsyncIterator[Any]:
    """A grpcio client of the test's own `stack`."""
    async with grpc_channel(stack.socket) as channel:
        yield channel


@pytest.fixture
async def plugin(scratch: Path) -> AsyncIterator[FakeHookServer]:
    """A hook server on plugin.sock that changes nothing, not registered."""
    server = FakeHookServer()
    async with serve_hooks(scratch / "plugin.sock", server):
        yield server


@pytest.fixture
async def node(scratch: Path) -> AsyncIterator[HookStack]:
    """A relay with hooks in this process and nothing registered."""
    async with hook_stack(scratch) as running:
        yield running


@pytest.fixture(params=["runc", "plain"])
async def bare_sandbox(request: pytest.FixtureRequest, scratch: Path) -> AsyncIterator[ShimNode]:
    """A sandbox by each executor, whose shim is not launched yet."""
    if why := why_not(request.param):
        pytest.skip(f"{request.param}: {why}")
    async with shim_node(scratch, request.param) as made:
        yield made


@pytest.fixture
async def sandbox(bare_sandbox: ShimNode) -> ShimNode:
    """One with a shim, without namespaces of its own."""
    await bare_sandbox.launch()
    return bare_sandbox
