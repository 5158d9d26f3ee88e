"""Pods on containerd and on our own runtime, side by side in one run: how long, how much CPU time, how much memory.

Each round visits every part, and within it the contestants take turns, in an order that rotates with the rounds.
Progress goes to stderr, tables to stdout. With --before a checkout of an earlier version runs beside them.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import signal
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

# Started as a script: the modules beside it are found from the project's folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.concluding import measure
from bench.pods_contestants import BEFORE, BEHIND_RELAY, CONTAINERD, OURS, memory_of, now, relayed, running
from bench.pods_load import Managed, client_of, many, peak_memory, ready_pods, remove_many
from bench.pods_report import PodResults, PodSample, pod_page, pod_tables
from bench.run import machine, say
from interpose.net.grpc.status import RpcError
from tests.support.lab.containerd import Containerd
from tests.support.lab.processes import LabError, missing_programs
from tests.support.lab.runtime import Runtime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from bench.pods_contestants import Contestant
    from bench.pods_load import Client

ROUNDS = 5
QUICK = 0.2
PODS, ONE_BY_ONE, LISTS = 100, 10, 60
PARTS = ("one", "node", "relay", "managed", "many")
# A daemon that was killed is back within this time.
PATIENCE = 60.0


class Bench:
    """The contestants that are there, and how much of everything."""

    def __init__(
        self, people: Mapping[str, Contestant], folder: Path, relays: Mapping[str, Path], scale: float
    ) -> None:
        self._people = people
        self._folder = folder
        self._relays = relays
        self._scale = scale
        self.pods = self._some(PODS)

    def _some(self, count: int) -> int:
        return max(int(count * self._scale), 2)

    def _turns(self, names: Sequence[str], number: int) -> list[str]:
        turn = number % max(len(names), 1)
        return [*names[turn:], *names[:turn]]

    @contextlib.asynccontextmanager
    async def _clients(self, sockets: Mapping[str, tuple[Path, str]]) -> AsyncIterator[dict[str, Client]]:
        async with contextlib.AsyncExitStack() as stack:
            yield {
                name: await stack.enter_async_context(client_of(socket, group, self._folder / "logs"))
                for name, (socket, group) in sockets.items()
            }

    def _direct(self) -> dict[str, tuple[Path, str]]:
        return {name: (one.socket, one.group) for name, one in self._people.items()}

    async def one(self, round_: int) -> list[PodSample]:
        """Pods one after the other; contestants change after each."""
        seen: dict[str, dict[str, list[float]]] = {
            name: {key: [] for key in ("start", "run", "create", "begin", "stop", "remove", "exec", "cpu")}
            for name in self._people
        }
        async with self._clients(self._direct()) as clients:
            for number in range(self._some(ONE_BY_ONE) + 1):
                for name in self._turns(list(clients), round_ + number):
                    client, found = clients[name], seen[name]
                    processor = self._people[name].cpu_seconds()
                    pod = await client.start()
                    used = self._people[name].cpu_seconds() - processor
                    execs = [await client.exec(pod) for _ in range(2)]
                    stopped, removed = await client.remove(pod)
                    if number == 0:
                        continue  # the warm-up
                    found["start"].append(pod.total)
                    found["run"].append(pod.run)
                    found["create"].append(pod.create)
                    found["begin"].append(pod.start)
                    found["stop"].append(stopped)
                    found["remove"].append(removed)
                    found["exec"] += execs
                    found["cpu"].append(used)
        samples = []
        for name, found in seen.items():
            for key, values in found.items():
                if key == "cpu":
                    samples.append(_sample(name, "start.cpu", round_, statistics.mean(values)))
                    continue
                samples.append(_sample(name, f"{key}.p50", round_, statistics.median(values)))
                samples.append(_sample(name, f"{key}.p90", round_, _p90(values)))
        return samples

    async def node(self, round_: int) -> list[PodSample]:
        """The same in the network of the node."""
        return await self._starts(round_, self._direct(), "node", node_network=True)

    async def relay(self, round_: int) -> list[PodSample]:
        """The same through relays, and without them in turns: what a relay adds is less than what moments differ."""
        sockets = {
            BEHIND_RELAY[name]: (self._relays[name], one.group)
            for name, one in self._people.items()
            if name in self._relays
        }
        direct = {name: both for name, both in self._direct().items() if name in self._relays}
        return await self._starts(round_, {**direct, **sockets}, "relayed", node_network=False)

    async def _starts(
        self, round_: int, sockets: Mapping[str, tuple[Path, str]], what: str, *, node_network: bool
    ) -> list[PodSample]:
        seen: dict[str, list[float]] = {name: [] for name in sockets}
        async with self._clients(sockets) as clients:
            for number in range(self._some(ONE_BY_ONE) + 1):
                for name in self._turns(list(clients), round_ + number):
                    pod = await clients[name].start(node_network=node_network)
                    await clients[name].remove(pod)
                    if number:
                        seen[name].append(pod.total)
        return [
            _sample(name, f"{what}.{cut}", round_, value)
            for name, values in seen.items()
            for cut, value in (("p50", statistics.median(values)), ("p90", _p90(values)))
        ]

    async def managed(self, round_: int) -> list[PodSample]:
        """Pods by our manager."""
        seen: dict[str, list[tuple[float, float]]] = {name: [] for name in self._people}
        async with contextlib.AsyncExitStack() as stack:
            managers = {}
            for name, one in self._people.items():
                managed = Managed(one.socket, one.group, self._folder / f"managed-{name}")
                managers[name] = (managed, await stack.enter_async_context(managed.opened()))
            for number in range(self._some(ONE_BY_ONE) + 1):
                for name in self._turns(list(managers), round_ + number):
                    managed, manager = managers[name]
                    taken = await managed.life(manager)
                    if number:
                        seen[name].append(taken)
        return [
            _sample(name, f"managed.{what}", round_, statistics.median(one[place] for one in values))
            for name, values in seen.items()
            for place, what in enumerate(("start", "remove"))
        ]

    async def many(self, round_: int) -> list[PodSample]:
        """All at once, one contestant after the other; then look at them, kill the daemon, and remove them."""
        samples = []
        for name in self._turns(list(self._people), round_):
            contestant = self._people[name]
            async with client_of(contestant.socket, contestant.group, self._folder / "logs") as client:
                found = await self._crowd(contestant, client)
            samples += [_sample(name, key, round_, value) for key, value in found.items()]
        return samples

    async def _crowd(self, contestant: Contestant, client: Client) -> dict[str, float]:
        found: dict[str, float] = {}
        found["daemon.rss"] = memory_of([contestant.daemon.child.pid])[0]
        resident, proportional = memory_of(contestant.overhead())
        processor = contestant.cpu_seconds()
        async with peak_memory(contestant) as peak:
            pods, found["many.wall"] = await many(client, self.pods)
        found["many.cpu"] = contestant.cpu_seconds() - processor
        found["many.peak"] = peak[0]
        await asyncio.sleep(1.0)  # what is being tidied up after the starts is not idle yet
        resident_after, proportional_after = memory_of(contestant.overhead())
        found["idle.rss"] = (resident_after - resident) / self.pods
        found["idle.pss"] = (proportional_after - proportional) / self.pods
        for key, method, fields in (
            ("list.sandboxes", "ListPodSandbox", {}),
            ("list.containers", "ListContainers", {}),
            ("list.stats", "ListContainerStats", {}),
            ("status.sandbox", "PodSandboxStatus", {"pod_sandbox_id": pods[0].sandbox}),
            ("status.container", "ContainerStatus", {"container_id": pods[0].container}),
        ):
            values = [await client.timed(method, **fields) for _ in range(self._some(LISTS))]
            found[key] = statistics.median(values)
        found |= await self._restart(contestant)
        async with client_of(contestant.socket, contestant.group, self._folder / "logs") as fresh:
            found["many.remove"] = await remove_many(fresh, pods)
        return found

    async def _restart(self, contestant: Contestant) -> dict[str, float]:
        """Seconds until a daemon that was killed shows all pods again, and its CPU time; nothing if it lost some."""
        contestant.daemon.kill()
        begin = now()
        contestant.daemon.start_again()
        ready = -1
        while ready != self.pods and now() - begin < PATIENCE:
            await asyncio.sleep(0.002)
            ready = await ready_pods(contestant.socket)
        found = {"restart": now() - begin, "restart.cpu": contestant.daemon.child.cpu_seconds()}
        contestant.adopt()
        if ready < 0:
            raise LabError(f"{contestant.name} does not answer after its restart")
        if ready < self.pods:
            say(f"{contestant.name} has {ready} of {self.pods} pods after its restart")
        return found if ready == self.pods else {}


def _sample(contestant: str, name: str, round_: int, value: float) -> PodSample:
    return PodSample(contestant=contestant, measure=name, round=round_, value=value)


def _p90(values: Sequence[float]) -> float:
    return statistics.quantiles(values, n=10, method="inclusive")[8]


def run(args: argparse.Namespace, folder: Path) -> PodResults:
    parts = [part for part in PARTS if part in args.parts.split(",")]
    names = [CONTAINERD, OURS, *([BEFORE] if args.before else [])]
    scale = QUICK if args.quick else 1.0
    samples: list[PodSample] = []
    with contextlib.ExitStack() as stack:
        people = {
            name: stack.enter_context(running(name, folder, args.before if name == BEFORE else None)) for name in names
        }
        relays = {name: stack.enter_context(relayed(people[name], folder)) for name in BEHIND_RELAY if "relay" in parts}
        bench = Bench(people, folder, relays, scale)
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            rounds = 0
            try:
                while rounds < args.rounds:
                    samples += _round(runner, bench, parts, rounds, args.rounds)
                    rounds += 1
            except (LabError, RpcError) as error:
                if not rounds:
                    raise LabError(str(error)) from error
                say(f"round {rounds + 1} is left out: {error}")
    return PodResults(machine=machine(), rounds=rounds, scale=scale, pods=bench.pods, samples=samples)


def _round(runner: asyncio.Runner, bench: Bench, parts: Sequence[str], number: int, count: int) -> list[PodSample]:
    """All parts, or an error: half a round is none."""
    samples: list[PodSample] = []
    for part in parts:
        found = runner.run(getattr(bench, part)(number))
        samples += found
        _tell(number, count, part, found)
    return samples


def _tell(round_: int, count: int, part: str, samples: Sequence[PodSample]) -> None:
    first = samples[0].measure
    shown = ", ".join(f"{one.contestant} {one.value:.3f}" for one in samples if one.measure == first)
    say(f"round {round_ + 1}/{count}  {part:<8} {first}: {shown}")


def options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/pods.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"interleaved rounds (default {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="a fifth of the pods, for a quick look")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"comma separated: {', '.join(PARTS)} (default all)")
    parser.add_argument("--before", type=Path, help="folder of an earlier version that runs beside")
    parser.add_argument("--json", type=Path, help="write all samples to this file")
    parser.add_argument("--output", type=Path, help="write the section to this page (markdown)")
    args = parser.parse_args(argv)
    if unknown := set(args.parts.split(",")) - set(PARTS):
        parser.error(f"--parts: unknown {', '.join(sorted(unknown))}; known are {', '.join(PARTS)}")
    return args


def _leave(_number: int, _frame: object) -> None:
    raise SystemExit("told to stop")


def main(argv: Sequence[str]) -> int:
    # An error like any other: everything that was started is ended.
    signal.signal(signal.SIGTERM, _leave)
    missing = Containerd.missing() or Runtime.missing() or missing_programs("ip")
    return measure(options(argv), run, pod_tables, pod_page, missing=missing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
