"""What dumps and recordings cost: relays that differ in nothing else, side by side in one run.

Each round visits every load, and for each load every relay, in an order that rotates with the rounds. A relay's turn is
over when whoever reads its dump is done. Progress goes to stderr, tables to stdout. With --before a checkout of an
earlier version runs beside them.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

# Started as a script: the modules beside it are found from the project's folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.concluding import measure
from bench.dump_modes import Mode, modes, relay
from bench.dump_report import DumpResults, DumpSample, dump_page, dump_tables
from bench.hooks import FEW_PODS, MANY_PODS, podload, runtime
from bench.run import machine, say
from bench.workloads import CONTAINERD, FAKE, H2LOAD, LISTS, Workload
from tests.support.lab.containerd import Containerd
from tests.support.lab.load import h2load

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.dump_modes import Relay

Named = TypeVar("Named", Mode, Workload)

ROUNDS = 4
QUICK = 0.1
# Calls a second; a kubelet with 110 pods makes some ten, most of them small, and one or two lists.
RATE, LIST_RATE = 500, 20
# By workload: calls a second.
PACES = {"dump-paced": RATE, "dump-list-paced": LIST_RATE}


def loads(scale: float = 1.0) -> tuple[Workload, ...]:
    """As fast as they can."""
    rows = (
        ("dump-version-16", "Version with dumps, 16 streams", CONTAINERD, H2LOAD, 16, 6000),
        ("dump-version-1", "Version with dumps, 1 stream", CONTAINERD, H2LOAD, 1, 2500),
        ("dump-list", "ListContainers of 110 with dumps, 1 stream", FAKE, LISTS, 1, 300),
    )
    return tuple(_workload(*row, scale) for row in rows)


def paced_loads(scale: float = 1.0) -> tuple[Workload, ...]:
    """At a fixed rate."""
    rows = (
        ("dump-paced", f"Version, {RATE} calls a second", CONTAINERD, H2LOAD, 16, 750),
        ("dump-list-paced", f"ListContainers of 110, {LIST_RATE} calls a second", FAKE, LISTS, 1, 25),
    )
    return tuple(_workload(*row, scale) for row in rows)


def _workload(name: str, title: str, backend: str, client: str, streams: int, calls: int, scale: float) -> Workload:
    return Workload(
        name=name, title=title, backend=backend, client=client, streams=streams, calls=max(int(calls * scale), 10)
    )


def sample(relay: Relay, load: Workload, folder: Path, round_: int) -> DumpSample:
    """Warm up in the first round, run, wait for the reader, and divide what both have cost by the calls."""
    pace = PACES.get(load.name, 0)
    if round_ == 0:
        _run(relay, load, folder, load.warm_up, 0)
        relay.settle()
    before = relay.counts()
    cpu, reader = relay.cpu()
    durations, rate = _run(relay, load, folder, load.calls, pace)
    relay.settle()
    cpu_after, reader_after = relay.cpu()
    after = relay.counts()
    if after.queue_bytes:
        raise relay.child.error(f"{after.queue_bytes} bytes still wait for its reader")
    rss, reader_rss = relay.rss()
    cuts = statistics.quantiles(durations, n=100, method="inclusive")
    return DumpSample(
        contestant=relay.mode.name,
        workload=load.name,
        round=round_,
        rate=rate,
        p50=cuts[49],
        p99=cuts[98],
        cpu=(cpu_after - cpu) / load.calls * 1e6,
        rss=rss,
        reader_cpu=(reader_after - reader) / load.calls * 1e6,
        reader_rss=reader_rss,
        frames=after.frames - before.frames,
        frames_dropped=after.frames_dropped - before.frames_dropped,
        bodies_dropped=after.bodies_dropped - before.bodies_dropped,
    )


def _run(relay: Relay, load: Workload, folder: Path, calls: int, pace: int) -> tuple[Sequence[float], float]:
    """How long each call took, in microseconds, and calls a second."""
    if load.client == H2LOAD:
        options = (f"--rps={pace}",) if pace else ()
        timing = h2load.run(folder, relay.listen, count=calls, streams=min(load.streams, calls), options=options)
        return timing.durations, timing.rate
    found = podload(load.client, {relay.listen: None}, calls=calls, pause=1 / pace if pace else 0.0)
    durations: list[float] = found[str(relay.listen)]["durations"]
    return durations, len(durations) / sum(durations) * 1e6


def rounds(
    relays: Mapping[tuple[str, str], Relay], people: Sequence[Mode], works: Sequence[Workload], folder: Path, count: int
) -> Iterator[DumpSample]:
    """All samples: every relay has every load once per round."""
    for round_ in range(count):
        turn = round_ % len(people)
        for load in works:
            for mode in (*people[turn:], *people[:turn]):
                one = sample(relays[mode.name, load.backend], load, folder, round_)
                say(
                    f"round {round_ + 1}/{count}  {load.name:<16} {mode.name:<9} {one.rate:>7.0f} req/s, p50 "
                    f"{one.p50:.0f} us, {one.cpu:.0f} + {one.reader_cpu:.0f} us CPU per call, {one.dropped} dropped"
                )
                yield one


def chosen(all_of_them: Sequence[Named], only: str) -> Sequence[Named]:
    """Those that --only names; all if it names none of them."""
    names = {name.strip() for name in only.split(",")}
    return [one for one in all_of_them if one.name in names] or all_of_them


def run(args: argparse.Namespace, folder: Path) -> DumpResults:
    scale = QUICK if args.quick else 1.0
    people = chosen(modes(args.before), args.only)
    works, paced = chosen(loads(scale), args.only), chosen(paced_loads(scale), args.only)
    say("starting everyone")
    with contextlib.ExitStack() as stack:
        backends = {
            CONTAINERD: stack.enter_context(Containerd(folder / "c")).socket,
            FAKE: folder / "fake.sock",
        }
        stack.enter_context(runtime(folder, backends[FAKE]))
        podload("fill", {backends[FAKE]: None}, calls=MANY_PODS - FEW_PODS)
        relays = {
            (mode.name, backend): stack.enter_context(relay(mode, folder, folder / f"{mode.name}-{number}.sock", path))
            for mode in people
            for number, (backend, path) in enumerate(backends.items())
        }
        samples = list(rounds(relays, people, (*works, *paced), folder, args.rounds))
    return DumpResults(
        machine=machine(),
        rounds=args.rounds,
        scale=scale,
        modes=people,
        workloads=works,
        paced=paced,
        samples=samples,
    )


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/dump.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=ROUNDS, help=f"interleaved rounds (default {ROUNDS})")
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls, for a quick look")
    parser.add_argument("--before", type=Path, metavar="DIR", help="checkout of an earlier version, to compare with")
    parser.add_argument("--only", default="", help="comma separated: loads and ways to dump")
    parser.add_argument("--json", type=Path, help="write all samples to this file")
    parser.add_argument("--output", type=Path, help="write the section to this page (markdown)")
    args = parser.parse_args(argv)
    return measure(args, run, dump_tables, dump_page, missing=Containerd.missing() or h2load.missing())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
