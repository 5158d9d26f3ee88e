"""The metrics route serves what the collectors say."""

from collections.abc import Iterable

from interpose.metrics import Family, Sample
from interpose.net.httpd.health import metrics_route
from interpose.net.httpd.routes import ServerRequest, ServerResponse


async def test_the_scrape_is_answered_in_the_accepted_format() -> None:
    """Each scrape asks the collectors anew and follows the Accept header."""
    value = [1]

    def collect() -> Iterable[Family]:
        yield Family("interpose_x", "gauge", "X.", [Sample(value[0])])

    handler = metrics_route([collect])["GET", "/metrics"]
    first = await handler(ServerRequest(method="GET", path="/metrics"))
    value[0] = 2
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    second = await handler(ServerRequest(method="GET", path="/metrics", headers=accept))
    assert isinstance(first, ServerResponse)
    assert isinstance(second, ServerResponse)
    assert b"interpose_x 1.0" in first.body
    assert b"interpose_x 2.0" in second.body
    assert second.content_type.startswith("application/openmetrics-text")
