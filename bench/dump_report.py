"""What dumps cost, in words: the same relay with and without, compared within a round; pure, no IO."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.contestants import COMPILED
from bench.dump_modes import ATTACHED, BEFORE, OFF, RECORD, SHORT
from bench.measure import Sample
from bench.report import Row, Table, as_markdown, pairs, ratio, ratios, target_row, times
from bench.targets import RatioTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.dump_modes import Mode
    from bench.workloads import Workload


@dataclass(frozen=True, kw_only=True)
class DumpSample(Sample):
    """One timed run. `reader` is who reads from the relay: a scribe, or a command that is attached."""

    reader_cpu: float  # per call, like `cpu`
    reader_rss: int
    frames: int
    frames_dropped: int
    bodies_dropped: int

    @property
    def dropped(self) -> int:
        """Frames that are not there, and messages without their body."""
        return self.frames_dropped + self.bodies_dropped


@dataclass(frozen=True, kw_only=True)
class DumpResults:
    """All that was measured about dumps. Workloads in `paced` come at a fixed rate, the others as fast as they can."""

    machine: str
    rounds: int
    scale: float
    modes: Sequence[Mode]
    workloads: Sequence[Workload]
    paced: Sequence[Workload]
    samples: Sequence[DumpSample]


# Of a relay that dumps nothing, against the version that could not.
OFF_TARGETS = tuple(
    RatioTarget(workload=workload, metric=metric, title=title, limit=limit, at_least=limit < 1, ours=OFF, theirs=BEFORE)
    for workload, metric, title, limit in (
        ("dump-version-16", "rate", "off against before, 16 streams, req/s", 0.97),
        ("dump-version-16", "cpu", "off against before, 16 streams, CPU per call", 1.03),
        ("dump-version-1", "p50", "off against before, 1 stream, p50", 1.03),
    )
)
# What is left of the calls a second while something is dumped.
DUMP_TARGETS = tuple(
    RatioTarget(
        workload="dump-version-16",
        metric="rate",
        title=f"{title}{', compiled' if build else ''}, 16 streams, req/s",
        limit=limit,
        at_least=True,
        ours=f"{mode}{build}",
        theirs=f"{OFF}{build}",
    )
    for build in ("", f"-{COMPILED}")
    for mode, title, limit in (
        (SHORT, "`short` to a file", 0.75),
        (RECORD, "`--record`", 0.65),
        (ATTACHED, "`dump record` attached", 0.65),
    )
)
_COSTS = ("CPU us/call", "of the reader")
_SIZES = ("RSS MB", "of the reader", "dropped")


def full_speed_table(results: DumpResults, workload: Workload) -> Table:
    """One row for each mode: how it compares with no dump, and what it costs."""
    rows = []
    for mode in results.modes:
        if own := _own(results, mode, workload):
            compared = (ratio(results.samples, workload.name, name, mode.name, mode.base) for name in ("rate", "p50"))
            middle = (f"{statistics.median(s.p50 for s in own):.0f}", f"{statistics.median(s.rate for s in own):.0f}")
            rows.append((mode.title, *map(times, compared), *middle, *_costs(own), *_sizes(own)))
    head = ("dump", "req/s ratio", "p50 ratio", "p50 us", "req/s", *_COSTS, *_SIZES)
    return Table(title=workload.title, head=head, rows=rows)


def paced_table(results: DumpResults, workload: Workload) -> Table:
    """The same at a rate that all of them can take: only what it costs."""
    rows = []
    for mode in results.modes:
        if own := _own(results, mode, workload):
            extra = [mine - other for mine, other in pairs(results.samples, workload.name, "cpu", mode.name, mode.base)]
            added = f"{statistics.median(extra):+.0f}" if extra and mode.name != mode.base else "-"
            latency = f"{statistics.median(s.p50 for s in own):.0f}"
            cpu, reader = _costs(own)
            rows.append((mode.title, latency, cpu, added, reader, *_sizes(own)))
    head = ("dump", "p50 us", _COSTS[0], "added", _COSTS[1], *_SIZES)
    return Table(title=workload.title, head=head, rows=rows)


def target_table(results: DumpResults) -> Table:
    """Nothing is lost at a rate above any kubelet's, a dump costs a part of the calls, and without one nobody pays."""
    rows: list[Row] = []
    for workload in results.paced:
        own = [sample for sample in results.samples if sample.workload == workload.name]
        lost = sum(sample.dropped for sample in own)
        verdict = "not measured" if not own else "met" if not lost else "NOT MET"
        rows.append((f"dropped, {workload.title}", "0", str(lost) if own else "-", "-", verdict))
    for target in (*DUMP_TARGETS, *OFF_TARGETS):
        values = ratios(results.samples, target.workload, target.metric, target.ours, target.theirs)
        rows.append(target_row(target, values, "x"))
    return Table(title="Targets of dumps", head=("what", "target", "is", "rounds", "verdict"), rows=rows)


def dump_tables(results: DumpResults) -> list[Table]:
    measured = {sample.workload for sample in results.samples}
    found = [full_speed_table(results, one) for one in results.workloads if one.name in measured]
    found += [paced_table(results, one) for one in results.paced if one.name in measured]
    return [*found, target_table(results)]


def dump_page(results: DumpResults) -> str:
    """The section about dumps."""
    shortened = "" if results.scale == 1 else f", shortened to {results.scale:g} of the calls"
    intro = (
        f"Measured by `bench/dump.py`, a part of `make bench`, on {results.machine}.\n"
        f"{results.rounds} rounds{shortened}. "
        "Relays that differ in their dump only take turns, in an order that rotates; ratios are\n"
        "to the same build without a dump in the same round. `Version` goes to containerd, lists show 110 containers\n"
        "of a fake runtime. The reader is the process that redacts, renders and writes: the writer, or the command\n"
        "that is attached. Its CPU time is counted until it has done everything, also what it does after the calls.\n"
        "\n"
        "At full speed the reader may not keep up. Calls do not wait for it: what does not fit into its queue is\n"
        "dropped and counted, the bodies of messages first. Dropped is the share of frames that are missing or have\n"
        "no body. Load generator, relay, reader and backend share the machine, so part of what a dump costs here is\n"
        "the reader taking a core from the others. The paced runs show what is left of that at rates above any\n"
        "kubelet's. A call that comes alone costs several times as much CPU as one among many, with a dump and without."
    )
    return "\n\n".join(["## Dumps", intro, *(as_markdown(table) for table in reversed(dump_tables(results)))]) + "\n"


def with_section(page: str, section: str) -> str:
    """The page with this section in the place of the one that has the same heading, else at its end."""
    heading = section.splitlines()[0]
    sections = [""]
    for line in page.splitlines(keepends=True):
        if line.startswith("## "):
            sections.append("")
        sections[-1] += line
    places = [place for place, text in enumerate(sections) if text.splitlines()[:1] == [heading]]
    if places:
        sections[places[0]] = section
    else:
        sections.append(section)
    return "\n\n".join(text.strip("\n") for text in sections if text.strip()) + "\n"


def share(samples: Sequence[DumpSample]) -> str:
    """What part of the frames was dropped, over all rounds."""
    lost = sum(sample.dropped for sample in samples)
    made = sum(sample.frames + sample.frames_dropped for sample in samples)
    return "-" if not made else f"{lost / made * 100:.1f} %" if lost else "0"


def _own(results: DumpResults, mode: Mode, workload: Workload) -> list[DumpSample]:
    return [one for one in results.samples if (one.contestant, one.workload) == (mode.name, workload.name)]


def _costs(own: Sequence[DumpSample]) -> tuple[str, str]:
    reader = statistics.median(s.reader_cpu for s in own)
    return f"{statistics.median(s.cpu or 0.0 for s in own):.0f}", f"{reader:.0f}" if own[-1].reader_rss else "-"


def _sizes(own: Sequence[DumpSample]) -> tuple[str, str, str]:
    last = own[-1]
    reader = f"{last.reader_rss / 1e6:.1f}" if last.reader_rss else "-"
    return f"{(last.rss or 0) / 1e6:.1f}", reader, share(own)
