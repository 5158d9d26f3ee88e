"""What requests are about."""

import pytest

from tests.support.apiserver.paths import asked_name, find_target, is_set, number, split_target
from tests.support.apiserver.problems import RefusedError


@pytest.mark.parametrize(
    ("method", "path", "query", "expected"),
    [
        ("GET", "/api/v1/nodes", {}, ("list", "nodes", "", "")),
        ("GET", "/api/v1/nodes", {"watch": "1"}, ("watch", "nodes", "", "")),
        ("GET", "/api/v1/nodes/n", {}, ("get", "nodes", "", "n")),
        ("PATCH", "/api/v1/nodes/n/status", {}, ("patch", "nodes/status", "", "n")),
        ("GET", "/api/v1/configmaps", {}, ("list", "configmaps", "", "")),
        ("POST", "/api/v1/namespaces/d/configmaps", {}, ("create", "configmaps", "d", "")),
        ("PUT", "/api/v1/namespaces/d/configmaps/m", {}, ("update", "configmaps", "d", "m")),
        ("DELETE", "/api/v1/namespaces/d", {}, ("delete", "namespaces", "", "d")),
        ("PUT", "/api/v1/namespaces/d/status", {}, ("update", "namespaces/status", "", "d")),
        ("DELETE", "/apis/apps/v1/namespaces/d/daemonsets", {}, ("deletecollection", "daemonsets", "d", "")),
        ("GET", "/apis/slo.koordinator.sh/v1alpha1/nodeslos/n", {}, ("get", "nodeslos", "", "n")),
    ],
)
def test_targets(method: str, path: str, query: dict[str, str], expected: tuple[str, ...]) -> None:
    """Verb, resource, namespace and name."""
    target = find_target(method, path, query)
    assert (target.verb, target.resource_path, target.namespace, target.name) == expected


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/", 404),
        ("GET", "/api/v1", 404),
        ("GET", "/apis/apps/v1", 404),
        ("GET", "/api/v1/gadgets", 404),
        ("GET", "/api/v2/nodes", 404),
        ("GET", "/api/v1/namespaces/d/nodes", 404),
        ("GET", "/api/v1/nodes/n/proxy", 404),
        ("GET", "/api/v1/namespaces/d/configmaps/m/status", 404),
        ("GET", "/api/v1/nodes/n/status/more", 404),
        ("POST", "/api/v1/configmaps", 405),
        ("GET", "/api/v1/configmaps/m", 404),
        ("PUT", "/api/v1/nodes", 405),
        ("POST", "/api/v1/nodes/n", 405),
    ],
)
def test_what_is_not_there(method: str, path: str, code: int) -> None:
    """Paths of no kind, and methods that make no sense."""
    with pytest.raises(RefusedError) as caught:
        find_target(method, path, {})
    assert caught.value.code == code


def test_queries() -> None:
    """Flags and numbers; what is quoted is read."""
    path, query = split_target("/a%2Fb?x=1&x=2&w=true&empty=")
    assert (path, query) == ("/a/b", {"x": "2", "w": "true", "empty": ""})
    assert (number(query, "x"), number(query, "empty"), number(query, "none")) == (2, 0, 0)
    assert is_set(query, "w")
    assert not is_set({"w": "false"}, "w")
    assert not is_set({}, "w")
    with pytest.raises(RefusedError):
        number(query, "w")


def test_the_name_a_request_is_about() -> None:
    """That of the path, or of the selector."""
    one = find_target("GET", "/api/v1/nodes/n", {})
    some = find_target("GET", "/api/v1/nodes", {})
    assert asked_name(one, {}) == "n"
    assert asked_name(some, {"fieldSelector": "metadata.name=m"}) == "m"
    assert asked_name(some, {}) == ""
