"""The routes that every daemon has: health in the form of Kubernetes components, metrics, and the log level.

`/livez` says that this process works; it must not depend on the backend, or a dead runtime would restart the relay in
circles. `/readyz` says that calls succeed. `/healthz` is the old name of `/livez`. The status code is the contract,
the text is for people: `?verbose` lists the checks, `&exclude=NAME` leaves one out, `/readyz/NAME` asks for one.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from interpose.log import LogControl
from interpose.metrics import Collector, expose, gather
from interpose.net.httpd.routes import (
    BadRequestError,
    Handler,
    RouteTable,
    ServerRequest,
    ServerResponse,
    error_response,
    json_response,
    text_response,
)


@dataclass(frozen=True, slots=True)
class Check:
    """One named question; `probe` returns None when all is well, else the reason. It must answer at once.

    `remark` is for people who want details: what is worth knowing although all is well; empty if nothing is.
    """

    name: str
    probe: Callable[[], str | None]
    remark: Callable[[], str] = lambda: ""


def health_routes(live: Sequence[Check], ready: Sequence[Check]) -> RouteTable:
    """Routes for /livez, /readyz and /healthz with their single checks."""
    routes: dict[tuple[str, str], Handler] = {}
    for name, checks in (("livez", live), ("readyz", ready), ("healthz", live)):
        routes["GET", f"/{name}"] = _all_checks(name, checks)
        routes["GET", f"/{name}/*"] = _one_check(name, checks)
    return routes


def _all_checks(name: str, checks: Sequence[Check]) -> Handler:
    async def handler(request: ServerRequest) -> ServerResponse:
        names = [key for key, _ in request.query]
        excluded = {value for key, value in request.query if key == "exclude"}
        return report(name, checks, excluded, verbose="verbose" in names)

    return handler


def _one_check(name: str, checks: Sequence[Check]) -> Handler:
    async def handler(request: ServerRequest) -> ServerResponse:
        chosen = [check for check in checks if check.name == request.rest]
        if not chosen:
            return error_response(404, f"{name} has no check {request.rest!r}")
        return report(name, chosen, set(), verbose=any(key == "verbose" for key, _ in request.query))

    return handler


def report(name: str, checks: Sequence[Check], excluded: set[str], *, verbose: bool) -> ServerResponse:
    """Run the checks: 200 when all that count pass, else 503 with the list of those that fail."""
    lines = []
    healthy = True
    for check in checks:
        if check.name in excluded:
            lines.append(f"[+]{check.name} excluded: ok")
            continue
        problem = _run_probe(check)
        healthy = healthy and problem is None
        lines.append(f"[+]{check.name} ok{_remark(check)}" if problem is None else f"[-]{check.name} failed: {problem}")
    unknown = sorted(excluded - {check.name for check in checks})
    if unknown:
        lines.append(f"warn: some checks cannot be excluded: no matches for {', '.join(map(repr, unknown))}")
    if healthy and not verbose:
        return text_response("ok")
    lines.append(f"{name} check {'passed' if healthy else 'failed'}")
    return text_response("\n".join(lines) + "\n", 200 if healthy else 503)


def _run_probe(check: Check) -> str | None:
    try:
        return check.probe()
    except Exception as error:  # a broken check is a failed check, never a broken probe
        return f"{type(error).__name__}: {error}"


def _remark(check: Check) -> str:
    try:
        remark = check.remark()
    except Exception as error:
        remark = f"{type(error).__name__}: {error}"
    return f", {remark}" if remark else ""


LOG_LEVEL = "/v1/log-level"


def log_level_routes(log: LogControl) -> RouteTable:
    """GET shows the level, PUT sets it: `{"level": "debug"}`."""

    async def get(_request: ServerRequest) -> ServerResponse:
        return json_response({"level": log.level})

    async def put(request: ServerRequest) -> ServerResponse:
        wanted = request.json()
        if not isinstance(wanted, dict) or not isinstance(wanted.get("level"), str):
            raise BadRequestError('expected {"level": "debug|info|warning|error"}')
        try:
            log.set_level(wanted["level"])
        except ValueError as error:
            raise BadRequestError(str(error)) from None
        return await get(request)

    return {("GET", LOG_LEVEL): get, ("PUT", LOG_LEVEL): put}


def metrics_route(collectors: Sequence[Collector]) -> RouteTable:
    """GET /metrics in the format the scraper asks for.

    Families are gathered on the loop, where their owners live; writing them (and importing the library that does)
    takes milliseconds and happens in a thread.
    """

    async def handler(request: ServerRequest) -> ServerResponse:
        families = gather(collectors)
        content_type, body = await asyncio.to_thread(expose, families, request.headers.get("accept", ""))
        return ServerResponse(content_type=content_type, body=body)

    routes: dict[tuple[str, str], Handler] = {("GET", "/metrics"): handler}
    return routes
