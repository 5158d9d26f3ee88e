"""Health answers follow the conventions of Kubernetes components."""

import pytest

from interpose.net.httpd.health import Check, health_routes
from interpose.net.httpd.routes import RouteMatch, Router, ServerRequest, ServerResponse

BACKEND_DOWN = "dial /run/x.sock: refused"


def _broken() -> str | None:
    raise RuntimeError("oops")


def _broken_remark() -> str:
    raise RuntimeError("oops")


LIVE = [Check("ping", lambda: None)]
READY = [Check("listening", lambda: None), Check("backend", lambda: BACKEND_DOWN)]


async def _get(path: str, *query: tuple[str, str], ready: list[Check] | None = None) -> ServerResponse:
    match = Router(health_routes(LIVE, READY if ready is None else ready)).find("GET", path)
    if isinstance(match, ServerResponse):
        return match
    assert isinstance(match, RouteMatch)
    answer = await match.handler(ServerRequest(method="GET", path=path, query=query, rest=match.rest))
    assert isinstance(answer, ServerResponse)
    return answer


@pytest.mark.parametrize("path", ["/livez", "/healthz", "/livez/ping", "/readyz/listening"])
async def test_healthy_is_200_ok(path: str) -> None:
    """A probe gets the shortest possible answer."""
    answer = await _get(path)
    assert (answer.status, answer.body) == (200, b"ok")


async def test_liveness_does_not_see_the_backend() -> None:
    """A dead backend makes the relay unready, never unalive."""
    assert (await _get("/livez")).status == 200
    assert (await _get("/readyz")).status == 503


async def test_a_failure_lists_all_checks_with_the_reason() -> None:
    """Without asking for verbose, an operator sees what is wrong."""
    answer = await _get("/readyz")
    assert answer.body.decode() == f"[+]listening ok\n[-]backend failed: {BACKEND_DOWN}\nreadyz check failed\n"


async def test_verbose_lists_the_checks_of_a_healthy_process() -> None:
    """Success can be explained too."""
    answer = await _get("/livez", ("verbose", ""))
    assert answer.body == b"[+]ping ok\nlivez check passed\n"


async def test_checks_can_be_excluded() -> None:
    """An excluded check does not count; an unknown name is pointed out."""
    answer = await _get("/readyz", ("verbose", ""), ("exclude", "backend"), ("exclude", "bakend"))
    assert answer.status == 200
    assert answer.body.decode().splitlines() == [
        "[+]listening ok",
        "[+]backend excluded: ok",
        "warn: some checks cannot be excluded: no matches for 'bakend'",
        "readyz check passed",
    ]


async def test_one_check_can_be_asked_alone() -> None:
    """/readyz/NAME answers for one check; unknown names are 404."""
    assert (await _get("/readyz/backend")).status == 503
    assert (await _get("/readyz/nothing")).status == 404


async def test_a_check_that_raises_has_failed() -> None:
    """A broken check never breaks the probe."""
    answer = await _get("/readyz", ready=[Check("broken", _broken)])
    assert answer.status == 503
    assert b"[-]broken failed: RuntimeError: oops" in answer.body


async def test_what_is_worth_knowing_is_told_to_those_who_ask_for_details() -> None:
    """A remark changes nothing about the outcome, not even one that cannot be made."""
    check = Check("certificate", lambda: None, lambda: "valid until tomorrow")
    assert (await _get("/readyz", ready=[check])).body == b"ok"
    answer = await _get("/readyz", ("verbose", ""), ready=[check, Check("odd", lambda: None, _broken_remark)])
    assert answer.status == 200
    assert b"[+]certificate ok, valid until tomorrow\n[+]odd ok, RuntimeError: oops\n" in answer.body
