"""`interpose explain` asks the relay why."""

import json
from collections.abc import Callable

from click.testing import CliRunner, Result

from interpose.cli.main import cli
from interpose.cli.render.assignments import NOT_LISTED, assignments_text
from interpose.cli.render.explain import explain_text
from interpose.net.httpd.routes import RouteTable, ServerRequest, ServerResponse, error_response, json_response

ANSWER = {"container": "ns/p/c", "id": "abc", "decision": {"reason": "there was room"}}
ASSIGNED = [{"container": "ns/p/c", "qos": "Guaranteed", "cpu_milli": 2000, "cpus": "2-3"}]


async def container(request: ServerRequest) -> ServerResponse:
    """What a relay with two containers says."""
    if request.rest in ("ns/p/c", "ns/p d/c"):
        return json_response(ANSWER)
    if request.rest == "p":
        return json_response({"pods": ["ns/p"], "containers": ASSIGNED})
    if request.rest == "early":
        return error_response(503, "it is not known yet")
    if request.rest == "broken":
        return error_response(500, "a bug")
    matches = ["ns/p/c (abc)", "ns/q/c (abd)"] if request.rest == "c" else []
    return json_response({"error": f"not one container is called {request.rest}", "matches": matches}, status=404)


async def policy(request: ServerRequest) -> ServerResponse:
    """All of them."""
    return json_response({"policy": "static", "assignments": ASSIGNED})


ROUTES = {("GET", "/v1/policy"): policy, ("GET", "/v1/policy/containers/*"): container}


def run(address: str, *arguments: str) -> Result:
    """The command."""
    return CliRunner().invoke(cli, ["explain", *arguments, "--admin", address])


def test_a_container_is_explained(serve: Callable[[RouteTable], str]) -> None:
    """As text, or as it came; names may have any letters."""
    address = serve(ROUTES)
    assert run(address, "ns/p/c").output == explain_text(ANSWER) + "\n"
    assert json.loads(run(address, "ns/p/c", "-o", "json").output) == ANSWER
    assert run(address, "ns/p d/c").exit_code == 0


def test_without_a_container_all_are_listed(serve: Callable[[RouteTable], str]) -> None:
    """As text, or as they came."""
    address = serve(ROUTES)
    assert run(address).output == assignments_text(ASSIGNED) + "\n"
    assert json.loads(run(address, "-o", "json").output) == ASSIGNED


def test_a_name_of_several_is_answered_with_their_names(serve: Callable[[RouteTable], str]) -> None:
    """So that the next try is right."""
    result = run(serve(ROUTES), "c")
    assert result.exit_code == 1
    assert result.stderr == "error: not one container is called c\n  ns/p/c (abc)\n  ns/q/c (abd)\n"


def test_a_name_of_nobody_is_an_error(serve: Callable[[RouteTable], str]) -> None:
    """Exit code 1, as for any other trouble of the relay's."""
    address = serve(ROUTES)
    result = run(address, "nobody")
    assert (result.exit_code, result.stderr) == (1, "error: not one container is called nobody\n")
    assert "a bug (500)" in run(address, "broken").stderr


def test_a_relay_without_a_policy_is_said_to_have_none(serve: Callable[[RouteTable], str]) -> None:
    """With and without a container."""
    address = serve({})
    for arguments in ((), ("x",)):
        result = run(address, *arguments)
        assert result.exit_code == 1
        assert "has no policy" in result.stderr


def test_an_empty_name_is_no_name(serve: Callable[[RouteTable], str]) -> None:
    """Nor does it mean that there is no policy."""
    address = serve(ROUTES)
    for name in ("", " ", "/"):
        result = run(address, name)
        assert result.exit_code == 2
        assert "CONTAINER: is empty" in result.stderr


def test_a_pod_is_shown_with_its_containers(serve: Callable[[RouteTable], str]) -> None:
    """As the list of all is."""
    address = serve(ROUTES)
    assert run(address, "p").output == assignments_text(ASSIGNED) + "\n"
    assert json.loads(run(address, "p", "-o", "json").output)["pods"] == ["ns/p"]


def test_before_the_state_is_known_that_is_said(serve: Callable[[RouteTable], str]) -> None:
    """Nothing found is no answer then; what was remembered is, with a warning."""
    known: list[object] = []

    async def early(request: ServerRequest) -> ServerResponse:
        return json_response({"policy": "static", "ready": False, "assignments": known})

    address = serve({**ROUTES, ("GET", "/v1/policy"): early})
    assert (run(address).exit_code, run(address).stderr) == (1, f"error: {NOT_LISTED}\n")
    assert run(address, "early").stderr == "error: it is not known yet\n"
    known.extend(ASSIGNED)
    result = run(address)
    assert (result.exit_code, result.stdout) == (0, assignments_text(ASSIGNED) + "\n")
    assert result.stderr == f"warning: {NOT_LISTED}; this is what was remembered\n"
