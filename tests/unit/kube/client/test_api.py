"""Resources, their places, and errors."""

import pytest

from interpose.kube.client.api import CONFIG_MAPS, MUTATING_WEBHOOKS, NODE_SLOS, NODES, ApiError


def test_places() -> None:
    """Of the core and of groups, of all objects, of one, and of a part of it."""
    assert NODES.path() == "/api/v1/nodes"
    assert NODES.path(name="n1", subresource="status") == "/api/v1/nodes/n1/status"
    assert CONFIG_MAPS.path(namespace="kube-system", name="x") == "/api/v1/namespaces/kube-system/configmaps/x"
    assert NODE_SLOS.path(name="n1") == "/apis/slo.koordinator.sh/v1alpha1/nodeslos/n1"
    assert (NODES.api_version, MUTATING_WEBHOOKS.api_version) == ("v1", "admissionregistration.k8s.io/v1")


def test_names_cannot_lead_elsewhere() -> None:
    """Whatever a name is, it stays one part of the path."""
    assert NODES.path(name="../secrets?x=1") == "/api/v1/nodes/..%2Fsecrets%3Fx%3D1"


def test_namespace_is_needed() -> None:
    """Without it the path would be that of all namespaces."""
    with pytest.raises(ValueError, match="configmaps are in namespaces, and none is named"):
        CONFIG_MAPS.path(name="x")


def test_errors_say_what_the_server_said() -> None:
    """With the code, and the reason if there is one."""
    assert str(ApiError(409, "Conflict", "changed")) == "changed (409 Conflict)"
    assert str(ApiError(502, "", "bad gateway")) == "bad gateway (502)"


@pytest.mark.parametrize(("code", "reason", "expired"), [(410, "", True), (500, "Expired", True), (409, "", False)])
def test_expired(code: int, reason: str, expired: bool) -> None:
    """Both spellings mean that everything has to be listed again."""
    assert ApiError(code, reason, "x").expired is expired
