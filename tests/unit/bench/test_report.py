"""The benchmark's arithmetic: ratios within a round, medians over rounds, verdicts on targets."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module as the benchmark's own program sees it."""
    monkeypatch.syspath_prepend(str(PROJECT))
    return importlib.import_module("bench.report")


def sample(contestant: str, round_: int, rate: float, cpu: float | None = 10.0, workload: str = "version-16") -> Any:
    measure = importlib.import_module("bench.measure")
    return measure.Sample(
        contestant=contestant, workload=workload, round=round_, rate=rate, p50=1.0, p99=2.0, cpu=cpu, rss=1_000_000
    )


def results(report: Any, samples: list[Any], footprints: list[Any]) -> Any:
    contestants = importlib.import_module("bench.contestants").contestants()
    workloads = importlib.import_module("bench.workloads").workloads()
    return report.Results(
        machine="a machine",
        rounds=3,
        scale=1.0,
        contestants=contestants,
        workloads=workloads,
        samples=samples,
        footprints=footprints,
    )


def test_ratios_are_taken_within_a_round(report: Any) -> None:
    """A slow round slows both sides and leaves the ratio alone; the median ignores one odd round."""
    rates = [(100.0, 100.0), (10.0, 10.0), (100.0, 50.0)]
    samples = [sample("interpose", n, ours) for n, (ours, _) in enumerate(rates)]
    samples += [sample("haproxy", n, theirs) for n, (_, theirs) in enumerate(rates)]
    assert report.ratio(samples, "version-16", "rate", "interpose") == pytest.approx(1.0)


def test_what_was_not_measured_has_no_ratio(report: Any) -> None:
    """No yardstick, no process or no such workload: nothing is guessed."""
    samples = [sample("direct", 0, 5.0, cpu=None), sample("haproxy", 0, 5.0)]
    assert report.ratio(samples, "version-16", "cpu", "direct") is None
    assert report.ratio(samples, "version-1", "rate", "direct") is None
    assert report.ratio(samples[:1], "version-16", "rate", "direct") is None


def test_targets_are_met_or_not_or_not_measured(report: Any) -> None:
    """Each target states its own verdict."""
    footprint = importlib.import_module("bench.measure").Footprint(
        contestant="interpose", start_seconds=0.3, rss_early=24_000_000, rss_late=24_500_000, rss_changing=24_500_000
    )
    samples = [sample("interpose", 0, 110.0, cpu=20.0), sample("haproxy", 0, 100.0, cpu=10.0)]
    rows = {row[0]: row for row in report.target_table(results(report, samples, [footprint])).rows}
    assert rows["16 streams, req/s"] == ("16 streams, req/s", ">= 1x", "1.10x", "1.10-1.10", "met")
    assert rows["16 streams, CPU per call"][2:] == ("2.00x", "2.00-2.00", "NOT MET")
    assert rows["1 stream, p50"][2:] == ("-", "-", "not measured")
    assert rows["RSS growth from few to many calls"][2:] == ("0.5 MB", "-", "met")
    assert rows["start to first answered call"][2:] == ("300.0 ms", "-", "NOT MET")


def test_rounds_that_disagree_are_told(report: Any) -> None:
    """A median above the limit with a round below it is not sold as a plain success."""
    samples = [sample("interpose", n, rate) for n, rate in enumerate([150.0, 140.0, 60.0])]
    samples += [sample("haproxy", n, 100.0) for n in range(3)]
    rows = {row[0]: row for row in report.target_table(results(report, samples, [])).rows}
    assert rows["16 streams, req/s"][2:] == ("1.40x", "0.60-1.50", "met, rounds differ")


def test_the_page_shows_machine_and_tables(report: Any) -> None:
    """The page names the machine, and a contestant without samples has no row."""
    page = report.page(results(report, [sample("haproxy", 0, 123.0)], []))
    assert "a machine" in page
    assert "| HAProxy, 1 thread | 1 | 2 | 123 | 10.0 | 1.0 |" in page
    assert "socat (bytes)" not in page
