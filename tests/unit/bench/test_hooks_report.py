"""What hooks cost: differences within a round, verdicts on their targets."""

from __future__ import annotations

import dataclasses
import importlib
from pathlib import Path
from typing import Any

import pytest

PROJECT = Path(__file__).parents[3]


@pytest.fixture
def report(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module as the benchmark's own program sees it."""
    monkeypatch.syspath_prepend(str(PROJECT))
    return importlib.import_module("bench.hooks_report")


def sample(variant: str, round_: int, p50: float, workload: str = "hooks-run", rate: float = 100.0) -> Any:
    measure = importlib.import_module("bench.measure")
    return measure.Sample(
        contestant=variant, workload=workload, round=round_, rate=rate, p50=p50, p99=p50, cpu=10.0, rss=1_000_000
    )


def results(report: Any, samples: list[Any], footprint: Any = None) -> Any:
    return report.HookResults(
        machine="a machine",
        rounds=3,
        scale=1.0,
        variants=importlib.import_module("bench.hooks").variants(),
        workloads=importlib.import_module("bench.workloads").hook_workloads(),
        samples=samples,
        footprint=footprint,
        turns={"interpose": 6.0, "compiled": 2.0},
    )


def weight(few: float, many: float, after: float) -> Any:
    kind = importlib.import_module("bench.hooks").HookFootprint
    return kind(few_pods=int(few * 1e6), many_pods=int(many * 1e6), after_runs=int(after * 1e6))


def test_what_a_plugin_adds_is_a_difference_within_a_round(report: Any) -> None:
    """A slow round slows both relays; only what lies between them counts, in milliseconds."""
    samples = [sample("no-plugin", n, p50) for n, p50 in enumerate([300.0, 5300.0, 300.0])]
    samples += [sample("one-plugin", n, p50) for n, p50 in enumerate([800.0, 5800.0, 1300.0])]

    assert report.added(samples, "hooks-run", "one-plugin") == pytest.approx([0.5, 0.5, 1.0])


def test_targets_of_hooks(report: Any) -> None:
    """Each target states its own verdict; what was not measured is said."""
    samples = [sample("no-plugin", 0, 300.0), sample("one-plugin", 0, 1000.0)]
    samples += [sample("no-plugin", 0, 1.0, "hooks-version-16"), sample("one-plugin", 0, 1.0, "hooks-version-16")]

    rows = {row[0]: row[1:] for row in report.target_table(results(report, samples, weight(34, 46, 47))).rows}

    assert rows["RunPodSandbox, added p50 with one hook server"] == ("<= 0.6 ms", "0.70 ms", "0.70-0.70", "NOT MET")
    assert rows["Version with hooks, 16 streams, req/s"] == (">= 0.95x", "1.00x", "1.00-1.00", "met")
    assert rows["Version with hooks, 1 stream, p50"][-1] == "not measured"
    assert rows["RSS, idle, 10 pods"] == ("<= 38 MB", "34.0 MB", "-", "met")
    assert rows["RSS, idle, 110 pods"][-1] == "NOT MET"
    turn = "ListContainers of 1000, longest turn of the loop, "
    assert (rows[f"{turn}interpose"][-1], rows[f"{turn}compiled"]) == ("NOT MET", ("<= 5 ms", "2.0 ms", "-", "met"))


def test_a_variant_is_shown_beside_none(report: Any) -> None:
    """The relay without hook servers has nothing to be compared with; one without samples has no row."""
    samples = [sample("no-plugin", 0, 300.0), sample("three-plugins", 0, 1500.0)]

    page = report.hook_page(results(report, samples))

    assert "| no hook server | 300 | 300 | 100 | 10 | - | 1.00x | 1.00x | 1.00x |" in page
    assert "| three hook servers | 1500 | 1500 | 100 | 10 | +1.200 | 5.00x | 1.00x | 1.00x |" in page
    assert "| one hook server |" not in page


def test_koordinators_proxy_is_compared_if_it_is_there(report: Any) -> None:
    """By what a hook server adds to a call of either, and by the whole call."""
    hooks = importlib.import_module("bench.hooks")
    samples = [sample("compiled-none", 0, 100.0), sample("compiled-one", 0, 400.0)]
    samples += [sample("koord-none", 0, 500.0), sample("koord-one", 0, 1100.0)]
    without = results(report, samples)
    there = dataclasses.replace(without, variants=hooks.variants(koord=Path("/nowhere/koord-runtime-proxy")))

    rows = {row[0]: row[1:] for row in report.target_table(there).rows}
    added = "RunPodSandbox, added p50, against koord-runtime-proxy"
    whole = "RunPodSandbox with one hook server, p50, against koord-runtime-proxy"

    assert rows[added] == ("<= 0.7x", "0.50x", "0.50-0.50", "met")
    assert rows[whole] == ("<= 0.7x", "0.36x", "0.36-0.36", "met")
    assert added not in {row[0] for row in report.target_table(without).rows}


def test_koordinators_proxy_has_to_be_a_program(report: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The environment names it."""
    hooks = importlib.import_module("bench.hooks")
    monkeypatch.delenv("INTERPOSE_BENCH_KOORD", raising=False)
    assert hooks.koord_program() is None
    monkeypatch.setenv("INTERPOSE_BENCH_KOORD", str(tmp_path / "koord"))
    assert hooks.koord_program() == tmp_path / "koord"
    assert "no such program" in hooks.no_koord(tmp_path / "koord")
