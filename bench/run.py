"""Benchmarks of the relay against no proxy, socat, HAProxy and grpc.aio, and of what hooks add, in one run.

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
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

# Started as a script: the modules beside it are found from the project's folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.contestants import BEFORE, BUILDS, COMPILED, COMPILED_PROGRAM, OURS, YARDSTICK, Contestant, contestants
from bench.hooks import (
    FEW_PODS,
    KOORD_SWITCH,
    MANY_PODS,
    NO_PLUGIN,
    ONE_PLUGIN,
    RUNS,
    Variant,
    footprint,
    hook_servers,
    koord_program,
    longest_turn,
    podload,
    runtime,
    samples,
    variants,
)
from bench.hooks_report import HookResults, hook_page, hook_tables
from bench.measure import Bench, Footprint, Sample
from bench.report import Results, as_text, page, tables
from bench.targets import LATE_CALLS
from bench.workloads import CHANGING, CONTAINERD, FAKE, NGINX, RUN_PODS, Workload, hook_workloads, workloads
from tests.support.lab.containerd import Containerd
from tests.support.lab.load import h2load, nginx
from tests.support.lab.processes import LabError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import TypeAlias

    from tests.support.lab.processes import Child

    # By contestant and backend: where to call, and the process in the middle.
    Sockets: TypeAlias = dict[tuple[str, str], tuple[Path, Child | None]]
    # Measures one workload in one round.
    Visit: TypeAlias = Callable[[int], Iterable[Sample]]

QUICK = 0.1
FOOTPRINT, HOOKS, HOOKS_FOOTPRINT, HOOKS_TURNS = "footprint", "hooks", "hooks-footprint", "hooks-turns"


def options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/run.py", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5, help="interleaved rounds (default 5)")
    parser.add_argument("--quick", action="store_true", help="a tenth of the calls, for a quick look")
    parser.add_argument("--only", default="", help="comma separated: workloads, contestants, 'footprint' or 'hooks'")
    parser.add_argument(
        "--before", type=Path, help="the program `interpose` of another version, measured beside this one"
    )
    parser.add_argument("--json", type=Path, help="write all samples to this file")
    parser.add_argument("--output", type=Path, help="write the page (markdown) to this file")
    return parser.parse_args(argv)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run measures."""

    people: Sequence[Contestant]
    loads: Sequence[Workload]
    footprint: bool
    hook_loads: Sequence[Workload]
    hook_footprint: bool
    hook_turns: bool

    @property
    def hooks(self) -> bool:
        return bool(self.hook_loads) or self.hook_footprint or self.hook_turns


def choose(only: str, people: Sequence[Contestant], loads: Sequence[Workload], hook_loads: Sequence[Workload]) -> Plan:
    """What --only leaves; naming only contestants leaves all the work that contestants do."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    named_people = {c.name for c in people}
    known = named_people | {w.name for w in (*loads, *hook_loads)} | {FOOTPRINT, HOOKS, HOOKS_FOOTPRINT, HOOKS_TURNS}
    if unknown := names - known:
        raise SystemExit(f"--only: unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}")
    everything = not names - named_people
    all_hooks = not names or HOOKS in names
    return Plan(
        people=[c for c in people if c.name in names] or list(people),
        loads=[w for w in loads if everything or w.name in names],
        footprint=everything or FOOTPRINT in names,
        hook_loads=[w for w in hook_loads if all_hooks or w.name in names],
        hook_footprint=all_hooks or HOOKS_FOOTPRINT in names,
        hook_turns=all_hooks or HOOKS_TURNS in names,
    )


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def rounds(visits: Sequence[Visit], count: int) -> list[Sample]:
    """All samples of all rounds: every visit once per round."""
    found = []
    for round_ in range(count):
        for visit in visits:
            for sample in visit(round_):
                found.append(sample)
                cpu = "" if sample.cpu is None else f", {sample.cpu:.1f} us CPU per call"
                say(
                    f"round {round_ + 1}/{count}  {sample.workload:<16} {sample.contestant:<13} "
                    f"{sample.rate:>8.0f} req/s, p50 {sample.p50:.0f} us{cpu}"
                )
    return found


def one_by_one(bench: Bench, people: Sequence[Contestant], load: Workload, sockets: Sockets) -> Visit:
    """Everybody gets the load once per round, in an order that rotates with the rounds."""

    def visit(round_: int) -> Iterator[Sample]:
        turn = round_ % len(people)
        for contestant in (*people[turn:], *people[:turn]):
            path, child = sockets[contestant.name, load.backend]
            yield bench.sample(contestant, child, path, load, round_)

    return visit


def in_turns(people: Sequence[Contestant], load: Workload, sockets: Sockets) -> Visit:
    """One client visits all relays in short turns."""
    relays = {
        one.name: (path, child)
        for one in people
        for path, child in (sockets[one.name, load.backend],)
        if child is not None
    }
    return lambda round_: samples(load, relays, round_)


def entrants(load: Workload, people: Sequence[Variant]) -> list[Variant]:
    """Which relays with hooks get a load: for calls that no hook is about, one with and one without say all."""
    return [one for one in people if load.client == RUN_PODS or one.name in (NO_PLUGIN, ONE_PLUGIN)]


def footprints(
    bench: Bench, people: Sequence[Contestant], folder: Path, backend: Path, scale: float
) -> list[Footprint]:
    """Fresh processes of the yardstick and of us; the others have no target to meet."""
    found = []
    for contestant in people:
        if contestant.name in (YARDSTICK, *BUILDS, BEFORE):
            say(f"footprint    {contestant.name}: several starts, then {int(LATE_CALLS * scale)} calls")
            listen = folder / f"f-{contestant.name}.sock"
            found.append(bench.footprint(contestant, folder, listen, backend, starts=5, scale=scale))
    return found


def interpreters() -> tuple[tuple[str, Path], ...]:
    """The interpreter of each build of the relay."""
    return (OURS, Path(sys.executable)), (COMPILED, COMPILED_PROGRAM.with_name("python"))


def machine() -> str:
    return (
        f"{os.cpu_count()} cores ({platform.machine()}), Linux {platform.release()}, Python {platform.python_version()}"
    )


def run(args: argparse.Namespace, folder: Path) -> tuple[Results, HookResults]:
    scale = QUICK if args.quick else 1.0
    plan = choose(args.only, contestants(args.before), workloads(scale), hook_workloads(scale))
    if plan.hooks and koord_program() is None:
        say(f"skipped: koord-runtime-proxy; {KOORD_SWITCH} names its binary")
    relays = variants(args.before, koord_program())
    for contestant in (*plan.people, *(relays if plan.hooks else ())):
        if reason := contestant.missing():
            raise LabError(f"{contestant.name}: {reason}")
    changing = max((load.calls + load.warm_up for load in plan.loads if load.client == CHANGING), default=0)
    say("building requests and starting everyone")
    bench = Bench(folder, max(changing, int(20_000 * scale)) if plan.footprint else changing)
    with contextlib.ExitStack() as stack:
        backends = {CONTAINERD: stack.enter_context(Containerd(folder / "c")).socket}
        wanted = {load.backend for load in (*plan.loads, *plan.hook_loads)}
        if NGINX in wanted:
            backends[NGINX] = folder / "n.sock"
            stack.enter_context(nginx.start(folder / "n", backends[NGINX]))
        if FAKE in wanted:
            backends[FAKE] = folder / "fake.sock"
            stack.enter_context(runtime(folder, backends[FAKE]))
            podload("fill", {backends[FAKE]: None}, calls=MANY_PODS - FEW_PODS)
        if plan.hooks:
            stack.enter_context(hook_servers(folder))
        pairs = {(one, load.backend) for load in plan.loads for one in plan.people}
        pairs |= {(one, load.backend) for load in plan.hook_loads for one in entrants(load, relays)}
        sockets: Sockets = {}
        for number, (contestant, backend) in enumerate(sorted(pairs, key=lambda pair: (pair[0].name, pair[1]))):
            if contestant.start is None:
                sockets[contestant.name, backend] = (backends[backend], None)
                continue
            listen = folder / f"{contestant.name}-{number}.sock"
            child = stack.enter_context(contestant.start(folder, listen, backends[backend]))
            sockets[contestant.name, backend] = (listen, child)
        visits = [one_by_one(bench, plan.people, load, sockets) for load in plan.loads]
        visits += [
            in_turns(entrants(load, relays), load, sockets)
            if load.backend == FAKE
            else one_by_one(bench, entrants(load, relays), load, sockets)
            for load in plan.hook_loads
        ]
        found = rounds(visits, args.rounds)
        prints = footprints(bench, plan.people, folder, backends[CONTAINERD], scale) if plan.footprint else []
        weight = None
        if plan.hook_footprint:
            say(f"footprint    {ONE_PLUGIN}: {int(RUNS * scale)} pods")
            weight = footprint(folder, scale)
        turns = {}
        for build, interpreter in interpreters() if plan.hook_turns else ():
            say(f"longest turn {build}")
            turns[build] = longest_turn(folder, interpreter, scale)
    of_hooks = {load.name for load in plan.hook_loads}
    return (
        Results(
            machine=machine(),
            rounds=args.rounds,
            scale=scale,
            contestants=plan.people,
            workloads=plan.loads,
            samples=[sample for sample in found if sample.workload not in of_hooks],
            footprints=prints,
        ),
        HookResults(
            machine=machine(),
            rounds=args.rounds,
            scale=scale,
            variants=relays,
            workloads=plan.hook_loads,
            samples=[sample for sample in found if sample.workload in of_hooks],
            footprint=weight,
            turns=turns,
        ),
    )


def main(argv: Sequence[str]) -> int:
    args = options(argv)
    if reason := Containerd.missing() or nginx.missing() or h2load.missing():
        say(f"the benchmarks can not run here: {reason}")
        return 1
    folder = Path(tempfile.mkdtemp(prefix="interpose-bench-"))
    try:
        results, hooks = run(args, folder)
    except LabError as error:
        say(f"the benchmark stopped: {error}")
        return 1
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{results.machine}; {results.rounds} rounds; only ratios mean something\n")
    shown = tables(results) if results.samples or results.footprints else []
    hooked = bool(hooks.samples or hooks.turns) or hooks.footprint is not None
    shown += hook_tables(hooks) if hooked else []
    print("\n\n".join(as_text(table) for table in shown))
    if args.json:
        document = {"machine": results.machine, "rounds": results.rounds, "scale": results.scale}
        document["samples"] = [dataclasses.asdict(sample) for sample in (*results.samples, *hooks.samples)]
        document["footprints"] = [dataclasses.asdict(footprint) for footprint in results.footprints]
        document["hook_footprint"] = dataclasses.asdict(hooks.footprint) if hooks.footprint is not None else None
        document["longest_turns"] = hooks.turns
        args.json.write_text(json.dumps(document, indent=1) + "\n")
    if args.output:
        args.output.write_text("\n".join([page(results), *([hook_page(hooks)] if hooked else [])]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
