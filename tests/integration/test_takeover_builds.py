"""A relay of one build takes over from one of the other: what is handed over is the same in both."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from interpose.testing.eventually import eventually
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.grpcpeer import grpc_channel
from interpose.testing.serve import serve_runtime
from tests.support.lab.processes import Child
from tests.support.lab.relay import relay_argv

ROOT = Path(__file__).resolve().parents[2]
# By build: a program that runs it, and its environment. The source is pure, also where the other build is installed.
COMPILED = ROOT / "build/venv-native/bin/python"
PROGRAMS = {"pure": (sys.executable, {"PYTHONPATH": str(ROOT / "src")}), "compiled": (str(COMPILED), {})}
POLICY = ("--policy", "static-plus", "--reserved-resources", "cpu=500m")
METHODS = ("Version", "ListContainers", "ListPodSandbox")
# What GOAWAY says was never begun is sent again without the caller's notice: every gRPC client has it by default.
RETRIES = [("grpc.enable_retries", 1)]

pytestmark = pytest.mark.skipif(not COMPILED.exists(), reason="no compiled build: `make native` makes it")


class Callers:
    """Clients with connections of their own; a call that fails is raised by `end`."""

    def __init__(self, socket: Path) -> None:
        self.answered = 0
        self._socket = socket
        self._stop = False
        self._tasks = [asyncio.create_task(self._keep_calling(again)) for again in (False, False, True)]

    async def end(self) -> None:
        self._stop = True
        await asyncio.gather(*self._tasks)

    async def go_on(self) -> None:
        """Wait for more answers, or for the failure of a caller."""
        wanted = self.answered + 30
        await eventually(lambda: self.answered >= wanted or any(task.done() for task in self._tasks), "the load")

    async def _keep_calling(self, again: bool) -> None:
        """Call on and on; with `again` each round on a new connection."""
        while not self._stop:
            async with grpc_channel(self._socket, options=RETRIES) as channel:
                while not self._stop:
                    for method in METHODS:
                        await channel.unary_unary(f"/runtime.v1.RuntimeService/{method}")(b"", wait_for_ready=True)
                        self.answered += 1
                    if again:
                        break


async def took_over(child: Child) -> None:
    """Wait until the successor says so."""
    await eventually(lambda: "Took over" in child.log_tail() or not child.running, "the take-over")
    assert child.running, child.log_tail()


@pytest.fixture
async def runtime(runtime_path: Path) -> AsyncIterator[FakeRuntime]:
    """A backend in this process."""
    runtime = FakeRuntime()
    runtime.populate(3)
    async with serve_runtime(runtime_path, runtime):
        yield runtime


@pytest.mark.parametrize("options", [(), POLICY], ids=["pass-through", "policy"])
@pytest.mark.parametrize("builds", [("pure", "compiled", "pure"), ("compiled", "pure", "compiled")], ids="-".join)
async def test_each_build_takes_over_from_the_other(
    spawn: Callable[..., Child],
    admin: Callable[..., tuple[int, str]],
    scratch: Path,
    runtime_path: Path,
    runtime: FakeRuntime,
    builds: tuple[str, ...],
    options: tuple[str, ...],
) -> None:
    """There and back under load: no call fails, and each relay ends with 0."""
    socket = scratch / "relay.sock"
    _, *argv = relay_argv(socket, runtime_path, scratch / "admin.sock", *options)

    def start(build: str, *more: str) -> Child:
        program, environment = PROGRAMS[build]
        return spawn(program, "-m", "interpose", *argv, *more, env=environment)

    relay = start(builds[0])
    relay.wait_listening(socket)
    callers = Callers(socket)
    await callers.go_on()
    for build in builds[1:]:
        successor = start(build, "--take-over")
        await took_over(successor)
        assert await asyncio.to_thread(relay.wait) == 0
        relay = successor
        await callers.go_on()
        metrics = (await asyncio.to_thread(admin, "/metrics"))[1]
        assert re.search(rf'^interpose_build_info{{.*build="{build}"', metrics, re.MULTILINE)
    await callers.end()
    assert await asyncio.to_thread(relay.stop) == 0
