"""What Docker mode costs, in words: proxies in front of dockerd, compared within a round; pure, no IO."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.contestants import COMPILED, DIRECT, OURS
from bench.docker_workloads import CONTAINERS, LIFE
from bench.report import Row, Table, as_markdown, pairs, ratio, ratios, target_row, times
from bench.targets import DOCKER_TARGETS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from bench.contestants import Contestant
    from bench.measure import Sample
    from bench.workloads import Workload

COMPARED = ("p50", "rate", "cpu")


@dataclass(frozen=True, kw_only=True)
class DockerResults:
    """All that was measured about Docker mode. `lives` are the workloads of calls that are intercepted."""

    machine: str
    rounds: int
    scale: float
    contestants: Sequence[Contestant]
    requests: Sequence[Workload]
    bulk: Sequence[Workload]
    lives: Sequence[Workload]
    samples: Sequence[Sample]


def request_table(results: DockerResults, load: Workload) -> Table:
    """One row per contestant: medians, what is added to no proxy, and ratios to HAProxy."""
    numbers = ("p50 us", "p99 us", "req/s", "CPU us/call", "RSS MB", "added p50 us")
    head = ("proxy", *numbers, "p50 ratio", "req/s ratio", "CPU ratio")

    def row(who: Contestant, own: Sequence[Sample]) -> Row:
        extra = added(results.samples, load.name, who.name)
        return (
            *(_median(own, name, "{:.0f}") for name in ("p50", "p99", "rate")),
            _median(own, "cpu", "{:.1f}"),
            _megabytes([own[-1]]),
            f"{statistics.median(extra):+.0f}" if extra and who.name != DIRECT else "-",
            *(times(ratio(results.samples, load.name, name, who.name)) for name in COMPARED),
        )

    return Table(title=load.title, head=head, rows=_rows(results, load, row))


def bulk_table(results: DockerResults, load: Workload) -> Table:
    """One row per contestant; the memory is the highest that was seen in any round."""
    head = ("proxy", "MB/s", "CPU ms per MB", "highest RSS MB", "of direct", "MB/s ratio", "CPU ratio")

    def row(who: Contestant, own: Sequence[Sample]) -> Row:
        cpus = [one.cpu / 1e3 for one in own if one.cpu is not None]
        return (
            _median(own, "rate", "{:.0f}"),
            f"{statistics.median(cpus):.2f}" if cpus else "-",
            _megabytes(own),
            times(ratio(results.samples, load.name, "rate", who.name, DIRECT)),
            *(times(ratio(results.samples, load.name, name, who.name)) for name in ("rate", "cpu")),
        )

    return Table(title=load.title, head=head, rows=_rows(results, load, row))


def life_table(results: DockerResults, load: Workload) -> Table:
    """One row per contestant: what is added to no proxy, in milliseconds."""
    head = ("proxy", "p50 ms", "p99 ms", "CPU us/call", "added p50 ms", "rounds", "p50 of direct")

    def row(who: Contestant, own: Sequence[Sample]) -> Row:
        extra = [value / 1e3 for value in added(results.samples, load.name, who.name)]
        shown = extra and who.name != DIRECT
        return (
            *(f"{statistics.median(getattr(one, name) for one in own) / 1e3:.2f}" for name in ("p50", "p99")),
            _median(own, "cpu", "{:.0f}"),
            f"{statistics.median(extra):+.2f}" if shown else "-",
            f"{min(extra):+.2f} to {max(extra):+.2f}" if shown else "-",
            times(ratio(results.samples, load.name, "p50", who.name, DIRECT)),
        )

    return Table(title=load.title[0].upper() + load.title[1:], head=head, rows=_rows(results, load, row))


def summary_table(results: DockerResults, title: str, ours: str) -> Table:
    """Ours against HAProxy in every load that both had: the median of the rounds, and how far they are apart."""
    rows = []
    for load in (*results.requests, *results.bulk):
        found = [ratios(results.samples, load.name, name, ours) for name in ("rate", "cpu")]
        if all(found):
            rows.append((load.title, *(cell for values in found for cell in _spread(values))))
    head = ("load", "req/s or MB/s", "rounds", "CPU", "rounds")
    return Table(title=title, head=head, rows=rows)


def target_table(results: DockerResults) -> Table:
    """Those targets that were measured."""
    rows = []
    for target in DOCKER_TARGETS:
        values = ratios(results.samples, target.workload, target.metric, target.ours, target.theirs)
        if values:
            rows.append(target_row(target, values, "x"))
    head = ("what", "target", "is", "rounds", "verdict")
    return Table(title="Targets of Docker mode, compiled", head=head, rows=rows)


def _spread(values: Sequence[float]) -> tuple[str, str]:
    return times(statistics.median(values)), f"{min(values):.2f}-{max(values):.2f}"


def added(samples: Sequence[Sample], workload: str, ours: str) -> list[float]:
    """Microseconds that a median call takes longer than without a proxy, for each round."""
    return [mine - other for mine, other in pairs(samples, workload, "p50", ours, DIRECT)]


def docker_tables(results: DockerResults) -> list[Table]:
    measured = {sample.workload for sample in results.samples}
    kinds = ((results.requests, request_table), (results.bulk, bulk_table), (results.lives, life_table))
    found = [make(results, load) for loads, make in kinds for load in loads if load.name in measured]
    overviews = (
        target_table(results),
        summary_table(results, "Docker mode against HAProxy, compiled", COMPILED),
        summary_table(results, "Docker mode against HAProxy, pure", OURS),
    )
    return [*(table for table in overviews if table.rows), *found]


def docker_page(results: DockerResults) -> str:
    """The section about Docker mode."""
    shortened = "" if results.scale == 1 else f", shortened to {results.scale:g} of the calls"
    intro = (
        f"Measured by `bench/docker.py`, a part of `make bench`, on {results.machine}.\n"
        f"{results.rounds} rounds{shortened}. A real dockerd 20.10 with {CONTAINERS} containers stands behind all\n"
        "proxies, which take turns in an order that rotates; ratios are to HAProxy with one thread in the same round,\n"
        "and the median over the rounds is given. Client, proxy and dockerd share the machine. Requests on kept\n"
        "connections are made by `h2load --h1`.\n"
        "\n"
        "In the upload the image is known, so dockerd reads it and unpacks nothing. The download is timed from its\n"
        "first byte, since dockerd collects the image before. The stream is `cat` in a container: bytes are counted\n"
        "once on the way in and once on the way out.\n"
        "\n"
        f"Calls that are intercepted ({', '.join(LIFE)}) are made one at a time with bodies as dockershim's; the hook\n"
        "server is a process of its own that repeats what it was asked. dockerd itself takes many milliseconds for\n"
        "them, and not always the same number; before fake ones, one for each, it can be seen what a proxy adds. A\n"
        "start asks the hook server twice. All relays share the real dockerd, so each follows the others' work there."
    )
    return "\n\n".join(["## Docker mode", intro, *(as_markdown(table) for table in docker_tables(results))]) + "\n"


def _rows(results: DockerResults, load: Workload, row: Callable[[Contestant, Sequence[Sample]], Row]) -> list[Row]:
    """A row for each contestant that was measured; the first column says who."""
    found = []
    for who in results.contestants:
        own = [one for one in results.samples if (one.contestant, one.workload) == (who.name, load.name)]
        if own:
            found.append((who.title, *row(who, own)))
    return found


def _median(own: Sequence[Sample], name: str, shape: str) -> str:
    values = [value for one in own if (value := getattr(one, name)) is not None]
    return shape.format(statistics.median(values)) if values else "-"


def _megabytes(own: Sequence[Sample]) -> str:
    sizes = [one.rss for one in own if one.rss is not None]
    return f"{max(sizes) / 1e6:.1f}" if sizes else "-"
