"""Seeing and changing the log level of a running process, the same in every daemon."""

from interpose.log import LogControl
from interpose.net.httpd.routes import BadRequestError, Request, Response, RouteTable, json_response

PATH = "/v1/log-level"


def log_level_routes(log: LogControl) -> RouteTable:
    """GET tells the level, PUT sets it: `{"level": "debug"}`."""

    async def get(_request: Request) -> Response:
        return json_response({"level": log.level})

    async def put(request: Request) -> Response:
        wanted = request.json()
        if not isinstance(wanted, dict) or not isinstance(wanted.get("level"), str):
            raise BadRequestError('expected {"level": "debug|info|warning|error"}')
        try:
            log.set_level(wanted["level"])
        except ValueError as error:
            raise BadRequestError(str(error)) from None
        return await get(request)

    return {("GET", PATH): get, ("PUT", PATH): put}
