"""A client that makes pods and lists, for what h2load cannot say: `podload.py WORK SOCKET[=PID] ...` prints JSON.

Works: `run` makes pods and times RunPodSandbox alone, stopping and removing them in between; `list` times
ListContainers; `fill` leaves pods with a container each. Calls are made one at a time with our own client. Several
sockets take turns after a few calls each, so that a busy moment of the machine hits all of them alike. With a PID the
CPU time of that process is taken around the timed calls only.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import sys
import time
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import uvloop

from interpose._pb import cri_pb2 as cri
from interpose.cri.methods import METHODS
from interpose.net.grpc.client import Client
from interpose.net.grpc.transport import Hub
from interpose.net.grpc.upstream import Upstream
from interpose.net.h2.limits import Limits
from interpose.testing.pods import container_config, create_request, pod_config, run_request
from tests.support.lab.processes import cpu_seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

# Calls until the next socket's turn, and so the pods that are alive at once.
TURN = 20
TIMEOUT = 30.0
# As many as service links give a container in a namespace of some ten services.
VARIABLES = {f"SERVICE_{number:02}_PORT_8080_TCP": f"tcp://10.96.12.{number}:8080" for number in range(60)}


class Target:
    """One socket: its connection, and what was measured there."""

    def __init__(self, name: str, client: Client, pause: float = 0.0) -> None:
        self.socket, _, pid = name.partition("=")
        self._pause = pause
        self.durations: list[float] = []  # microseconds
        self.cpu = 0.0
        self._pid = int(pid) if pid else None
        self._client = client

    async def call(self, method: str, request: bytes) -> bytes:
        return await self._client.unary(METHODS[method].paths[0].encode(), request, timeout=TIMEOUT)

    async def timed(self, method: str, requests: Sequence[bytes]) -> list[bytes]:
        """The answers; how long each took is kept."""
        answers = []
        processor = self._processor()
        for request in requests:
            if self._pause:
                await asyncio.sleep(self._pause)
            begin = time.perf_counter()
            answers.append(await self.call(method, request))
            self.durations.append(round((time.perf_counter() - begin) * 1e6, 1))
        self.cpu += self._processor() - processor
        return answers

    def forget(self) -> None:
        """What was measured so far was the warm-up."""
        self.durations.clear()
        self.cpu = 0.0

    def _processor(self) -> float:
        return 0.0 if self._pid is None else cpu_seconds(self._pid)


class Pods:
    """Pods nobody has seen, as a Deployment makes them."""

    def __init__(self) -> None:
        self._prefix = f"bench-{time.time_ns():x}"
        self._numbers = itertools.count()

    def take(self, count: int) -> list[cri.PodSandboxConfig]:
        labels = {"app.kubernetes.io/name": "bench", "pod-template-hash": "6d4cf56db6", "koordinator.sh/qosClass": "LS"}
        annotations = {"kubernetes.io/config.source": "api", "prometheus.io/scrape": "true"}
        names = (f"{self._prefix}-{number}" for number in itertools.islice(self._numbers, count))
        return [pod_config(name, "production", labels=labels, annotations=annotations) for name in names]


async def run_pods(target: Target, pods: Pods, count: int) -> None:
    """RunPodSandbox; what is done to get rid of the pods is not measured."""
    requests = [run_request(pod).SerializeToString() for pod in pods.take(count)]
    for answer in await target.timed("RunPodSandbox", requests):
        sandbox = cri.RunPodSandboxResponse.FromString(answer).pod_sandbox_id
        gone = cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox).SerializeToString()
        await target.call("StopPodSandbox", gone)
        await target.call("RemovePodSandbox", gone)


async def list_containers(target: Target, _pods: Pods, count: int) -> None:
    """ListContainers of everything, as a kubelet asks once a second."""
    await target.timed("ListContainers", [b""] * count)


async def fill(target: Target, pods: Pods, count: int) -> None:
    """Pods with a container that stay."""
    for pod in pods.take(count):
        answer = await target.call("RunPodSandbox", run_request(pod).SerializeToString())
        sandbox = cri.RunPodSandboxResponse.FromString(answer).pod_sandbox_id
        container = container_config(pod, envs=VARIABLES)
        await target.call("CreateContainer", create_request(sandbox, pod, container).SerializeToString())


WORKS: dict[str, Callable[[Target, Pods, int], Awaitable[None]]] = {
    "run": run_pods,
    "list": list_containers,
    "fill": fill,
}


def turns(count: int, size: int = TURN) -> list[int]:
    """How many calls each turn has; together `count`."""
    return [min(size, count - first) for first in range(0, count, size)]


async def work(name: str, sockets: Sequence[str], calls: int, warm_up: int, pause: float = 0.0) -> list[Target]:
    """Warm up, forget, then do the work in turns; whoever was first in a turn is last in the next."""
    hub, pods, do = Hub(), Pods(), WORKS[name]
    async with AsyncExitStack() as stack:
        targets = []
        for socket in sockets:
            upstream = Upstream(socket.partition("=")[0], hub=hub, limits=Limits(), wait=5.0)
            stack.push_async_callback(upstream.close)
            targets.append(Target(socket, Client(upstream, hub), pause))
        for target in targets if warm_up else ():
            await do(target, pods, warm_up)
            target.forget()
        for number, count in enumerate(turns(calls)):
            first = number % len(targets)
            for target in (*targets[first:], *targets[:first]):
                await do(target, pods, count)
    return targets


def main(argv: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="podload.py", description="Pods and lists through CRI sockets.")
    parser.add_argument("work", choices=sorted(WORKS))
    parser.add_argument("sockets", nargs="+", metavar="SOCKET[=PID]")
    parser.add_argument("--calls", type=int, default=100, help="for each socket")
    parser.add_argument("--warm-up", type=int, default=0, help="calls before, for each socket")
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between the calls")
    args = parser.parse_args(argv)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        targets = runner.run(work(args.work, args.sockets, args.calls, args.warm_up, args.pause))
    found = {target.socket: {"durations": target.durations, "cpu_seconds": target.cpu} for target in targets}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
