"""Counters of admission requests, and the metrics of the webhook that are read from its parts at each scrape."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable

from interpose.kube.webhook.certificates import Certificates
from interpose.kube.webhook.review import OPERATIONS, OTHER, ReviewResult
from interpose.metrics import Buckets, Collector, Family, Kind, Sample
from interpose.net.httpd.server import AdminServer

# Seconds. A pod takes a fraction of a millisecond; API servers give up after some seconds.
BOUNDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
ERROR = "error"  # a request that could not be answered by a review


class Stats:
    """Counters of one webhook."""

    def __init__(self) -> None:
        self.requests: Counter[tuple[str, str, bool]] = Counter()  # operation, result, dry run
        self.buckets = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.handshake_failures = 0

    def count(self, operation: str, result: str, seconds: float, *, dry_run: bool = False) -> None:
        """One request was answered."""
        self.requests[operation, result, dry_run] += 1
        self.buckets[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


_PREFIX = "interpose_webhook"
# There from the start: a counter that appears with its first event hides that event.
_EXPECTED = (
    *((operation, result.value, False) for operation in OPERATIONS[:2] for result in ReviewResult),
    (OTHER, ERROR, False),
)


def request_collector(stats: Stats) -> Collector:
    """What became of requests."""

    def collect() -> Iterable[Family]:
        rows: dict[tuple[str, str, bool], int] = dict.fromkeys(_EXPECTED, 0)
        rows |= stats.requests
        yield _family(
            "requests_total",
            "counter",
            "Requests by operation, by what became of them, and whether they were trials only (dry run). error: no "
            "review could be answered.",
            [
                Sample(count, {"operation": operation, "result": result, "dry_run": str(dry_run).lower()})
                for (operation, result, dry_run), count in sorted(rows.items())
            ],
        )
        yield Family(
            f"{_PREFIX}_request_seconds",
            "histogram",
            "Time from the last byte of a request to its answer.",
            [Buckets(BOUNDS, list(stats.buckets), stats.seconds)],
        )

    return collect


def connection_collector(stats: Stats, server: Callable[[], AdminServer]) -> Collector:
    """Who is connected and who could not."""

    def collect() -> Iterable[Family]:
        yield _gauge("requests_in_flight", "Requests that are being received or answered, scrapes too.", server().busy)
        yield _gauge("connections", "Clients connected now.", server().connections)
        yield _counter("connections_refused_total", "Clients turned away because of the limit.", server().refused)
        yield _counter("connections_cut_total", "Idle clients disconnected to make room for others.", server().cut)
        yield _counter(
            "tls_handshake_failures_total", "Connections on which TLS came to nothing.", stats.handshake_failures
        )

    return collect


def certificate_collector(certificates: Certificates) -> Collector:
    """How long the certificate is good, and whether newer files could be used."""

    def collect() -> Iterable[Family]:
        yield _gauge(
            "certificate_not_after_timestamp_seconds",
            "When the certificate that is served expires, in seconds since the epoch.",
            certificates.validity.not_after,
        )
        yield _family(
            "certificate_reloads_total",
            "counter",
            "Changed certificate files that were taken into use, or could not be.",
            [Sample(count, {"result": result}) for result, count in sorted(certificates.reloads.items())],
        )
        yield _gauge(
            "certificate_stale",
            "Whether the files cannot be used, so that an older certificate is served.",
            float(bool(certificates.stale)),
        )

    return collect


def _family(name: str, kind: Kind, text: str, samples: list[Sample]) -> Family:
    return Family(f"{_PREFIX}_{name}", kind, text, samples)


def _gauge(name: str, text: str, value: float) -> Family:
    return _family(name, "gauge", text, [Sample(value)])


def _counter(name: str, text: str, value: float) -> Family:
    return _family(name, "counter", text, [Sample(value)])
