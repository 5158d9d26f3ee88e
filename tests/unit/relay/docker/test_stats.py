"""Counters of HTTP calls."""

from interpose.relay.docker.stats import EndpointStats
from interpose.relay.stats import BOUNDS


def test_calls_are_in_flight_until_they_end() -> None:
    """Whatever they end with."""
    stats = EndpointStats("GET /x")
    stats.started = 3
    assert stats.in_flight == 3
    stats.finish(200, 0.1)
    stats.finish(0, 0.1)
    assert stats.in_flight == 1


def test_failures_are_errors_and_missing_answers() -> None:
    """A redirect or an upgrade is none; a status nobody knows counts as no answer."""
    stats = EndpointStats("GET /x")
    for status in (0, 101, 204, 304, 404, 500, 999):
        stats.finish(status, 0.0)
    assert stats.statuses == [2, 1, 1, 1, 1, 1]
    assert stats.failed == 4


def test_durations_go_to_their_bucket() -> None:
    """The last one takes what is longer than all bounds."""
    stats = EndpointStats("GET /x")
    stats.finish(200, BOUNDS[0])
    stats.finish(200, BOUNDS[-1] * 2)
    assert stats.duration_buckets[0] == stats.duration_buckets[-1] == 1
    assert stats.duration_sum == BOUNDS[0] + BOUNDS[-1] * 2


def test_a_row_for_a_list() -> None:
    """Without a mean as long as nothing ended."""
    stats = EndpointStats("GET /x")
    stats.started = 2
    assert stats.row()["mean_ms"] is None
    stats.finish(500, 0.002)
    stats.bytes_received, stats.bytes_sent = 10, 20
    assert stats.row() == {
        "service": "docker",
        "method": "GET /x",
        "calls": 2,
        "in_flight": 1,
        "failed": 1,
        "mean_ms": 2.0,
        "received_bytes": 10,
        "sent_bytes": 20,
    }
