"""Metric families as plain values, and their exposition.

Parts of the program offer collectors: functions that return families when asked. Nothing is registered and nothing is
counted here; data-path counters are plain lists that a collector reads at scrape time. prometheus_client writes the
formats and is imported with the first scrape, because it weighs 5 MB.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from interpose import __version__
from interpose.log import LogControl

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
    """The version that runs, as a metric."""
    labels = {"version": __version__, "python": ".".join(map(str, sys.version_info[:3]))}
    yield Family("interpose_build_info", "gauge", "Version of this program; always 1.", [Sample(1, labels)])


def log_collector(control: LogControl) -> Collector:
    """Whether the log is complete."""

    def collect() -> Iterable[Family]:
        text = "Log lines dropped because the reader was too slow or writing failed."
        yield Family("interpose_log_lines_dropped_total", "counter", text, [Sample(control.dropped)])

    return collect


def gather(collectors: Iterable[Collector]) -> list[Family]:
    """Ask every collector. One that fails is logged and counted, the others are still shown."""
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
    """Ask every collector and write the answer in the format the scraper accepts: (content type, body)."""
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
