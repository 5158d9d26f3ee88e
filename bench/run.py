"""Benchmarks of the relay against no proxy, socat, HAProxy and grpc.aio, interleaved in one run.

Each round visits every workload, and for each workload every contestant, in an order that rotates with the rounds: a
noisy machine then hits all of them alike. Progress goes to stderr, tables to stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

# Started as a script: the modules beside it are found from the project's folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contestants import OURS, YARDSTICK, Contestant, contestants
from bench.measure import Bench, Footprint, Sample
from bench.report import Results, as_text, page, tables
from bench.targets import LATE_CALLS
from bench.workloads import CHANGING, NGINX, Workload, workloads
from interpose.testing.lab import h2load, nginx
from interpose.testing.lab.containerd import Containerd
from interpose.testing.lab.processes import LabError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interpose.testing.lab.processes import Child

QUICK = 0.1


def options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls, for a quick look")
    parser.add_argument("--only", default="", help="comma separated: workloads, contestants or 'footprint'")
    parser.add_argument("--json", type=Path, help="write all samples to this file")
    parser.add_argument("--output", type=Path, help="write the page (markdown) to this file")
    return parser.parse_args(argv)


def choose(
    only: str, people: Sequence[Contestant], loads: Sequence[Workload]
) -> tuple[Sequence[Contestant], Sequence[Workload], bool]:
    """What --only leaves: contestants, workloads, footprint or not; naming only contestants leaves all the work."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    known = {c.name for c in people} | {w.name for w in loads} | {"footprint"}
    if unknown := names - known:
        raise SystemExit(f"--only: unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}")
    chosen_people = [c for c in people if c.name in names] or list(people)
    chosen_loads = [w for w in loads if w.name in names]
    if not names - {c.name for c in people}:
        return chosen_people, loads, True
    return chosen_people, chosen_loads, "footprint" in names


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rounds(
    bench: Bench,
    people: Sequence[Contestant],
    loads: Sequence[Workload],
    sockets: dict[tuple[str, str], tuple[Path, Child | None]],
    count: int,
) -> list[Sample]:
    """All samples of all rounds."""
    samples = []
    for round_ in range(count):
        for load in loads:
            turn = round_ % len(people)
            for contestant in (*people[turn:], *people[:turn]):
                path, child = sockets[contestant.name, load.backend]
                sample = bench.sample(contestant, child, path, load, round_)
                samples.append(sample)
                cpu = "" if sample.cpu is None else f", {sample.cpu:.1f} us CPU per call"
                say(
                    f"round {round_ + 1}/{count}  {load.name:<12} {contestant.name:<10} "
                    f"{sample.rate:>8.0f} req/s, p50 {sample.p50:.0f} us{cpu}"
                )
    return samples


def footprints(
    bench: Bench, people: Sequence[Contestant], folder: Path, backend: Path, scale: float
) -> list[Footprint]:
    """Fresh processes of the yardstick and of us; the others have no target to meet."""
    found = []
    for contestant in people:
        if contestant.name in (YARDSTICK, OURS):
            say(f"footprint    {contestant.name}: several starts, then {int(LATE_CALLS * scale)} calls")
            listen = folder / f"f-{contestant.name}.sock"
            found.append(bench.footprint(contestant, folder, listen, backend, starts=5, scale=scale))
    return found


def machine() -> str:
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), Linux {platform.release()}, Python {platform.python_version()}"
    )


def run(args: argparse.Namespace, folder: Path) -> Results:
    scale = QUICK if args.quick else 1.0
    people, loads, with_footprint = choose(args.only, contestants(), workloads(scale))
    for contestant in people:
        if reason := contestant.missing():
            raise LabError(f"{contestant.name}: {reason}")
    changing = max((load.calls + load.warm_up for load in loads if load.client == CHANGING), default=0)
    say("building requests and starting everyone")
    bench = Bench(folder, max(changing, int(20_000 * scale)) if with_footprint else changing)
    with contextlib.ExitStack() as stack:
        runtime = stack.enter_context(Containerd(folder / "c")).socket
        backends = {"containerd": runtime}
        if any(load.backend == NGINX for load in loads):
            backends[NGINX] = folder / "n.sock"
            stack.enter_context(nginx.start(folder / "n", backends[NGINX]))
        sockets: dict[tuple[str, str], tuple[Path, Child | None]] = {}
        for backend in {load.backend for load in loads}:
            for contestant in people:
                if contestant.start is None:
                    sockets[contestant.name, backend] = (backends[backend], None)
                    continue
                listen = folder / f"{contestant.name}-{backend}.sock"
                child = stack.enter_context(contestant.start(folder, listen, backends[backend]))
                sockets[contestant.name, backend] = (listen, child)
        samples = rounds(bench, people, loads, sockets, args.rounds)
        prints = footprints(bench, people, folder, runtime, scale) if with_footprint else []
    return Results(
        machine=machine(),
        rounds=args.rounds,
        scale=scale,
        contestants=people,
        workloads=loads,
        samples=samples,
        footprints=prints,
    )


def main(argv: Sequence[str]) -> int:
    args = options(argv)
    if reason := Containerd.missing() or nginx.missing() or h2load.missing():
        say(f"the benchmarks can not run here: {reason}")
        return 1
    folder = Path(tempfile.mkdtemp(prefix="interpose-bench-"))
    try:
        results = run(args, folder)
    except LabError as error:
        say(f"the benchmark stopped: {error}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{results.machine}; {results.rounds} rounds; only ratios mean something\n")
    print("\n\n".join(as_text(table) for table in tables(results)))
    if args.json:
        document = {"machine": results.machine, "rounds": results.rounds, "scale": results.scale}
        document["samples"] = [dataclasses.asdict(sample) for sample in results.samples]
        document["footprints"] = [dataclasses.asdict(footprint) for footprint in results.footprints]
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    if args.output:
        args.output.write_text(page(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
