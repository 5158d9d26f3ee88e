"""Pods side by side: medians, ratios within a round, and what was not measured is not shown."""

from __future__ import annotations

from bench.pods_report import ONE_POD, PodResults, PodSample, pod_page, pod_tables, ratios, relay_table, table


def sample(contestant: str, measure: str, value: float, round_: int = 0) -> PodSample:
    """One number."""
    return PodSample(contestant=contestant, measure=measure, round=round_, value=value)


def results(*samples: PodSample, scale: float = 1.0) -> PodResults:
    """All that these say."""
    return PodResults(machine="a machine", rounds=2, scale=scale, pods=100, samples=samples)


def test_a_ratio_is_taken_within_a_round() -> None:
    """A slow round slows both; a round where one of them is missing says nothing."""
    found = (
        sample("containerd", "start.p50", 0.2, 0),
        sample("interpose", "start.p50", 0.1, 0),
        sample("containerd", "start.p50", 2.0, 1),
        sample("interpose", "start.p50", 1.2, 1),
        sample("interpose", "start.p50", 9.0, 2),
    )

    assert ratios(found, "start.p50", "interpose") == [0.5, 0.6]


def test_a_row_has_medians_ratio_and_spread() -> None:
    """In the unit of the measure; measures that nobody took have no row."""
    found = results(
        sample("containerd", "start.p50", 0.2, 0),
        sample("containerd", "start.p50", 0.4, 1),
        sample("interpose", "start.p50", 0.1, 0),
        sample("interpose", "start.p50", 0.3, 1),
    )

    shown = table(found, "pods", ONE_POD)

    assert list(shown.rows) == [("start: the three calls, p50, ms", "300.0", "200.0", "0.62x", "0.50-0.75")]
    assert "earlier" not in shown.head


def test_an_earlier_version_has_columns_of_its_own() -> None:
    """Ours against it, beside ours against containerd."""
    found = results(
        sample("containerd", "exec.p50", 0.04),
        sample("interpose", "exec.p50", 0.03),
        sample("before", "exec.p50", 0.06),
    )

    shown = table(found, "pods", ONE_POD)

    assert shown.head[-2:] == ("ratio to earlier", "rounds")
    assert list(shown.rows) == [
        ("ExecSync of /bin/true, p50, ms", "40.0", "30.0", "60.0", "0.75x", "0.75-0.75", "0.50x", "0.50-0.50")
    ]


def test_a_relay_is_compared_with_the_same_runtime_without_it() -> None:
    """What it adds, in the same round."""
    found = results(
        sample("containerd", "relayed.p50", 0.2),
        sample("interpose", "relayed.p50", 0.1),
        sample("relay-containerd", "relayed.p50", 0.203),
        sample("relay-interpose", "relayed.p50", 0.101),
    )

    rows = list(relay_table(found).rows)

    assert rows == [
        ("containerd: start through a relay, p50", "203.0", "+3.0", "+3.0 to +3.0"),
        ("interpose: start through a relay, p50", "101.0", "+1.0", "+1.0 to +1.0"),
    ]


def test_parts_that_were_left_out_have_no_table() -> None:
    """But the targets say that they were not measured."""
    found = results(sample("containerd", "idle.pss", 4e6), sample("interpose", "idle.pss", 5e6), scale=0.2)

    titles = [one.title for one in pod_tables(found)]
    page = pod_page(found)

    assert titles == ["100 pods", "Targets of pods (ratios to containerd, median of rounds)"]
    assert "| memory per idle pod, PSS | <= 1x | 1.25x | 1.25-1.25 | NOT MET |" in page
    assert "| start of a pod, p50 | <= 0.8x | - | - | not measured |" in page
    assert page.startswith("## Pods\n")
    assert "shortened to 0.2 of the pods" in page
