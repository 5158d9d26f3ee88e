"""What neighbours saw: medians of rounds, what the goal is, and what was missed."""

from __future__ import annotations

from typing import Any

import pytest

from bench.contestants import contestants
from bench.neighbours import choose, longest_lag
from bench.neighbours_report import NeighbourResults, NeighbourSample, page, tables, verdict
from tests.support.hostile.attacks import ATTACKS

CASE = ("rapid-reset", "4p")


def sample(who: str, **values: Any) -> NeighbourSample:
    """One run; what is not said went well."""
    usual: dict[str, Any] = {"round": 0, "calls": 400, "failed": 0, "worst": 0.02, "p99": 0.01, "rss": 40_000_000}
    usual |= {"lag": None, "cut": 0, "attackers": 4, "sent": 1000}
    return NeighbourSample(contestant=who, attack=CASE[0], connections=CASE[1], **{**usual, **values})


def results(*samples: NeighbourSample) -> NeighbourResults:
    """All that these say."""
    people = [one for one in contestants() if one.name in ("haproxy", "interpose")]
    return NeighbourResults(
        machine="a machine", rounds=1, scale=1.0, seconds=4.0, rate=200, contestants=people, samples=samples
    )


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    [
        ({"worst": 0.099}, 0.01, "met"),
        ({"worst": 0.101}, 0.01, "waits"),
        ({"worst": 0.3}, 0.4, "met"),
        ({"worst": 0.5}, 0.4, "waits"),
        ({"failed": 1}, 0.01, "fails"),
        ({"rss": 151_000_000, "failed": 2, "worst": 2.0}, 0.01, "waits, fails, memory"),
    ],
)
def test_the_goal_is_what_the_yardstick_shows_or_a_tenth_of_a_second(
    ours: dict[str, Any], theirs: float, expected: str
) -> None:
    """And no failed call, and bounded memory."""
    assert verdict(results(sample("haproxy", worst=theirs), sample("interpose", **ours)), CASE) == expected


def test_a_row_shows_both_proxies_and_what_ours_paid() -> None:
    """The median over rounds of the worst call, the sum of failed ones."""
    rounds = [sample("haproxy", worst=0.03)]
    rounds += [sample("interpose", worst=worst, failed=1, lag=0.005) for worst in (0.01, 0.02, 0.9)]
    (table,) = tables(results(*rounds))
    assert table.rows == [("rapid-reset", "4p", "30", "0", "20", "3", "10", "40", "5", "fails")]
    assert "| rapid-reset | 4p | 30 | 0 | 20 | 3 | 10 | 40 | 5 | fails |" in page(results(*rounds))


def test_the_longest_lag_is_the_highest_bucket_that_grew() -> None:
    """Buckets are cumulative; what was there before does not count."""
    before = {0.001: 5, 0.01: 6, 1.0: 9, float("inf"): 9}
    assert longest_lag(before, {0.001: 7, 0.01: 9, 1.0: 12, float("inf"): 12}) == 0.01
    assert longest_lag(before, {0.001: 5, 0.01: 6, 1.0: 9, float("inf"): 10}) == float("inf")


def test_attacks_are_chosen_by_name_and_group() -> None:
    """A neighbour without an attack is always there to compare with."""
    people = contestants()
    assert choose("", people) == (list(people), [None, *ATTACKS])
    chosen, rows = choose("haproxy,windows,ping", people)
    assert [one.name for one in chosen] == ["haproxy"]
    assert {row.group for row in rows if row is not None} == {"windows", "control frames"}
    with pytest.raises(SystemExit, match="unknown nothing"):
        choose("nothing", people)
