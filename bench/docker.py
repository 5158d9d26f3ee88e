"""Docker mode against dockerd direct, socat, nginx and HAProxy, and what hooks add, in one run.

Each round visits every workload, and for each workload every contestant, in an order that rotates with the rounds: a
noisy machine then hits all of them alike. Progress goes to stderr, tables to stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import random
import sys
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

# Started as a script: the modules beside it are found from the project's folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.concluding import measure
from bench.contestants import CACHED_BYTECODE, DIRECT, OURS
from bench.docker_contestants import HOOKED, PLUGIN_SOCKET, docker_contestants, hooked
from bench.docker_measure import MEGABYTE, DockerBench
from bench.docker_pods import life_samples, remove_cgroups
from bench.docker_report import DockerResults, docker_page, docker_tables
from bench.docker_workloads import (
    CONTAINERS,
    DOCKERD,
    FAKE_DOCKER,
    MEGABYTES,
    bulk_workloads,
    life_workloads,
    request_workloads,
)
from bench.run import machine, say
from tests.support.lab.docker.dockerd import Dockerd
from tests.support.lab.images import TEST_IMAGE, ImageSpec, archive
from tests.support.lab.load import h2load
from tests.support.lab.processes import Child, LabError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import TypeAlias

    from bench.contestants import Contestant
    from bench.measure import Sample
    from bench.workloads import Workload

    # By contestant and backend: where to call, and the process in the middle.
    Sockets: TypeAlias = Mapping[tuple[str, str], tuple[Path, Child | None]]

ROUNDS = 5
QUICK = 0.1
BIG_IMAGE = "localhost/big:latest"
# Who gets calls that are intercepted; before a fake dockerd stands nobody else.
ASKED = (DIRECT, OURS, HOOKED)
# Runs `cat` all the time; streams are attached to it.
STREAMING = "streaming"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run measures."""

    people: Sequence[Contestant]
    requests: Sequence[Workload]
    bulk: Sequence[Workload]
    lives: Sequence[Workload]


def choose(only: str, scale: float, before: Path | None = None) -> Plan:
    """What --only leaves: contestants and workloads by name; naming none of a kind leaves all of it."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    people = (*docker_contestants(before), hooked())
    requests, bulk = request_workloads(scale), bulk_workloads(scale)
    lives = (*life_workloads(FAKE_DOCKER, scale), *life_workloads(DOCKERD, scale))
    loads = {load.name for load in (*requests, *bulk)} | {"lives"}
    known = {one.name for one in people} | loads
    if unknown := names - known:
        raise SystemExit(f"--only: unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}")
    everything = not names & loads
    return Plan(
        people=[one for one in people if one.name in names] or people,
        requests=[one for one in requests if everything or one.name in names],
        bulk=[one for one in bulk if everything or one.name in names],
        lives=lives if everything or "lives" in names else (),
    )


def big_archive(megabytes: int) -> bytes:
    """An image with one layer of this size that nothing can compress; the same in every run."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        entry = tarfile.TarInfo("big")
        entry.size = megabytes * MEGABYTE
        tar.addfile(entry, io.BytesIO(random.Random(megabytes).randbytes(entry.size)))
    return archive(ImageSpec(reference=BIG_IMAGE, command=["/big"]), layer.getvalue())


def prepare(dockerd: Dockerd, folder: Path, big: bytes) -> None:
    """Images, containers to list, and one that runs."""
    dockerd.add_images()
    path = folder / "big.tar"
    path.write_bytes(big)
    dockerd.docker("load", "-i", str(path))
    path.unlink()
    options = ("--network", "host", "--label", "app=bench")
    for number in range(CONTAINERS - 1):
        dockerd.docker("create", *options, "--name", f"listed-{number}", TEST_IMAGE)
    dockerd.docker("run", "-di", *options, "--log-driver", "none", "--name", STREAMING, TEST_IMAGE, "cat")


@contextlib.contextmanager
def hook_server(folder: Path) -> Iterator[None]:
    """A hook server that repeats what it was asked, inside the block."""
    argv = [sys.executable, "-m", "interpose.testing.hookserver", str(folder / PLUGIN_SOCKET), "--echo"]
    with Child(argv, log=folder / "plugin.log", env=CACHED_BYTECODE) as child:
        child.wait_listening(folder / PLUGIN_SOCKET)
        yield


def fake_dockerd(folder: Path, path: Path) -> Child:
    """A fake dockerd in a process of its own: its calls take less than a millisecond, and always the same."""
    argv = [sys.executable, "-m", "tests.support.docker.fake", str(path)]
    child = Child(argv, log=folder / f"{path.name}.log", env=CACHED_BYTECODE)
    child.wait_listening(path)
    return child


def before(
    contestant: Contestant, folder: Path, backend: Path, stack: contextlib.ExitStack
) -> tuple[Path, Child | None]:
    """Where to call a backend through this one, and its process, which lives as long as the stack."""
    if contestant.start is None:
        return backend, None
    listen = folder / f"{contestant.name}-{backend.stem}.sock"
    return listen, stack.enter_context(contestant.start(folder, listen, backend))


def rounds(bench: DockerBench, plan: Plan, sockets: Sockets, count: int) -> Iterator[Sample]:
    """All samples of all rounds: everybody has every load once per round."""
    passing = [one for one in plan.people if one.name != HOOKED]
    for round_ in range(count):
        turn = round_ % max(len(passing), 1)
        for load in (*plan.requests, *plan.bulk):
            measure = bench.bulk if load in plan.bulk else bench.requests
            for contestant in (*passing[turn:], *passing[:turn]):
                path, child = sockets[contestant.name, DOCKERD]
                yield measure(contestant, child, path, load, round_)
        for backend in (FAKE_DOCKER, DOCKERD):
            lives = [load for load in plan.lives if load.backend == backend]
            asked = {name: found for (name, behind), found in sockets.items() if behind == backend and name in ASKED}
            if lives and asked:
                yield from life_samples(lives, asked, TEST_IMAGE, round_)


def run(args: argparse.Namespace, folder: Path) -> DockerResults:
    scale = QUICK if args.quick else 1.0
    plan = choose(args.only, scale, args.before)
    for contestant in plan.people:
        if reason := contestant.missing():
            raise LabError(f"{contestant.name}: {reason}")
    say("starting everyone")
    big = big_archive(max(int(MEGABYTES * scale), 1))
    bench = DockerBench(folder, archive=big, image=BIG_IMAGE, container=STREAMING)
    samples = []
    with contextlib.ExitStack() as stack:
        stack.callback(remove_cgroups)
        dockerd = stack.enter_context(Dockerd(folder / "d"))
        prepare(dockerd, folder, big)
        stack.enter_context(hook_server(folder))
        sockets = {
            (contestant.name, DOCKERD): before(contestant, folder, dockerd.socket, stack) for contestant in plan.people
        }
        for contestant in plan.people if plan.lives else ():
            if contestant.name in ASKED:
                # One for each: a relay follows what happens in its dockerd, also what others do there.
                fake = folder / f"{contestant.name}-fake.sock"
                stack.enter_context(fake_dockerd(folder, fake))
                sockets[contestant.name, FAKE_DOCKER] = before(contestant, folder, fake, stack)
        for sample in rounds(bench, plan, sockets, args.rounds):
            samples.append(sample)
            tell(sample, args.rounds)
    return DockerResults(
        machine=machine(),
        rounds=args.rounds,
        scale=scale,
        contestants=plan.people,
        requests=plan.requests,
        bulk=plan.bulk,
        lives=plan.lives,
        samples=samples,
    )


def tell(sample: Sample, count: int) -> None:
    cpu = "" if sample.cpu is None else f", {sample.cpu:.1f} us CPU"
    size = "" if sample.rss is None else f", {sample.rss / 1e6:.1f} MB"
    say(
        f"round {sample.round + 1}/{count}  {sample.workload:<16} {sample.contestant:<10} "
        f"{sample.rate:>8.0f} a second, p50 {sample.p50:.0f} us{cpu}{size}"
    )


def options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/docker.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"interleaved rounds (default {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls and bytes, for a quick look")
    parser.add_argument("--only", default="", help="comma separated: workloads, 'lives', contestants")
    parser.add_argument(
        "--before", type=Path, help="the program `interpose` of another version, measured beside this one"
    )
    parser.add_argument("--json", type=Path, help="write all samples to this file")
    parser.add_argument("--output", type=Path, help="write the section to this page (markdown)")
    return parser.parse_args(argv)


def main(argv: Sequence[str]) -> int:
    args = options(argv)
    return measure(args, run, docker_tables, docker_page, missing=Dockerd.missing() or h2load.missing())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
