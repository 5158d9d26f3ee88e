"""Calls through a relay for minutes, and whether its memory stays flat.

The relay is a process of its own; the fake runtime and the clients live here. The load is mixed: short calls, lists,
pods that come and go, calls given up half-way, clients that leave and come back. Exit code 1 if memory grew in the
second half, or a call failed.
"""

import argparse
import asyncio
import contextlib
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import uvloop

from interpose.api import cri_pb2 as cri
from interpose.h2.limits import Limits
from interpose.relay.methods import METHODS
from interpose.rpc.client import Client
from interpose.rpc.status import RpcError
from interpose.rpc.transport import Hub
from interpose.rpc.upstream import Upstream
from interpose.testing.fakeruntime import FakeRuntime
from interpose.testing.lab.relay import Relay
from interpose.testing.pods import container_config, create_request, pod_config, run_request
from interpose.testing.serve import serve_runtime

WORKERS = 8
# Memos and the allocator's arenas still fill up in the first seconds, so a short run must not be judged too strictly;
# in the half of a ten-minute run, a leak of five bytes a call exceeds this.
MOST_GROWTH = 4 << 20
CALLS_PER_CONNECTION = 500


def slope(points: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope; 0 for fewer than two points."""
    count = len(points)
    mean_x = sum(x for x, _ in points) / count if count else 0.0
    mean_y = sum(y for _, y in points) / count if count else 0.0
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread if spread else 0.0


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


async def soak(folder: Path, seconds: float, every: float) -> int:
    """Run the load, sample memory, judge."""
    runtime = FakeRuntime(record_limit=10)
    runtime.populate(50)
    async with serve_runtime(folder / "runtime.sock", runtime):
        relay = Relay(folder, folder / "runtime.sock")
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


async def _measure(relay: Relay, seconds: float, every: float) -> tuple[list[tuple[float, float]], Load]:
    load = Load(relay.socket)
    samples: list[tuple[float, float]] = []
    begin = time.monotonic()
    async with asyncio.TaskGroup() as group:
        for number in range(WORKERS):
            group.create_task(load.work(number), name=f"client {number}")
        while (at := time.monotonic() - begin) < seconds and relay.child.running:
            rss = relay.child.rss_bytes()
            samples.append((at, rss))
            print(f"{at:7.1f} s  {load.calls:9} calls  {rss / 1e6:6.1f} MB", flush=True)
            await asyncio.sleep(min(every, seconds - at))
        load.stop.set()
    return samples, load


def main() -> int:
    """Read the command line and soak."""
    parser = argparse.ArgumentParser(description="Calls through a relay for minutes; prints the slope of its memory.")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between samples")
    args = parser.parse_args()
    if args.minutes <= 0 or args.every <= 0:
        parser.error("--minutes and --every must be above 0")
    with (
        tempfile.TemporaryDirectory(prefix="interpose-") as folder,
        asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner,
    ):
        return runner.run(soak(Path(folder), args.minutes * 60, args.every))


if __name__ == "__main__":
    sys.exit(main())
