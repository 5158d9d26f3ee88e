"""Routing is decided on values alone."""

import json

import pytest

from interpose.net.httpd.routes import (
    BadRequestError,
    RouteMatch,
    Router,
    ServerRequest,
    ServerResponse,
    error_response,
    json_response,
    text_response,
)


async def _get(request: ServerRequest) -> ServerResponse:
    return text_response("get")


async def _put(request: ServerRequest) -> ServerResponse:
    return text_response("put")


async def _any(request: ServerRequest) -> ServerResponse:
    return text_response("any")


ROUTES = {("GET", "/a"): _get, ("PUT", "/a"): _put, ("GET", "/a/*"): _any, ("PUT", "/b"): _put}


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/a", RouteMatch(_get, "")),
        ("HEAD", "/a", RouteMatch(_get, "")),
        ("PUT", "/a", RouteMatch(_put, "")),
        ("GET", "/a/b/c", RouteMatch(_any, "b/c")),
    ],
)
def test_the_handler_is_chosen_by_method_and_path(method: str, path: str, expected: RouteMatch) -> None:
    """Exact paths and patterns find their handler; HEAD is served by GET."""
    assert Router(ROUTES).find(method, path) == expected


@pytest.mark.parametrize("path", ["/", "/ab", "/a/", "", "/A"])
def test_unknown_paths_are_404(path: str) -> None:
    """There is no guessing: trailing slashes and other cases do not match."""
    answer = Router(ROUTES).find("GET", path)
    assert isinstance(answer, ServerResponse)
    assert answer.status == 404
    assert "error" in json.loads(answer.body)


@pytest.mark.parametrize(("method", "path", "allow"), [("DELETE", "/a", "GET, HEAD, PUT"), ("HEAD", "/b", "PUT")])
def test_wrong_methods_are_405_and_say_what_is_allowed(method: str, path: str, allow: str) -> None:
    """The Allow header lists what the path takes."""
    answer = Router(ROUTES).find(method, path)
    assert isinstance(answer, ServerResponse)
    assert answer.status == 405
    assert answer.headers["allow"] == allow


def test_the_longest_pattern_wins_whatever_the_order() -> None:
    """A special pattern is not hidden by a general one."""
    routes = {("GET", "/*"): _get, ("GET", "/v1/*"): _any}
    assert Router(routes).find("GET", "/v1/x") == RouteMatch(_any, "x")


def test_json_answers_write_unknown_values_as_text() -> None:
    """A view never fails because a value is not JSON type."""
    assert json.loads(json_response({"a": {1: object}}).body) == {"a": {"1": "<class 'object'>"}}
    assert json.loads(error_response(418, "no").body) == {"error": "no"}


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_body_that_is_not_json_is_the_clients_fault(body: bytes) -> None:
    """Handlers need not care: the error becomes a 400."""
    with pytest.raises(BadRequestError, match="the body is not JSON"):
        ServerRequest(method="PUT", path="/", body=body).json()
