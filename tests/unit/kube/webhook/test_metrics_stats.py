"""Counting."""

from interpose.kube.webhook.metrics import BOUNDS, Stats


def test_requests_are_counted_by_what_became_of_them_and_how_long_they_took() -> None:
    """A time that is exactly a bound belongs to its bucket, one above all of them to the last."""
    stats = Stats()
    stats.count("CREATE", "patched", BOUNDS[1])
    stats.count("CREATE", "patched", BOUNDS[-1] + 1, dry_run=True)
    assert stats.requests == {("CREATE", "patched", False): 1, ("CREATE", "patched", True): 1}
    assert (stats.buckets[1], stats.buckets[-1], sum(stats.buckets)) == (1, 1, 2)
    assert stats.seconds == BOUNDS[1] + BOUNDS[-1] + 1
