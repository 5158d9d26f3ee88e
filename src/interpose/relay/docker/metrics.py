"""Metric families of the counters of HTTP calls. Reads plain numbers at a scrape."""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from interpose.metrics import Buckets, Family, Sample
from interpose.relay.docker.stats import CLASSES, EndpointStats
from interpose.relay.stats import BOUNDS


class EndpointCounters(Protocol):
    """Who has the counters."""

    @property
    def endpoints(self) -> Mapping[str, EndpointStats]: ...


class TunnelLink(Protocol):
    """A connection of a client, for its tunnel."""

    @property
    def tunnelled(self) -> bool: ...


class ConnectionOwner(Protocol):
    """Who has the connections."""

    @property
    def links(self) -> Collection[TunnelLink]: ...


def endpoint_collector(relay: EndpointCounters, listener: ConnectionOwner) -> Callable[[], Iterable[Family]]:
    """HTTP calls by endpoint: counts, durations, bytes, and raw streams that are open."""

    def collect() -> Iterable[Family]:
        seen = [stats for stats in relay.endpoints.values() if stats.started]
        yield Family(
            "interpose_docker_requests_total",
            "counter",
            "HTTP calls that ended, by the first digit of their status; none is a call without an answer.",
            [
                Sample(count, _labels(stats) | {"status": status})
                for stats in seen
                for status, count in zip(CLASSES, stats.statuses, strict=True)
                if count
            ],
        )
        # Without a label, so that it is there before the first one: an alert counts it.
        yield Family(
            "interpose_docker_unanswered_total",
            "counter",
            "HTTP calls that ended without an answer of dockerd or of ours.",
            [Sample(sum(stats.statuses[0] for stats in seen))],
        )
        yield Family(
            "interpose_docker_request_duration_seconds",
            "histogram",
            "Duration of HTTP calls, from the head of the request to the end of the answer or of the raw stream.",
            [Buckets(BOUNDS, list(stats.duration_buckets), stats.duration_sum, _labels(stats)) for stats in seen],
        )
        yield _counters(seen, "received_bytes", "Bytes of requests from clients.", lambda one: one.bytes_received)
        yield _counters(seen, "sent_bytes", "Bytes of answers to clients.", lambda one: one.bytes_sent)
        yield Family(
            "interpose_docker_in_flight_requests",
            "gauge",
            "HTTP calls in flight, open raw streams among them.",
            [Sample(stats.in_flight, _labels(stats)) for stats in seen],
        )
        yield Family(
            "interpose_docker_tunnels",
            "gauge",
            "Raw streams that are open: attach, exec, sessions.",
            [Sample(sum(link.tunnelled for link in listener.links))],
        )

    return collect


def _labels(stats: EndpointStats) -> dict[str, str]:
    return {"endpoint": stats.endpoint}


def _counters(seen: list[EndpointStats], name: str, text: str, value: Callable[[EndpointStats], int]) -> Family:
    samples = [Sample(value(stats), _labels(stats)) for stats in seen]
    return Family(f"interpose_docker_{name}_total", "counter", text, samples)
