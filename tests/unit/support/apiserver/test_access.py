"""Tokens and rules."""

from typing import Any

import pytest

from tests.support.apiserver.access import ANONYMOUS, Access
from tests.support.apiserver.paths import asked_name, find_target
from tests.support.apiserver.problems import RefusedError


def test_tokens_tell_who_it_is() -> None:
    """A certificate does too; who shows something wrong is nobody."""
    access = Access({"secret": "agent"})
    assert access.user("Bearer secret") == "agent"
    assert access.user("", "admin") == "admin"
    for wrong in ("", "Bearer other", "Basic secret"):
        with pytest.raises(RefusedError) as caught:
            access.user(wrong)
        assert caught.value.code == 401


def test_without_tokens_nobody_needs_one() -> None:
    """But one that is shown has to be right."""
    assert Access().user("") == ANONYMOUS
    with pytest.raises(RefusedError):
        Access().user("Bearer x")


_BY_NAME = {"apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["m"], "verbs": ["get", "list", "create"]}
_STATUS = {"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["*"]}


@pytest.mark.parametrize(
    ("method", "path", "query", "allowed"),
    [
        ("GET", "/api/v1/namespaces/d/configmaps/m", {}, True),
        ("GET", "/api/v1/namespaces/d/configmaps/other", {}, False),
        ("GET", "/api/v1/namespaces/other/configmaps/m", {}, False),
        ("GET", "/api/v1/namespaces/d/configmaps", {}, False),
        ("GET", "/api/v1/namespaces/d/configmaps", {"fieldSelector": "metadata.name=m"}, True),
        ("GET", "/api/v1/namespaces/d/configmaps", {"watch": "1", "fieldSelector": "metadata.name=m"}, False),
        ("POST", "/api/v1/namespaces/d/configmaps", {"fieldSelector": "metadata.name=m"}, False),
        ("PATCH", "/api/v1/nodes/n/status", {}, True),
        ("PATCH", "/api/v1/nodes/n", {}, False),
        ("GET", "/apis/apps/v1/namespaces/d/deployments", {}, False),
    ],
)
def test_rules_allow_what_they_name(method: str, path: str, query: dict[str, str], allowed: bool) -> None:
    """Verb, group, resource, namespace and name, as those of Kubernetes."""
    access = Access()
    access.restrict("agent", [_BY_NAME], namespace="d")
    access.restrict("agent", [_STATUS])
    target = find_target(method, path, query)
    name = asked_name(target, query)
    if allowed:
        access.check("agent", target, name)
    else:
        with pytest.raises(RefusedError) as caught:
            access.check("agent", target, name)
        assert caught.value.code == 403
    access.check("somebody", target, name)


def test_a_denial_says_who_may_not_do_what() -> None:
    """In the words of a real server."""
    access = Access()
    access.forbid_all("agent")
    expected: list[tuple[str, Any]] = [
        (
            "/api/v1/namespaces/d/configmaps/m",
            'configmaps "m" is forbidden: User "agent" cannot get resource "configmaps"',
        ),
        (
            "/api/v1/nodes",
            'nodes is forbidden: User "agent" cannot list resource "nodes" in API group "" at the cluster scope',
        ),
    ]
    for path, message in expected:
        target = find_target("GET", path, {})
        with pytest.raises(RefusedError) as caught:
            access.check("agent", target, target.name)
        assert caught.value.message.startswith(message)
