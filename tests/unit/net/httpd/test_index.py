"""The list of endpoints at `/`."""

import json
import re
from pathlib import Path

import interpose
from interpose.cli.relay.admin import DUMP
from interpose.net.httpd.health import LOG_LEVEL
from interpose.net.httpd.index import ENDPOINTS, with_index
from interpose.net.httpd.routes import Router, ServerRequest, ServerResponse, text_response
from interpose.relay.restart.takeover import PATH as TAKE_OVER

ROUTE = re.compile(r'[\s{]\("(GET|PUT|POST)", ("/[^"]*"|LOG_LEVEL)\):')


async def nothing(_request: ServerRequest) -> ServerResponse:
    return text_response("")


ROUTES = {(method, "/v1/log-level"): nothing for method in ("PUT", "GET")} | {
    ("GET", path): nothing for path in ("/v1/status", "/v1/new")
}


async def answer(**headers: str) -> ServerResponse:
    """What is at `/`."""
    found = with_index(ROUTES)["GET", "/"]
    response = await found(ServerRequest(method="GET", path="/", headers=headers))
    assert isinstance(response, ServerResponse)
    return response


async def test_people_get_lines() -> None:
    """By path, with what is there; what nobody has described is listed as well."""
    assert (await answer()).body.decode().splitlines() == [
        "GET  /              this list",
        "GET  /v1/log-level  the level of the log",
        'PUT  /v1/log-level  changes it: {"level": "debug"}',
        "GET  /v1/new",
        "GET  /v1/status     what it does now",
    ]


async def test_programs_get_json() -> None:
    """If they say so."""
    found = json.loads((await answer(accept="application/json")).body)["endpoints"]
    assert found[-1] == {"method": "GET", "path": "/v1/status", "about": "what it does now"}


def test_a_path_that_is_not_there_leads_to_the_list() -> None:
    """Where there is one."""
    with_list, without = (Router(routes).find("GET", "/x") for routes in (with_index(ROUTES), ROUTES))
    assert isinstance(with_list, ServerResponse)
    assert isinstance(without, ServerResponse)
    assert b"there is nothing at /x; GET / lists what there is" in with_list.body
    assert b'there is nothing at /x"' in without.body


def test_every_endpoint_of_every_daemon_is_described() -> None:
    """Found in the source of those who answer."""
    folder = Path(interpose.__file__).parent
    found = {DUMP, TAKE_OVER}
    for path in (*folder.glob("cli/**/*.py"), *folder.glob("net/httpd/*.py")):
        for method, name in ROUTE.findall(path.read_text()):
            place = LOG_LEVEL if name == "LOG_LEVEL" else name.strip('"')
            found.add(place if method == "GET" else f"{method} {place}")
    assert {"/v1/status", "/v1/policy/containers/*", "/metrics", "PUT /v1/log-level"} <= found
    assert found <= set(ENDPOINTS)
