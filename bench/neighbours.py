"""What a hostile client does to its neighbour: our relay and others side by side, one attack after the other.

For each attack every proxy is started afresh in front of a backend of its own; a neighbour makes 200 calls a second,
the attack begins, and when it is over the neighbour says what it saw. Progress goes to stderr, tables to stdout.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

# Started as a script: the modules beside it are found from the project's folder.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.concluding import measure
from bench.contestants import OURS, YARDSTICK, Contestant, contestants
from bench.neighbours_report import NOTHING, NeighbourResults, NeighbourSample, page, tables
from bench.run import machine, say
from interpose.cli.common.admin_client import AdminConnection
from interpose.config.endpoint import UnixListen
from tests.support.hostile.attackrun import AttackOutcome
from tests.support.hostile.attacks import ATTACKS, AttackRow
from tests.support.hostile.trial import RATE, attack, backend, neighbour
from tests.support.lab.load import haproxy
from tests.support.lab.load.peak_memory import PeakMemory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

# The neighbour alone, behind the attack.
AFTER = 0.5
LAG = "interpose_loop_lag_seconds_bucket"


def options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/neighbours.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=1, help="how often each attack is run (default 1)")
    parser.add_argument("--seconds", type=float, default=4.0, help="how long an attack lasts (default 4)")
    parser.add_argument(
        "--connections",
        default="1,4,4p",
        help="comma separated: from how many connections; with p each in a process of its own (default 1,4,4p)",
    )
    parser.add_argument("--quick", action="store_true", help="2 seconds from 4 connections, for a quick look")
    parser.add_argument("--only", default="", help="comma separated: attacks, groups of them, or proxies")
    parser.add_argument("--json", type=Path, help="write all samples to this file")
    parser.add_argument("--output", type=Path, help="write the section (markdown) into this page")
    args = parser.parse_args(argv)
    if args.quick:
        args.seconds, args.connections = 2.0, "4"
    return args


def choose(only: str, people: Sequence[Contestant]) -> tuple[list[Contestant], list[AttackRow | None]]:
    """Which proxies and attacks --only leaves; None is no attack, which is always measured."""
    names = {name.strip() for name in only.split(",") if name.strip()}
    known = {one.name for one in people} | {row.name for row in ATTACKS} | {row.group for row in ATTACKS}
    if unknown := names - known:
        raise SystemExit(f"--only: unknown {', '.join(sorted(unknown))}; known are {', '.join(sorted(known))}")
    rows = [row for row in ATTACKS if row.name in names or row.group in names] or list(ATTACKS)
    return [one for one in people if one.name in names] or list(people), [None, *rows]


def lag_buckets(admin: Path) -> dict[float, int]:
    """How often our loop was late by at most so much, since it began."""
    connection = AdminConnection(UnixListen(str(admin)))
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    lines = [line.rpartition(" ") for line in text.splitlines() if line.startswith(LAG)]
    return {float(head.split('"')[1]): int(float(value)) for head, _, value in lines}


def longest_lag(before: dict[float, int], after: dict[float, int]) -> float:
    """The bound of the highest bucket that something was added to."""
    late = [(bound, after[bound] - before.get(bound, 0)) for bound in sorted(after)]
    total = late[-1][1]
    return next((bound for bound, count in late if count == total), float("inf"))


def sample(
    contestant: Contestant, row: AttackRow | None, connections: str, seconds: float, round_: int, folder: Path
) -> NeighbourSample:
    """One attack on a proxy that was started for it."""
    folder.mkdir(parents=True)
    listen = folder / "p.sock"
    admin = listen.with_name(f"{listen.name}.admin")
    assert contestant.start is not None
    with backend(folder) as runtime, contestant.start(folder, listen, runtime) as proxy:
        outcome = AttackOutcome()
        with PeakMemory(proxy) as peak, neighbour(listen, fresh=row is not None and row.about_connections) as beside:
            lag = lag_buckets(admin) if contestant.name == OURS else {}
            if row is None:
                time.sleep(seconds)
            else:
                count = int(connections.rstrip("p"))
                each, processes = (1, count) if connections.endswith("p") else (count, 1)
                outcome = attack(listen, row, connections=each, seconds=seconds, processes=processes)
            time.sleep(AFTER)
        longest = longest_lag(lag, lag_buckets(admin)) if contestant.name == OURS else None
        if not proxy.running:
            raise proxy.error("ended under the attack")
    seen = beside.account
    assert seen is not None
    return NeighbourSample(
        contestant=contestant.name,
        attack=NOTHING if row is None else row.name,
        connections=connections,
        round=round_,
        calls=len(seen.durations) + seen.failed,
        failed=seen.failed,
        worst=seen.worst,
        p99=seen.percentile(0.99),
        rss=peak.bytes,
        lag=longest,
        cut=outcome.cut,
        attackers=outcome.connections,
        sent=outcome.sent,
    )


def run(args: argparse.Namespace, folder: Path) -> NeighbourResults:
    known = [one for one in contestants() if one.name in (YARDSTICK, OURS)]
    people, rows = choose(args.only, known)
    counts = [text.strip() for text in args.connections.split(",")]

    def visits() -> Iterable[tuple[int, AttackRow | None, str, Contestant]]:
        for round_ in range(args.rounds):
            for row in rows:
                for count in counts if row is not None else counts[:1]:
                    for contestant in people:
                        yield round_, row, count, contestant

    def samples() -> Iterator[NeighbourSample]:
        for number, (round_, row, count, contestant) in enumerate(visits()):
            one = sample(contestant, row, count, args.seconds, round_, folder / str(number))
            lag = "" if one.lag is None else f", lag <= {one.lag * 1e3:g} ms"
            say(
                f"{one.attack:<34} x{one.connections} {one.contestant:<10} worst {one.worst * 1e3:>8.1f} ms, "
                f"p99 {one.p99 * 1e3:>7.1f} ms, {one.failed:>4} of {one.calls} failed, {one.rss / 1e6:>6.1f} MB{lag}, "
                f"{one.cut} of {one.attackers} cut, {one.sent / 1e6:.1f} MB sent"
            )
            yield one

    return NeighbourResults(
        machine=machine(),
        rounds=args.rounds,
        scale=1.0,
        seconds=args.seconds,
        rate=RATE,
        contestants=people,
        samples=list(samples()),
    )


def main(argv: Sequence[str]) -> int:
    return measure(options(argv), run, tables, page, missing=haproxy.missing())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
