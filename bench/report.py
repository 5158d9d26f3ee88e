"""From samples to words: medians, ratios per round, targets met or not; pure, no IO.

A ratio is taken within one round, where both sides had the same machine at nearly the same time; the median over
rounds is what counts. Absolute numbers are shown for the curious.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.contestants import BUILDS, OURS, YARDSTICK, Contestant
from bench.targets import (
    COMPILED_TARGETS,
    EARLY_CALLS,
    LATE_CALLS,
    RATIO_TARGETS,
    RSS_GROWTH_LIMIT,
    RSS_LIMIT,
    START_LIMIT,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.measure import Footprint, Sample
    from bench.targets import AddedTarget, RatioTarget
    from bench.workloads import Workload

Row = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Table:
    title: str
    head: Row
    rows: Sequence[Row]


@dataclass(frozen=True, kw_only=True)
class Results:
    """All that a run measured, and where."""

    machine: str
    rounds: int
    scale: float
    contestants: Sequence[Contestant]
    workloads: Sequence[Workload]
    samples: Sequence[Sample]
    footprints: Sequence[Footprint]


def metric(sample: Sample, name: str) -> float | None:
    """The number a target talks about."""
    return {"rate": sample.rate, "p50": sample.p50, "p99": sample.p99, "cpu": sample.cpu}[name]


def pairs(
    samples: Sequence[Sample], workload: str, name: str, ours: str, theirs: str = YARDSTICK
) -> list[tuple[float, float]]:
    """Our number and theirs, for each round where both were measured."""
    found: dict[tuple[str, int], float | None] = {
        (sample.contestant, sample.round): metric(sample, name) for sample in samples if sample.workload == workload
    }
    values = []
    for who, round_ in found:
        mine, other = found.get((ours, round_)), found.get((theirs, round_))
        if who == ours and mine is not None and other is not None:
            values.append((mine, other))
    return values


def ratios(samples: Sequence[Sample], workload: str, name: str, ours: str, theirs: str = YARDSTICK) -> list[float]:
    """Our number divided by theirs, for each round where both were measured."""
    return [mine / other for mine, other in pairs(samples, workload, name, ours, theirs) if other]


def ratio(samples: Sequence[Sample], workload: str, name: str, ours: str, theirs: str = YARDSTICK) -> float | None:
    """Median over rounds of our number divided by theirs in the same round; None when either was not measured."""
    values = ratios(samples, workload, name, ours, theirs)
    return statistics.median(values) if values else None


def workload_table(results: Results, workload: Workload) -> Table:
    """One row per contestant: medians, and ratios to HAProxy."""
    rows = []
    for contestant in results.contestants:
        own = [s for s in results.samples if (s.contestant, s.workload) == (contestant.name, workload.name)]
        if not own:
            continue
        cpus = [s.cpu for s in own if s.cpu is not None]
        sizes = [s.rss for s in own if s.rss is not None]
        rows.append(
            (
                contestant.title,
                f"{statistics.median(s.p50 for s in own):.0f}",
                f"{statistics.median(s.p99 for s in own):.0f}",
                f"{statistics.median(s.rate for s in own):.0f}",
                f"{statistics.median(cpus):.1f}" if cpus else "-",
                f"{sizes[-1] / 1e6:.1f}" if sizes else "-",
                times(ratio(results.samples, workload.name, "p50", contestant.name)),
                times(ratio(results.samples, workload.name, "rate", contestant.name)),
                times(ratio(results.samples, workload.name, "cpu", contestant.name)),
            )
        )
    head = ("proxy", "p50 us", "p99 us", "req/s", "CPU us/call", "RSS MB", "p50 ratio", "req/s ratio", "CPU ratio")
    return Table(title=workload.title, head=head, rows=rows)


def footprint_table(results: Results) -> Table:
    titles = {contestant.name: contestant.title for contestant in results.contestants}
    head = (
        "proxy",
        "start to first answer ms",
        f"RSS MB after {EARLY_CALLS * results.scale:.0f} calls",
        f"after {LATE_CALLS * results.scale:.0f}",
        "and after changing headers",
    )
    rows = [
        (
            titles[footprint.contestant],
            f"{footprint.start_seconds * 1e3:.0f}",
            f"{footprint.rss_early / 1e6:.1f}",
            f"{footprint.rss_late / 1e6:.1f}",
            f"{footprint.rss_changing / 1e6:.1f}",
        )
        for footprint in results.footprints
    ]
    return Table(title="Start and memory of a fresh process", head=head, rows=rows)


def target_table(results: Results) -> Table:
    """Each target with what was measured; what was not measured is said, not guessed."""
    rows = []
    for target in (*RATIO_TARGETS, *COMPILED_TARGETS):
        values = ratios(results.samples, target.workload, target.metric, target.ours, target.theirs)
        rows.append(target_row(target, values, "x"))
    for mine in (footprint for footprint in results.footprints if footprint.contestant in BUILDS):
        growth = mine.rss_late - mine.rss_early
        build = "" if mine.contestant == OURS else f", {mine.contestant}"
        rows += [
            limit_row(f"RSS after the calls{build}", mine.rss_late / 1e6, RSS_LIMIT / 1e6, "MB"),
            limit_row(f"RSS growth from few to many calls{build}", growth / 1e6, RSS_GROWTH_LIMIT / 1e6, "MB"),
            limit_row(f"start to first answered call{build}", mine.start_seconds * 1e3, START_LIMIT * 1e3, "ms"),
        ]
    return Table(
        title="Targets (ratios to HAProxy, median of rounds)",
        head=("what", "target", "is", "rounds", "verdict"),
        rows=rows,
    )


def target_row(target: RatioTarget | AddedTarget, values: Sequence[float], unit: str) -> Row:
    """A target and the median of what the rounds gave."""
    if not values:
        return (target.title, target.bound, "-", "-", "not measured")
    value = statistics.median(values)
    spread = f"{min(values):.2f}-{max(values):.2f}"
    # Rounds on both sides of the limit: the median alone would claim more than was seen.
    split = len({target.met(one) for one in values}) > 1
    verdict = _verdict(target.met(value)) + (", rounds differ" if split else "")
    return (target.title, target.bound, f"{value:.2f}{unit}", spread, verdict)


def tables(results: Results) -> list[Table]:
    measured = {sample.workload for sample in results.samples}
    found = [workload_table(results, workload) for workload in results.workloads if workload.name in measured]
    if results.footprints:
        found.append(footprint_table(results))
    return [*found, target_table(results)]


def as_text(table: Table) -> str:
    """Columns for a terminal: the first to the left, numbers to the right."""
    widths = [max(len(row[column]) for row in (table.head, *table.rows)) for column in range(len(table.head))]
    lines = [table.title]
    for row in (table.head, *table.rows):
        pairs = list(zip(row, widths, strict=True))
        cells = [pairs[0][0].ljust(pairs[0][1]), *(cell.rjust(width) for cell, width in pairs[1:])]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def as_markdown(table: Table) -> str:
    rule = "|".join(["---", *["---:"] * (len(table.head) - 1)])
    rows = ["| " + " | ".join(row) + " |" for row in table.rows]
    return "\n".join([f"### {table.title}", "", "| " + " | ".join(table.head) + " |", f"|{rule}|", *rows])


def page(results: Results) -> str:
    """The whole result as a page."""
    shortened = "" if results.scale == 1 else f", shortened to {results.scale:g} of the calls"
    intro = (
        f"Measured by `make bench` on {results.machine}; {results.rounds} interleaved rounds{shortened}.\n"
        "The load generator, the proxy and the backend share the machine, so absolute numbers mean little: ratios are\n"
        "taken to HAProxy with one thread within the same round, and the median over the rounds is given. Latencies\n"
        "are as the client saw them. Where rounds fell on both sides of a limit the verdict says so: the machine was\n"
        "too busy, or the runs too short, to tell. socat's CPU time is counted in ticks of 10 ms, so it is coarse in\n"
        "short runs. The memory targets are for a fresh process that carried only `Version`; RSS is higher after the\n"
        "1 MB replies."
    )
    return "\n\n".join(["# Benchmarks", intro, *(as_markdown(table) for table in reversed(tables(results)))]) + "\n"


def times(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}x"


def limit_row(title: str, number: float, limit: float, unit: str) -> tuple[str, str, str, str, str]:
    return (title, f"<= {limit:.0f} {unit}", f"{number:.1f} {unit}", "-", _verdict(number <= limit))


def _verdict(met: bool) -> str:
    return "met" if met else "NOT MET"
