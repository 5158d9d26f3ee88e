"""What neighbours of attacks saw, in words: our relay beside the others, and whether it met its goal; pure, no IO."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.contestants import OURS, YARDSTICK
from bench.report import Row, Table, as_markdown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.contestants import Contestant

NOTHING = "no attack"
# A neighbour's worst call may be as long as beside the yardstick; below this nobody notices.
TOLERATED = 0.1
# What a relay under attack may have in memory.
RSS_BOUND = 150e6


@dataclass(frozen=True, kw_only=True)
class NeighbourSample:
    """One attack on one proxy. Times in seconds; `lag` is what our relay says about its loop, None for others."""

    contestant: str
    attack: str
    connections: str
    round: int
    calls: int
    failed: int
    worst: float
    p99: float
    rss: int
    lag: float | None
    cut: int
    attackers: int
    sent: int


@dataclass(frozen=True, kw_only=True)
class NeighbourResults:
    """All that a run measured."""

    machine: str
    rounds: int
    scale: float
    seconds: float
    rate: int
    contestants: Sequence[Contestant]
    samples: Sequence[NeighbourSample]


def cases(results: NeighbourResults) -> list[tuple[str, str]]:
    """Attacks with the number of their connections, in the order in which they were run."""
    return list(dict.fromkeys((one.attack, one.connections) for one in results.samples))


def of(results: NeighbourResults, contestant: str, case: tuple[str, str]) -> list[NeighbourSample]:
    """What one proxy did in one case, over the rounds."""
    return [one for one in results.samples if one.contestant == contestant and (one.attack, one.connections) == case]


def verdict(results: NeighbourResults, case: tuple[str, str]) -> str:
    """Whether our relay met its goal in this case, or what it missed."""
    ours, theirs = of(results, OURS, case), of(results, YARDSTICK, case)
    if not ours:
        return "-"
    missed = []
    allowed = max([TOLERATED, *(one.worst for one in theirs)])
    if statistics.median(one.worst for one in ours) > allowed:
        missed.append("waits")
    if any(one.failed for one in ours):
        missed.append("fails")
    if max(one.rss for one in ours) > RSS_BOUND:
        missed.append("memory")
    return ", ".join(missed) or "met"


def tables(results: NeighbourResults) -> list[Table]:
    """One row for each case: the worst call and the failed ones beside each proxy, then what it did to ours."""
    rows: list[Row] = []
    for case in cases(results):
        cells = [case[0], case[1] if case[0] != NOTHING else "-"]
        for contestant in results.contestants:
            own = of(results, contestant.name, case)
            worst = statistics.median(one.worst for one in own) if own else 0.0
            cells += [f"{worst * 1e3:.0f}", str(sum(one.failed for one in own))]
        ours = of(results, OURS, case)
        lags = [one.lag for one in ours if one.lag is not None]
        cells.append(f"{statistics.median(one.p99 for one in ours) * 1e3:.0f}" if ours else "-")
        cells.append(f"{max(one.rss for one in ours) / 1e6:.0f}" if ours else "-")
        cells.append(f"{statistics.median(lags) * 1e3:g}" if lags else "-")
        rows.append((*cells, verdict(results, case)))
    head = ["attack", "connections"]
    for contestant in results.contestants:
        head += [f"worst ms, {contestant.name}", "failed"]
    head += ["p99 ms, ours", "RSS MB, ours", "loop lag ms", "goal"]
    return [Table(title="Neighbours of attacks", head=tuple(head), rows=rows)]


def page(results: NeighbourResults) -> str:
    """The section of the page."""
    intro = (
        f"Measured by `bench/neighbours.py` on {results.machine}; rounds: {results.rounds}.\n"
        f"A neighbour makes {results.rate} calls a second on a connection of its own (50 a second, each on a new one,\n"
        f"where the attack is about connections) while a hostile client attacks the proxy for {results.seconds:g} s.\n"
        "With p each of its connections belongs to a process of its own.\n"
        "Attackers that are cut come back at once. The first row is the neighbour alone: it shows the machine.\n"
        f"The goal: a worst call no longer than beside HAProxy, or {TOLERATED * 1e3:.0f} ms, no failed call, at most\n"
        f"{RSS_BOUND / 1e6:.0f} MB. The loop lag is the bound of the highest bucket of `interpose_loop_lag_seconds`\n"
        "that something was added to."
    )
    return "\n\n".join(["## Neighbours of attacks", intro, *(as_markdown(table) for table in tables(results))]) + "\n"
