"""HTTP calls as Prometheus sees them."""

from interpose.metrics import expose
from interpose.relay.docker.metrics import endpoint_collector
from interpose.relay.docker.stats import EndpointStats


class _Link:
    def __init__(self, *, tunnelled: bool) -> None:
        self.tunnelled = tunnelled


class _Parts:
    def __init__(self) -> None:
        self.endpoints = {name: EndpointStats(name) for name in ("GET /a", "GET /b")}
        self.links = [_Link(tunnelled=True), _Link(tunnelled=False)]


def test_what_was_called_is_shown() -> None:
    """By endpoint and class of status; endpoints nobody called are left out."""
    parts = _Parts()
    stats = parts.endpoints["GET /a"]
    stats.started = 3
    stats.finish(200, 0.001)
    stats.finish(0, 0.001)
    stats.bytes_received, stats.bytes_sent = 5, 7
    text = expose(list(endpoint_collector(parts, parts)()))[1].decode()
    assert 'interpose_docker_requests_total{endpoint="GET /a",status="2xx"} 1.0' in text
    assert 'interpose_docker_requests_total{endpoint="GET /a",status="none"} 1.0' in text
    assert 'interpose_docker_in_flight_requests{endpoint="GET /a"} 1.0' in text
    assert 'interpose_docker_received_bytes_total{endpoint="GET /a"} 5.0' in text
    assert 'interpose_docker_sent_bytes_total{endpoint="GET /a"} 7.0' in text
    assert 'interpose_docker_request_duration_seconds_count{endpoint="GET /a"} 2.0' in text
    assert "interpose_docker_tunnels 1.0" in text
    assert "GET /b" not in text
