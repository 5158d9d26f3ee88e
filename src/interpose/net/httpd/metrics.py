"""The /metrics route."""

import asyncio
from collections.abc import Sequence

from interpose.metrics import Collector, expose, gather
from interpose.net.httpd.routes import Handler, Request, Response, RouteTable


def metrics_route(collectors: Sequence[Collector]) -> RouteTable:
    """GET /metrics in the format the scraper asks for.

    Families are gathered on the loop, where their owners live; writing them (and importing the library that does)
    takes milliseconds and happens in a thread.
    """

    async def handler(request: Request) -> Response:
        families = gather(collectors)
        content_type, body = await asyncio.to_thread(expose, families, request.headers.get("accept", ""))
        return Response(content_type=content_type, body=body)

    routes: dict[tuple[str, str], Handler] = {("GET", "/metrics"): handler}
    return routes
