"""Metric families as plain values, their exposition, and the metrics of the process itself.

Parts of the program offer collectors: functions that return families at a scrape. Nothing is registered and nothing is
counted here; data-path counters are plain lists that a collector reads at scrape time. prometheus_client writes the
formats and is imported with the first scrape, because it weighs 5 MB.

The process metrics have the names every Prometheus client uses, so existing dashboards work. A file of /proc that
cannot be read leaves its metric out; the scrape does not fail.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from interpose import __version__
from interpose.log import LogControl
from interpose.native import build

if TYPE_CHECKING:
    from prometheus_client import Metric

_log = logging.getLogger(__name__)

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Sample:
    """One value of a counter or gauge."""

    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Buckets:
    """One histogram: upper bounds ascending, counts per bucket (not cumulative) with one more for the rest."""

    bounds: Sequence[float]
    counts: Sequence[int]
    sum: float
    labels: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A wrong length would silently shift every bucket."""
        if len(self.counts) != len(self.bounds) + 1:
            raise ValueError(f"{len(self.bounds)} bounds need {len(self.bounds) + 1} counts, not {len(self.counts)}")

    def cumulative(self) -> list[tuple[str, float]]:
        """Buckets as the exposition formats want them, the last one being +Inf."""
        total = 0
        rows = []
        for bound, count in zip([*self.bounds, None], self.counts, strict=True):
            total += count
            rows.append(("+Inf" if bound is None else repr(float(bound)), float(total)))
        return rows


@dataclass(frozen=True, slots=True)
class Family:
    """All samples of one metric. Counters are named with `_total`; all samples carry the same label names."""

    name: str
    kind: Kind
    help: str
    samples: Sequence[Sample | Buckets]


Collector = Callable[[], Iterable[Family]]


def build_info() -> Iterable[Family]:
    """The version of this program, as a metric."""
    labels = {"version": __version__, "build": build(), "python": ".".join(map(str, sys.version_info[:3]))}
    text = "Version of this program, and whether its data path is compiled or pure Python; always 1."
    yield Family("interpose_build_info", "gauge", text, [Sample(1, labels)])


def log_collector(control: LogControl) -> Collector:
    """A collector of the log lines that could not be written."""

    def collect() -> Iterable[Family]:
        text = "Log lines dropped because the reader was too slow or writing failed."
        yield Family("interpose_log_lines_dropped_total", "counter", text, [Sample(control.dropped)])

    return collect


def gather(collectors: Iterable[Collector]) -> list[Family]:
    """Call every collector. One that fails is logged and counted, the others are still shown."""
    families: list[Family] = []
    failures = 0
    for collector in collectors:
        try:
            families += list(collector())
        except Exception:
            failures += 1
            _log.exception("Metrics collector failed")
    families.append(
        Family("interpose_collector_failures", "gauge", "Collectors that failed in this scrape.", [Sample(failures)])
    )
    return families


def render(collectors: Iterable[Collector], accept: str = "") -> tuple[str, bytes]:
    """Call every collector and write the families in the format the scraper accepts: (content type, body)."""
    return expose(gather(collectors), accept)


def expose(families: Sequence[Family], accept: str = "") -> tuple[str, bytes]:
    """Write families that were gathered before; needs no lock and may run in a thread."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder
    from prometheus_client.registry import Collector as PrometheusCollector

    class Gathered(PrometheusCollector):
        def collect(self) -> "Iterable[Metric]":
            return [_metric(family) for family in families]

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Gathered())
    try:
        encoder, content_type = choose_encoder(accept)
    except (ValueError, TypeError):  # a version that is not a number; the plain format is always understood
        encoder, content_type = choose_encoder("")
    return content_type, encoder(registry)


def _metric(family: Family) -> "Metric":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    names = sorted(family.samples[0].labels) if family.samples else []
    counter = CounterMetricFamily(family.name, family.help, labels=names)
    gauge = GaugeMetricFamily(family.name, family.help, labels=names)
    histogram = HistogramMetricFamily(family.name, family.help, labels=names)
    for sample in family.samples:
        values = [sample.labels[name] for name in names]
        if isinstance(sample, Buckets):
            histogram.add_metric(values, sample.cumulative(), sample.sum)
        else:
            counter.add_metric(values, sample.value)
            gauge.add_metric(values, sample.value)
    return {"counter": counter, "gauge": gauge, "histogram": histogram}[family.kind]


def process_collector(proc: Path = Path("/proc")) -> Callable[[], Iterable[Family]]:
    """A collector of memory, CPU time, descriptors, threads and start time of this process."""
    tick = os.sysconf("SC_CLK_TCK")
    page = os.sysconf("SC_PAGE_SIZE")

    def collect() -> Iterable[Family]:
        try:
            # The command name stands in parentheses and may hold spaces; what follows the last one is fixed.
            stat = (proc / "self/stat").read_text().rpartition(")")[2].split()
            boot = _boot_time((proc / "stat").read_text())
            descriptors = sum(1 for _ in (proc / "self/fd").iterdir())
        except OSError:
            return
        # Field numbers of proc(5), less the three that precede the split.
        cpu = (int(stat[14 - 3]) + int(stat[15 - 3])) / tick
        yield _gauge("process_virtual_memory_bytes", "Virtual memory size in bytes.", int(stat[23 - 3]))
        yield _gauge("process_resident_memory_bytes", "Resident memory size in bytes.", int(stat[24 - 3]) * page)
        yield _gauge("process_threads", "Number of threads.", int(stat[20 - 3]))
        yield _gauge("process_open_fds", "Number of open file descriptors.", descriptors)
        yield _gauge(
            "process_start_time_seconds", "Start time in seconds since the epoch.", boot + int(stat[22 - 3]) / tick
        )
        total = "process_cpu_seconds_total"
        yield Family(total, "counter", "User and system CPU time in seconds.", [Sample(cpu)])

    return collect


def _boot_time(stat: str) -> float:
    line = next((line for line in stat.splitlines() if line.startswith("btime ")), "btime 0")
    return float(line.split()[1])


def _gauge(name: str, text: str, value: float) -> Family:
    return Family(name, "gauge", text, [Sample(value)])
