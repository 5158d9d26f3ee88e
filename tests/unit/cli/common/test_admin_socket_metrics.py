"""What other machines may read of a daemon."""

from interpose.cli.common.admin_socket import open_routes
from interpose.net.httpd.health import health_routes
from interpose.net.httpd.routes import ServerRequest, ServerResponse


async def answer(_request: ServerRequest) -> ServerResponse:
    """Anything."""
    return ServerResponse()


def test_only_health_and_metrics_are_open() -> None:
    """Nothing that shows more, nothing that changes something."""
    routes = {
        **health_routes([], []),
        ("GET", "/metrics"): answer,
        ("GET", "/v1/status"): answer,
        ("PUT", "/v1/log-level"): answer,
        ("POST", "/metrics"): answer,
        ("GET", "/metricsx"): answer,
    }
    assert sorted(open_routes(routes)) == [
        ("GET", "/healthz"),
        ("GET", "/healthz/*"),
        ("GET", "/livez"),
        ("GET", "/livez/*"),
        ("GET", "/metrics"),
        ("GET", "/readyz"),
        ("GET", "/readyz/*"),
    ]
