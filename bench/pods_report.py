"""From samples of pods to tables: one number per contestant, measure and round; ratios within a round; pure, no IO."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.pods_contestants import BEFORE, BEHIND_RELAY, CONTAINERD, OURS
from bench.report import Table, as_markdown, target_row, times
from bench.targets import RatioTarget

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report import Row


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One number; smaller is better."""

    name: str
    title: str
    unit: str
    scale: float = 1.0  # what is measured in seconds or bytes becomes the unit
    digits: int = 1


@dataclass(frozen=True, kw_only=True)
class PodSample:
    """What one contestant needed for one thing in one round: seconds or bytes."""

    contestant: str
    measure: str
    round: int
    value: float


@dataclass(frozen=True, kw_only=True)
class PodResults:
    """All that a run measured, and where."""

    machine: str
    rounds: int
    scale: float
    pods: int
    samples: Sequence[PodSample]


def _ms(name: str, title: str, digits: int = 1) -> Measure:
    return Measure(name=name, title=title, unit="ms", scale=1e3, digits=digits)


def _seconds(name: str, title: str) -> Measure:
    return Measure(name=name, title=title, unit="s", digits=2)


def _megabytes(name: str, title: str, digits: int = 1) -> Measure:
    return Measure(name=name, title=title, unit="MB", scale=1e-6, digits=digits)


ONE_POD = (
    _ms("start.p50", "start: the three calls, p50"),
    _ms("start.p90", "start: the three calls, p90"),
    _ms("run.p50", "RunPodSandbox, p50"),
    _ms("create.p50", "CreateContainer, p50"),
    _ms("begin.p50", "StartContainer, p50"),
    _ms("start.cpu", "CPU time of a start"),
    _ms("node.p50", "start in the node's network, p50"),
    _ms("stop.p50", "stop container and pod, p50"),
    _ms("remove.p50", "remove container and pod, p50"),
    _ms("exec.p50", "ExecSync of /bin/true, p50"),
    _ms("exec.p90", "ExecSync of /bin/true, p90"),
)
MANAGED = (
    _ms("managed.start", "our manager: start a pod, p50"),
    _ms("managed.remove", "our manager: end and remove a pod, p50"),
)
RELAYED = (_ms("relayed.p50", "start through a relay, p50"), _ms("relayed.p90", "start through a relay, p90"))
CROWD = (
    _seconds("many.wall", "start all at once"),
    _seconds("many.cpu", "CPU time of that"),
    _megabytes("many.peak", "highest memory meanwhile (RSS of all)", 0),
    _seconds("many.remove", "stop and remove all at once"),
    _ms("list.sandboxes", "ListPodSandbox with all there, p50", 2),
    _ms("list.containers", "ListContainers, p50", 2),
    _ms("list.stats", "ListContainerStats, p50", 2),
    _ms("status.sandbox", "PodSandboxStatus, p50", 2),
    _ms("status.container", "ContainerStatus, p50", 2),
    _megabytes("idle.pss", "memory per idle pod (PSS)", 2),
    _megabytes("idle.rss", "memory per idle pod (RSS)", 2),
    _megabytes("daemon.rss", "daemon alone, no pods yet (RSS)"),
    _ms("restart", "killed with all pods there: until it answers again", 0),
    _ms("restart.cpu", "CPU time of the daemon until then", 0),
)


def _target(measure: str, title: str, limit: float) -> RatioTarget:
    return RatioTarget(
        workload=measure, metric="value", title=title, limit=limit, at_least=False, ours=OURS, theirs=CONTAINERD
    )


TARGETS = (
    _target("start.p50", "start of a pod, p50", 0.8),
    _target("many.wall", "all pods at once, time", 1.0),
    _target("idle.pss", "memory per idle pod, PSS", 1.0),
    _target("idle.rss", "memory per idle pod, RSS", 1.0),
)


def by_round(samples: Sequence[PodSample], measure: str, contestant: str) -> dict[int, float]:
    """The numbers of one contestant."""
    return {one.round: one.value for one in samples if (one.measure, one.contestant) == (measure, contestant)}


def ratios(samples: Sequence[PodSample], measure: str, ours: str, theirs: str = CONTAINERD) -> list[float]:
    """Our number divided by theirs, for each round where both were measured."""
    mine, others = by_round(samples, measure, ours), by_round(samples, measure, theirs)
    return [value / others[round_] for round_, value in mine.items() if others.get(round_)]


def number(samples: Sequence[PodSample], measure: Measure, contestant: str) -> str:
    """The median of the rounds."""
    found = by_round(samples, measure.name, contestant)
    return f"{statistics.median(found.values()) * measure.scale:.{measure.digits}f}" if found else "-"


def spread(values: Sequence[float]) -> str:
    return f"{min(values):.2f}-{max(values):.2f}" if values else "-"


def table(results: PodResults, title: str, measures: Sequence[Measure]) -> Table:
    """One row for each measure: medians, and ratios to containerd."""
    people = [CONTAINERD, OURS]
    compared = [(OURS, CONTAINERD)]
    if any(sample.contestant == BEFORE for sample in results.samples):
        people.append(BEFORE)
        compared.append((OURS, BEFORE))
    rows: list[Row] = []
    for measure in measures:
        if not any(one.measure == measure.name for one in results.samples):
            continue
        cells = [f"{measure.title}, {measure.unit}", *(number(results.samples, measure, one) for one in people)]
        for ours, theirs in compared:
            values = ratios(results.samples, measure.name, ours, theirs)
            cells += [times(statistics.median(values) if values else None), spread(values)]
        rows.append(tuple(cells))
    head = ["what", "containerd", "interpose", *(["earlier"] if BEFORE in people else [])]
    for _, theirs in compared:
        head += [f"ratio to {'earlier' if theirs == BEFORE else theirs}", "rounds"]
    return Table(title=title, head=tuple(head), rows=rows)


def relay_table(results: PodResults) -> Table:
    """What a relay in between adds to a start."""
    rows: list[Row] = []
    for behind, name in BEHIND_RELAY.items():
        for measure in RELAYED:
            through = by_round(results.samples, measure.name, name)
            alone = by_round(results.samples, measure.name, behind)
            added = [value - alone[round_] for round_, value in through.items() if round_ in alone]
            if added:
                rows.append(
                    (
                        f"{behind}: {measure.title}",
                        number(results.samples, measure, name),
                        f"{statistics.median(added) * 1e3:+.1f}",
                        f"{min(added) * 1e3:+.1f} to {max(added) * 1e3:+.1f}",
                    )
                )
    return Table(title="A relay in between", head=("what", "ms", "added ms", "rounds"), rows=rows)


def target_table(results: PodResults) -> Table:
    rows = [target_row(one, ratios(results.samples, one.workload, one.ours, one.theirs), "x") for one in TARGETS]
    head = ("what", "target", "is", "rounds", "verdict")
    return Table(title="Targets of pods (ratios to containerd, median of rounds)", head=head, rows=rows)


def pod_tables(results: PodResults) -> list[Table]:
    found = [
        table(results, "One pod after the other", ONE_POD),
        table(results, f"{results.pods} pods", CROWD),
        table(results, "The manager", MANAGED),
        relay_table(results),
        target_table(results),
    ]
    return [one for one in found if one.rows]


def pod_page(results: PodResults) -> str:
    """The section about pods."""
    shortened = "" if results.scale == 1 else f", shortened to {results.scale:g} of the pods"
    intro = (
        f"Measured by `bench/pods.py`, a part of `make bench`, on {results.machine}.\n"
        f"{results.rounds} rounds{shortened}. containerd 1.6 and `interpose runtime` side by side, both with runc,\n"
        "overlayfs, the same image and the same CNI plugins (ptp, host-local); pods have a network of their own and\n"
        "one container that sleeps and has a log file. One client makes the calls that a kubelet makes; the\n"
        "contestants take turns after each pod, in an order that rotates. Ratios are taken within a round; below 1 we\n"
        "need less. CPU time is that of a cgroup around everything: daemon, shims, OCI runtime, CNI plugins and\n"
        "containers. Memory is of all processes but the containers of the load; containerd's pause container counts.\n"
        "PSS divides pages that are shared among those who share them: what the machine really has less. RSS counts\n"
        "them for each."
    )
    return "\n\n".join(["## Pods", intro, *(as_markdown(one) for one in reversed(pod_tables(results)))]) + "\n"
