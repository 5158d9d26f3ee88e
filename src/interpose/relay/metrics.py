"""Metric families of the relay's counters. Reads plain lists at a scrape; counts nothing itself."""

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Protocol

from interpose.metrics import Buckets, Family, Sample
from interpose.net.grpc.status import Code
from interpose.relay.api import Backend
from interpose.relay.stats import BOUNDS, MethodStats
from interpose.relay.subscriptions import Subscriptions


def call_collector(relay: Subscriptions) -> Callable[[], Iterable[Family]]:
    """Calls by method: counts, durations, bytes."""

    def collect() -> Iterable[Family]:
        seen = [stats for stats in relay.routes.stats() if stats.started]
        yield Family(
            "interpose_cri_requests_total",
            "counter",
            "Calls that ended, by gRPC status code. Paths that are no CRI method share the label other.",
            [
                Sample(count, labels(stats) | {"code": Code(code).name})
                for stats in seen
                for code, count in enumerate(stats.codes)
                if count
            ],
        )
        yield Family(
            "interpose_cri_request_duration_seconds",
            "histogram",
            "Duration of calls: phase backend is from sending on to the end of the reply, phase own is what calls "
            "spent here before (waiting for the backend, interceptors).",
            [bucket for stats in seen for bucket in _durations(stats)],
        )
        yield _counters(seen, "resets", "Calls that one side reset before their end.", lambda one: one.resets)
        yield _counters(seen, "received_bytes", "Request bytes from clients.", lambda one: one.bytes_received)
        yield _counters(seen, "sent_bytes", "Reply bytes to clients.", lambda one: one.bytes_sent)
        yield Family(
            "interpose_cri_in_flight_requests",
            "gauge",
            "Calls in flight.",
            [Sample(stats.in_flight, labels(stats)) for stats in seen],
        )
        yield from _seams(relay)

    return collect


def labels(stats: MethodStats) -> dict[str, str]:
    """The labels of a method's metrics."""
    return {"service": stats.service, "method": stats.method}


def _counters(seen: list[MethodStats], name: str, text: str, value: Callable[[MethodStats], int]) -> Family:
    samples = [Sample(value(stats), labels(stats)) for stats in seen]
    return Family(f"interpose_cri_{name}_total", "counter", text, samples)


def _durations(stats: MethodStats) -> list[Buckets]:
    # Calls that went straight on spent microseconds here; they are not recorded one by one.
    straight = sum(stats.codes) - sum(stats.own_buckets)
    own = [stats.own_buckets[0] + max(straight, 0), *stats.own_buckets[1:]]
    return [
        Buckets(BOUNDS, list(stats.backend_buckets), stats.backend_sum, labels(stats) | {"phase": "backend"}),
        Buckets(BOUNDS, own, stats.own_sum, labels(stats) | {"phase": "own"}),
    ]


def _seams(relay: Subscriptions) -> Iterable[Family]:
    if relay.tap_registry is not None:
        yield Family(
            "interpose_tap_errors_total",
            "counter",
            "Exceptions of taps; the call did not notice.",
            [Sample(count, {"tap": name}) for name, count in relay.tap_registry.failures().items()],
        )
    if relay.call_runner is None:
        return
    yield Family(
        "interpose_interceptor_errors_total",
        "counter",
        "Exceptions of interceptors; the call passed without them.",
        [
            Sample(count, {"interceptor": name, "method": method, "proceed": when})
            for (name, method, when), count in relay.call_runner.chain.failures().items()
        ],
    )
    yield Family(
        "interpose_stream_editor_errors_total",
        "counter",
        "Messages of streams that passed as they came because an editor failed or they could not be read.",
        [
            Sample(count, {"editor": name, "method": method})
            for (name, method), count in relay.editors.failures().items()
        ],
    )


class ListenerCounters(Protocol):
    """A listener, as far as its numbers go."""

    @property
    def links(self) -> Sized: ...

    @property
    def accepted(self) -> int: ...

    @property
    def refused(self) -> int: ...

    @property
    def evicted(self) -> int: ...

    @property
    def faults(self) -> Mapping[str, int]: ...


def connection_collector(listener: ListenerCounters) -> Callable[[], Iterable[Family]]:

    def collect() -> Iterable[Family]:
        yield Family("interpose_connections", "gauge", "Client connections.", [Sample(len(listener.links))])
        yield Family(
            "interpose_connections_total", "counter", "Client connections accepted.", [Sample(listener.accepted)]
        )
        yield Family(
            "interpose_connections_refused_total",
            "counter",
            "Connections refused: peer not allowed, or too many.",
            [Sample(listener.refused)],
        )
        yield Family(
            "interpose_connections_evicted_total",
            "counter",
            "Idle connections that were closed to make room for others.",
            [Sample(listener.evicted)],
        )
        yield Family(
            "interpose_protocol_errors_total",
            "counter",
            "Client connections ended because the peer broke the protocol, by HTTP/2 error code; in front "
            "of dockerd by what was wrong.",
            [Sample(count, {"code": code}) for code, count in listener.faults.items()],
        )

    return collect


def backend_collector(upstreams: Mapping[str, Backend]) -> Callable[[], Iterable[Family]]:
    """Backends by role: runtime, image."""

    def collect() -> Iterable[Family]:
        def each(value: Callable[[Backend], float]) -> list[Sample]:
            return [Sample(value(upstream), {"backend": role}) for role, upstream in upstreams.items()]

        yield Family("interpose_backend_up", "gauge", "1 while a backend is connected.", each(lambda one: one.up))
        yield Family(
            "interpose_backend_connections", "gauge", "Connections to a backend.", each(lambda one: one.connections)
        )
        yield Family("interpose_backend_dials_total", "counter", "Attempts to connect.", each(lambda one: one.dials))
        yield Family(
            "interpose_backend_dial_failures_total",
            "counter",
            "Attempts to connect that failed.",
            each(lambda one: one.failures),
        )

    return collect
