"""Names of calls of Docker's API."""

import pytest

from interpose.dump.model.docker_calls import HttpCall, http_call, http_status, method_name, short_name


@pytest.mark.parametrize(
    ("path", "call"),
    [
        ("/docker/GET /v1.41/containers/json", HttpCall("GET", "/v1.41/containers/json")),
        ("/docker/POST /images/a b", HttpCall("POST", "/images/a b")),
        ("/docker/OPTIONS *", HttpCall("OPTIONS", "*")),
        ("/docker/Version", None),
        ("/runtime.v1.RuntimeService/Version", None),
        ("", None),
    ],
)
def test_http_calls_are_told_from_those_of_grpc(path: str, call: HttpCall | None) -> None:
    """By a service that no runtime has, and the blank behind the method."""
    assert http_call(path) == call


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v1.41/containers/json", "GET /containers/json"),
        ("/containers/json", "GET /containers/json"),
        ("/v1.24/_ping", "GET /_ping"),
        ("/v1.41", "GET /v1.41"),
        ("/volumes/v1", "GET /volumes/v1"),
        ("*", "GET *"),
        (f"/v1.41/containers/{'0123456789abcdef' * 4}/json", "GET /containers/0123456789ab/json"),
        (f"/images/sha256:{'0123456789abcdef' * 4}/json", "GET /images/sha256:0123456789ab/json"),
        (f"/volumes/{'a' * 65}", f"GET /volumes/{'a' * 65}"),
    ],
)
def test_a_name_has_no_version_of_the_api_and_short_ids(path: str, name: str) -> None:
    """All calls of a client have the same version; it would only fill the columns. So would the rest of an id."""
    assert short_name(HttpCall("GET", path)) == name


@pytest.mark.parametrize(
    ("method", "path", "sort"),
    [
        ("GET", "/v1.41/containers/0123abcd/json", "GET /containers/{id}/json"),
        ("POST", "/containers/k8s_app_web-0_shop_uid_0/exec", "POST /containers/{id}/exec"),
        ("GET", "/images/docker.io/library/busybox:1.36/json", "GET /images/{name}/json"),
        ("GET", "/v1.41/events", "GET /events"),
        ("GET", "/v1.41/made/up/by/somebody", "GET /made/up/by/somebody"),
        ("BREW", "/containers/x/json", "BREW /containers/x/json"),
    ],
)
def test_calls_about_different_things_are_of_one_sort(method: str, path: str, sort: str) -> None:
    """That of the table of endpoints; what is not in it is a sort of its own."""
    assert method_name(HttpCall(method, path)) == sort


@pytest.mark.parametrize(
    ("message", "status"), [("HTTP 404", 404), ("HTTP 500: why", 500), ("", None), ("HTTP 9999", None), ("lost", None)]
)
def test_the_status_is_read_from_the_end(message: str, status: int | None) -> None:
    """If it tells one."""
    assert http_status(message) == status
