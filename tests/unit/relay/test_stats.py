"""Counters of one method."""

from interpose.relay.stats import BOUNDS, MethodStats


def test_in_flight_is_what_began_and_did_not_end() -> None:
    """Any code ends a call."""
    stats = MethodStats("s", "m")
    stats.started = 3
    stats.finish(0, 0.1)
    stats.finish(14, 0.1)
    assert (stats.in_flight, stats.codes[0], stats.codes[14]) == (1, 1, 1)


def test_durations_fall_into_buckets() -> None:
    """A bound belongs to its own bucket, above the last is one more."""
    stats = MethodStats("s", "m")
    for seconds in (0.0, BOUNDS[0], BOUNDS[0] + 1e-9, 1e9):
        stats.finish(0, seconds)
    assert (stats.backend_buckets[0], stats.backend_buckets[1], stats.backend_buckets[-1]) == (2, 1, 1)
    assert sum(stats.backend_buckets) == 4
    assert stats.backend_sum > 1e9 - 1
    stats.spent(0.3)
    assert (sum(stats.own_buckets), stats.own_sum) == (1, 0.3)
