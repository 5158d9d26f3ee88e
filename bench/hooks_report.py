"""What hooks cost, in words: relays with hook servers against the same relay without any; pure, no IO.

As in `report`, two relays are compared within a round, and the median over the rounds is what counts.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.hooks import COMPILED_NONE, FEW_PODS, KOORD_NONE, KOORD_ONE, LISTED, MANY_PODS, NO_PLUGIN, RUNS
from bench.report import Row, Table, as_markdown, limit_row, pairs, ratio, ratios, target_row, times
from bench.targets import (
    ADDED_TARGETS,
    HOOK_RATIO_TARGETS,
    HOOKS_RSS_LIMIT,
    KOORD_ADDED_TARGETS,
    KOORD_TARGET,
    TURN_LIMIT,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from bench.hooks import HookFootprint, Variant
    from bench.measure import Sample
    from bench.targets import RatioTarget
    from bench.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class HookResults:
    """All that was measured about hooks."""

    machine: str
    rounds: int
    scale: float
    variants: Sequence[Variant]
    workloads: Sequence[Workload]
    samples: Sequence[Sample]
    footprint: HookFootprint | None
    turns: Mapping[str, float]  # by build: the longest turn of the loop in milliseconds


def added(samples: Sequence[Sample], workload: str, ours: str, theirs: str = NO_PLUGIN) -> list[float]:
    """Milliseconds that a median call of ours takes longer than theirs, for each round."""
    return [(mine - other) / 1e3 for mine, other in pairs(samples, workload, "p50", ours, theirs)]


def added_ratios(samples: Sequence[Sample], target: RatioTarget) -> list[float]:
    """What one hook server adds to a call of ours, divided by what it adds to theirs, for each round."""
    mine = pairs(samples, target.workload, target.metric, target.ours, COMPILED_NONE)
    other = pairs(samples, target.workload, target.metric, target.theirs, KOORD_NONE)
    both = zip(mine, other, strict=True)
    return [(with_ - without) / (theirs - base) for (with_, without), (theirs, base) in both if theirs > base]


def workload_table(results: HookResults, workload: Workload) -> Table:
    """One row per variant: medians, and how they compare with the same program without a hook server."""
    rows = []
    for variant in results.variants:
        own = [s for s in results.samples if (s.contestant, s.workload) == (variant.name, workload.name)]
        if not own:
            continue
        extra = added(results.samples, workload.name, variant.name, variant.base)
        rows.append(
            (
                variant.title,
                f"{statistics.median(s.p50 for s in own):.0f}",
                f"{statistics.median(s.p99 for s in own):.0f}",
                f"{statistics.median(s.rate for s in own):.0f}",
                f"{statistics.median(s.cpu or 0.0 for s in own):.0f}",
                f"{statistics.median(extra):+.3f}" if extra and variant.name != variant.base else "-",
                *(times(ratio(results.samples, workload.name, name, variant.name, variant.base)) for name in _COMPARED),
            )
        )
    head = (
        "relay",
        "p50 us",
        "p99 us",
        "req/s",
        "CPU us/call",
        "added p50 ms",
        "p50 ratio",
        "req/s ratio",
        "CPU ratio",
    )
    return Table(title=workload.title, head=head, rows=rows)


_COMPARED = ("p50", "rate", "cpu")


def footprint_table(footprint: HookFootprint, scale: float) -> Table:
    """The memory of one relay with one hook server."""
    head = ("state", "RSS MB")
    rows = [(title, f"{size / 1e6:.1f}") for title, size in _states(footprint, scale)]
    return Table(title="Memory of a relay with one hook server", head=head, rows=rows)


def target_table(results: HookResults) -> Table:
    """Each target with what was measured."""
    rows: list[Row] = [
        target_row(target, added(results.samples, target.workload, target.ours, target.theirs), " ms")
        for target in ADDED_TARGETS
    ]
    ratio_targets: tuple[RatioTarget, ...] = HOOK_RATIO_TARGETS
    if any(variant.name == KOORD_ONE for variant in results.variants):
        rows += [target_row(target, added_ratios(results.samples, target), "x") for target in KOORD_ADDED_TARGETS]
        ratio_targets += (KOORD_TARGET,)
    for one in ratio_targets:
        rows.append(target_row(one, ratios(results.samples, one.workload, one.metric, one.ours, one.theirs), "x"))
    if results.footprint is not None:
        rows += [
            limit_row(f"RSS, {title}", size / 1e6, HOOKS_RSS_LIMIT / 1e6, "MB")
            for title, size in _states(results.footprint, results.scale)
        ]
    rows += [
        limit_row(f"ListContainers of {LISTED}, longest turn of the loop, {build}", longest, TURN_LIMIT, "ms")
        for build, longest in results.turns.items()
    ]
    title = "Targets of hooks (against a relay without hook servers, median of rounds)"
    return Table(title=title, head=("what", "target", "is", "rounds", "verdict"), rows=rows)


def hook_tables(results: HookResults) -> list[Table]:
    measured = {sample.workload for sample in results.samples}
    found = [workload_table(results, workload) for workload in results.workloads if workload.name in measured]
    if results.footprint is not None:
        found.append(footprint_table(results.footprint, results.scale))
    return [*found, target_table(results)]


def hook_page(results: HookResults) -> str:
    """The section about hooks."""
    shortened = "" if results.scale == 1 else f", shortened to {results.scale:g} of the calls"
    intro = (
        f"Measured by `make bench ARGS='--only hooks'` on {results.machine}; {results.rounds} rounds{shortened}.\n"
        "Relays that differ in their registrations only. Each hook server is a process of its own that repeats what\n"
        "it was asked, like a koordlet that changes nothing. Pods are made at a fake runtime, lists show 110\n"
        "containers there, and `Version` goes to containerd. With pods and lists one client visits all relays in\n"
        "turns of 20 calls, one call at a time; only RunPodSandbox is timed, the pods are removed in between.\n"
        "The longest turn of the loop is CPU time between two of its waits, while 1000 containers are listed ten\n"
        "times a second and a policy is on. Everything shares the machine. The relay without a hook server passes the\n"
        "call on and parses nothing, so what is added is the whole price: reading, records, and the way to the hook\n"
        "server and back."
    )
    return "\n\n".join(["## Hooks", intro, *(as_markdown(table) for table in reversed(hook_tables(results)))]) + "\n"


def _states(footprint: HookFootprint, scale: float) -> tuple[tuple[str, int], ...]:
    return (
        (f"idle, {FEW_PODS} pods", footprint.few_pods),
        (f"idle, {MANY_PODS} pods", footprint.many_pods),
        (f"after {RUNS * scale:.0f} RunPodSandbox", footprint.after_runs),
    )
