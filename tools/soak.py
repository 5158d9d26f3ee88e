"""Calls through a relay for minutes, and whether its memory stays flat.

Two parts, one after the other, each with a relay of its own. `calls`: a mixed load without hooks: short calls, lists,
pods that come and go, calls given up half-way, clients that leave and come back. `hooks`: whole lives of pods, each
step of which a hook server is asked about, until a number of them or the time is over; in the end the store has to be
empty. Relay, hook server and runtime of that part are processes of their own, and only the relay is weighed. Exit code
1 if memory grew, or a call failed.
"""

import argparse
import asyncio
import contextlib
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import uvloop

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.net.grpc.client import Client
from interpose.net.grpc.status import RpcError
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from interpose.testing.eventually import WAIT_LIMIT
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.hookserver import register
from interpose.testing.pods import container_config, create_request, pod_config, run_request
from interpose.testing.serve import serve_runtime
from tests.support.lab.processes import Child
from tests.support.lab.relay import Relay, program

WORKERS = 8
# Memos and the allocator's arenas still fill up in the first seconds, so a short run must not be judged too strictly;
# in the half of a ten-minute run, a leak of five bytes a call exceeds this.
MOST_GROWTH = 4 << 20
CALLS_PER_CONNECTION = 500
# Between the middle and the last third of the samples of the part with hooks. Of 3000 pods, one kilobyte a pod shows.
MOST_GROWTH_OF_THIRDS = 1 << 20
CYCLES = 100_000
VARIABLES = {f"SERVICE_{number:02}_PORT_8080_TCP": f"tcp://10.96.12.{number}:8080" for number in range(60)}
STORE = ("pods", "containers", "pending", "diverging_containers")


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope; 0 for fewer than two points."""
    count = len(points)
    mean_x = sum(x for x, _ in points) / count if count else 0.0
    mean_y = sum(y for _, y in points) / count if count else 0.0
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


def growth_of_thirds(points: Sequence[tuple[float, float]]) -> float:
    """How far the median of the last third is above that of the middle one; 0 for fewer than three points."""
    third = len(points) // 3
    if not third:
        return 0.0
    values = [value for _, value in points]
    return statistics.median(values[-third:]) - statistics.median(values[-2 * third : -third])


class Load:
    """The clients. Counts what they did."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self.calls = 0
        self.failures: list[str] = []
        self.stop = asyncio.Event()

    async def work(self, number: int) -> None:
        """One client after another until told to stop."""
        round_ = 0
        while not self.stop.is_set():
            hub = Hub()
            upstream = Upstream(str(self._socket), hub=hub, limits=Limits(), wait=5.0)
            try:
                client = Client(upstream, hub)
                until = self.calls + CALLS_PER_CONNECTION
                while self.calls < until and not self.stop.is_set():
                    round_ += 1
                    await self._round(client, f"soak-{number}-{round_}")
            except RpcError as error:
                self.failures.append(str(error))
            finally:
                await upstream.close()

    async def _call(self, client: Client, name: str, request: bytes, timeout: float = 30.0) -> bytes:
        self.calls += 1
        return await client.unary(METHODS[name].paths[0].encode(), request, timeout=timeout)

    async def _round(self, client: Client, name: str) -> None:
        for _ in range(20):
            await self._call(client, "Version", b"")
        await self._call(client, "ListContainers", b"")
        pod = pod_config(name)
        sandbox = cri.RunPodSandboxResponse.FromString(
            await self._call(client, "RunPodSandbox", run_request(pod).SerializeToString())
        ).pod_sandbox_id
        create = create_request(sandbox, pod, container_config(pod))
        await self._call(client, "CreateContainer", create.SerializeToString())
        gone = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox)
        await self._call(client, "StopPodSandbox", gone.SerializeToString())
        await self._call(client, "RemovePodSandbox", gone.SerializeToString())
        with contextlib.suppress(TimeoutError):  # given up on purpose, most of the time
            async with asyncio.timeout(0.0005):
                await self._call(client, "ListPodSandbox", b"")


async def soak(folder: Path, executable: Path, seconds: float, every: float) -> int:
    """Run the load, sample memory, judge."""
    runtime = FakeRuntime(record_limit=10)
    runtime.populate(50)
    async with serve_runtime(folder / "runtime.sock", runtime):
        relay = Relay(folder, folder / "runtime.sock", executable=executable)
        await asyncio.to_thread(relay.start)
        try:
            samples, load = await _measure(relay, seconds, every)
            alive = relay.child.running
        finally:
            await asyncio.to_thread(relay.__exit__)
    half = [(at, rss) for at, rss in samples if at >= seconds / 2]
    per_second = slope(half)
    growth = per_second * seconds / 2
    per_hour = per_second * 3600 / 1e6
    print(f"{load.calls} calls; {len(load.failures)} failed; {per_hour:+.2f} MB per hour in the second half")
    for failure in load.failures[:5]:
        print(f"failed: {failure}")
    if growth > MOST_GROWTH:
        print(f"memory grew by {growth / 1e6:.1f} MB in the second half, {MOST_GROWTH / 1e6:.1f} are allowed")
    return 0 if alive and not load.failures and growth <= MOST_GROWTH else 1


async def _measure(
    relay: Relay, seconds: float, every: float, load: Load | None = None, workers: int = WORKERS
) -> tuple[list[tuple[float, float]], Load]:
    load = load or Load(relay.socket)
    samples: list[tuple[float, float]] = []
    begin = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(workers):
            group.create_task(load.work(number), name=f"client {number}")
        while (at := time.monotonic() - begin) < seconds and relay.child.running and not load.stop.is_set():
            rss = relay.child.rss_bytes()
            samples.append((at, rss))
            print(f"{at:7.1f} s  {load.calls:9} calls  {rss / 1e6:6.1f} MB", flush=True)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(load.stop.wait(), min(every, seconds - at))
        load.stop.set()
    return samples, load


# -- hooks


class PodLoad(Load):
    """Whole lives of pods, as many as wanted."""

    def __init__(self, socket: Path, cycles: int) -> None:
        super().__init__(socket)
        self.cycles = 0
        self._wanted = cycles

    async def _round(self, client: Client, name: str) -> None:
        if self.cycles >= self._wanted:
            self.stop.set()
            return
        self.cycles += 1
        pod = pod_config(name)
        sandbox = cri.RunPodSandboxResponse.FromString(
            await self._call(client, "RunPodSandbox", run_request(pod).SerializeToString())
        ).pod_sandbox_id
        create = create_request(sandbox, pod, container_config(pod, envs=VARIABLES))
        container = cri.CreateContainerResponse.FromString(
            await self._call(client, "CreateContainer", create.SerializeToString())
        ).container_id
        of_container = cri.StartContainerRequest(container_id=container).SerializeToString()
        of_pod = cri.StopPodSandboxRequest(pod_sandbox_id=sandbox).SerializeToString()
        for method in ("StartContainer", "ContainerStatus", "StopContainer", "RemoveContainer"):
            await self._call(client, method, of_container)
        for method in ("StopPodSandbox", "RemovePodSandbox"):
            await self._call(client, method, of_pod)


@contextlib.asynccontextmanager
async def _hooked_relay(folder: Path, executable: Path) -> AsyncIterator[Relay]:
    """A relay before a fake runtime, with a hook server that changes something in every container."""
    runtime, plugin, directory = folder / "runtime.sock", folder / "plugin.sock", folder / "hookserver.d"
    directory.mkdir()
    directory.chmod(0o755)
    register(directory, "plugin", plugin)
    with contextlib.ExitStack() as stack:
        for module, socket, *options in (
            ("tests.support.runtime_process", runtime),
            ("interpose.testing.hookserver", plugin, "--echo", "--set-shares", "512"),
        ):
            argv = [sys.executable, "-m", module, str(socket), *map(str, options)]
            child = stack.enter_context(Child(argv, log=folder / f"{module}.log"))
            await asyncio.to_thread(child.wait_listening, socket)
        relay = Relay(folder, runtime, ("--hooks-dir", str(directory)), executable)
        stack.callback(relay.__exit__)
        await asyncio.to_thread(relay.start)
        yield relay


async def soak_hooks(folder: Path, executable: Path, seconds: float, every: float, cycles: int) -> int:
    """Run the load, sample memory, and look whether the store forgot everything."""
    async with _hooked_relay(folder, executable) as relay:
        await _remove_all(relay.socket)
        load = PodLoad(relay.socket, cycles)
        samples, _ = await _measure(relay, seconds, every, load)
        alive = relay.child.running
        left = await _left(relay) if alive else {}
    growth = growth_of_thirds(samples)
    per_thousand = slope(samples[len(samples) // 3 :]) * samples[-1][0] / max(load.cycles, 1) * 1000
    print(
        f"{load.cycles} pods; {load.calls} calls; {len(load.failures)} failed; {growth / 1e6:+.2f} MB from the middle "
        f"to the last third, {per_thousand / 1e3:+.1f} KB per 1000 pods"
    )
    for failure in load.failures[:5]:
        print(f"failed: {failure}")
    print("left in the store: " + ", ".join(f"{name} {count:g}" for name, count in left.items()))
    if growth > MOST_GROWTH_OF_THIRDS:
        print(f"memory grew by {growth / 1e6:.1f} MB, {MOST_GROWTH_OF_THIRDS / 1e6:.1f} are allowed")
    empty = set(left) == set(STORE) and not any(left.values())
    return 0 if alive and empty and not load.failures and growth <= MOST_GROWTH_OF_THIRDS else 1


async def _remove_all(socket: Path) -> None:
    """The runtime comes with pods of its own; without them a store that is empty has forgotten everything."""
    hub = Hub()
    upstream = Upstream(str(socket), hub=hub, limits=Limits(), wait=5.0)
    try:
        client = Client(upstream, hub)
        found = await client.unary(METHODS["ListPodSandbox"].paths[0].encode(), b"", timeout=WAIT_LIMIT)
        for pod in cri.ListPodSandboxResponse.FromString(found).items:
            gone = cri.RemovePodSandboxRequest(pod_sandbox_id=pod.id).SerializeToString()
            await client.unary(METHODS["RemovePodSandbox"].paths[0].encode(), gone, timeout=WAIT_LIMIT)
    finally:
        await upstream.close()


async def _left(relay: Relay) -> dict[str, float]:
    """What the metrics say of the store."""
    reader, writer = await asyncio.open_unix_connection(relay.admin)
    try:
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        lines = (await reader.read()).decode().splitlines()
    finally:
        writer.close()
    values = dict(line.rsplit(" ", 1) for line in lines if line.startswith("interpose_store_"))
    return {name: float(values[f"interpose_store_{name}"]) for name in STORE if f"interpose_store_{name}" in values}


def main() -> int:
    """Read the command line and soak."""
    parser = argparse.ArgumentParser(description="Calls through a relay for minutes; prints the slope of its memory.")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each part")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples")
    parser.add_argument("--cycles", type=int, default=CYCLES, help="pods of the part with hooks, if time suffices")
    parser.add_argument("--program", type=Path, default=program(), help="the `interpose` whose relay is weighed")
    parser.add_argument("--part", choices=("all", "calls", "hooks"), default="all")
    args = parser.parse_args()
    if args.minutes <= 0 or args.every <= 0 or args.cycles <= 0:
        parser.error("--minutes, --every and --cycles must be above 0")
    seconds = args.minutes * 60
    worst = 0
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        if args.part in ("all", "calls"):
            with tempfile.TemporaryDirectory(prefix="interpose-") as folder:
                worst = runner.run(soak(Path(folder), args.program, seconds, args.every))
        if args.part in ("all", "hooks"):
            with tempfile.TemporaryDirectory(prefix="interpose-") as folder:
                hooked = soak_hooks(Path(folder), args.program, seconds, args.every, args.cycles)
                worst = max(worst, runner.run(hooked))
    return worst


if __name__ == "__main__":
    sys.exit(main())
