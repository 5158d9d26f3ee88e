"""What Docker mode costs: what is added to no proxy, ratios within a round, and the highest memory."""

from __future__ import annotations

from typing import Any

from bench.docker_contestants import docker_contestants, hooked
from bench.docker_report import DockerResults, docker_page, docker_tables
from bench.docker_workloads import DOCKERD, bulk_workloads, life_workloads, request_workloads
from bench.measure import Sample


def sample(who: str, workload: str, **values: Any) -> Sample:
    """One run; what is not said costs nothing much."""
    usual: dict[str, Any] = {"round": 0, "rate": 1000.0, "p50": 300.0, "p99": 900.0, "cpu": 20.0, "rss": 30_000_000}
    if who == "direct":
        usual |= {"cpu": None, "rss": None}
    return Sample(contestant=who, workload=workload, **{**usual, **values})


def results(*samples: Sample) -> DockerResults:
    """All that these say."""
    return DockerResults(
        machine="a machine",
        rounds=2,
        scale=1.0,
        contestants=(*docker_contestants(), hooked()),
        requests=request_workloads(),
        bulk=bulk_workloads(),
        lives=life_workloads(DOCKERD),
        samples=samples,
    )


def test_requests_are_compared_within_their_round() -> None:
    """A slow round slows all: added is the median of the differences, not the difference of medians."""
    page = docker_page(
        results(
            sample("direct", "ping-1", round=0, p50=100.0),
            sample("haproxy", "ping-1", round=0, p50=200.0, rate=500.0),
            sample("interpose", "ping-1", round=0, p50=250.0, rate=400.0, cpu=30.0),
            sample("direct", "ping-1", round=1, p50=1000.0),
            sample("haproxy", "ping-1", round=1, p50=1200.0, rate=50.0),
            sample("interpose", "ping-1", round=1, p50=1500.0, rate=40.0, cpu=30.0),
        )
    )
    assert "| `/_ping`, 1 connection | 0.80x | 0.80-0.80 | 1.50x | 1.50-1.50 |" in page
    assert "| none (direct) | 550 | 900 | 1000 | - | - | - |" in page
    assert "| interpose | 875 | 900 | 220 | 30.0 | 30.0 | +325 | 1.25x | 0.80x | 1.50x |" in page


def test_targets_are_for_the_compiled_build() -> None:
    """Those that were measured, with a verdict over the rounds."""
    page = docker_page(
        results(
            sample("haproxy", "ping-fresh", rate=500.0, cpu=20.0),
            sample("compiled", "ping-fresh", rate=475.0, cpu=40.0),
        )
    )
    assert "| a new connection per request, req/s | >= 0.9x | 0.95x | 0.95-0.95 | met |" in page
    assert "| a new connection per request, CPU per call | <= 1.2x | 2.00x | 2.00-2.00 | NOT MET |" in page
    assert "lists, 16 connections" not in page


def test_the_highest_memory_of_any_round_counts_for_bodies() -> None:
    """One round with a buffered body is the news, however many had none."""
    page = docker_page(
        results(
            sample("direct", "load", rate=400.0),
            sample("haproxy", "load", rate=200.0, cpu=1000.0, rss=15_000_000),
            sample("interpose", "load", round=0, rate=100.0, cpu=1500.0, rss=130_000_000),
            sample("interpose", "load", round=1, rate=100.0, cpu=1500.0, rss=30_000_000),
        )
    )
    assert "| interpose | 100 | 1.50 | 130.0 | 0.25x | 0.50x | 1.50x |" in page


def test_intercepted_calls_show_what_is_added_and_its_spread() -> None:
    """Milliseconds over no proxy; of no proxy nothing is added."""
    page = docker_page(
        results(
            sample("direct", "create@dockerd", round=0, p50=20_000.0),
            sample("hooked", "create@dockerd", round=0, p50=21_000.0),
            sample("direct", "create@dockerd", round=1, p50=30_000.0),
            sample("hooked", "create@dockerd", round=1, p50=33_000.0),
        )
    )
    assert "### Create of a container, dockerd" in page
    assert "| interpose, one hook server | 27.00 | 0.90 | 20 | +2.00 | +1.00 to +3.00 |" in page
    assert "| none (direct) | 25.00 | 0.90 | - | - | - | 1.00x |" in page


def test_what_was_not_measured_has_no_table() -> None:
    """A run with --only shows what it did."""
    shown = docker_tables(results(sample("direct", "ping-16")))
    assert [table.title for table in shown] == ["`/_ping`, 16 connections"]
