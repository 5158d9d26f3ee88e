"""Metrics of the webhook, read from its parts when somebody scrapes."""

from collections.abc import Callable, Iterable

from interpose.kube.webhook.certificates import Certificates
from interpose.kube.webhook.review import OPERATIONS, OTHER, Result
from interpose.kube.webhook.stats import BOUNDS, ERROR, Stats
from interpose.metrics import Buckets, Collector, Family, Kind, Sample
from interpose.net.httpd.server import AdminServer

_PREFIX = "interpose_webhook"
# There from the start: a counter that appears with its first event hides that event.
_EXPECTED = (
    *((operation, result.value, False) for operation in OPERATIONS[:2] for result in Result),
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
