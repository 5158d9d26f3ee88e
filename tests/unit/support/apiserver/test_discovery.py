"""What the server tells about itself."""

import pytest

from tests.support.apiserver.discovery import VERSION, discover
from tests.support.apiserver.resources import KINDS


def test_every_kind_is_announced() -> None:
    """In the resource list of its group and version, its status too."""
    for kind in KINDS:
        resource = kind.resource
        prefix = f"/apis/{resource.group}/{resource.version}" if resource.group else f"/api/{resource.version}"
        page = discover(prefix)
        assert page is not None
        assert page.body["groupVersion"] == resource.api_version
        assert {"name": resource.plural, "kind": resource.kind}.items() <= {
            **next(item for item in page.body["resources"] if item["name"] == resource.plural)
        }.items()
    nodes = discover("/api/v1")
    assert nodes is not None
    assert "nodes/status" in {item["name"] for item in nodes.body["resources"]}
    assert "configmaps/status" not in {item["name"] for item in nodes.body["resources"]}


def test_groups() -> None:
    """All in one list, each with its own page."""
    page, one = discover("/apis"), discover("/apis/apps/")
    assert page is not None
    assert one is not None
    assert {group["name"] for group in page.body["groups"]} == {kind.resource.group for kind in KINDS} - {""}
    assert one.body["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}


def test_schemas_name_every_kind() -> None:
    """In both versions of OpenAPI; clients see that the server checks fields."""
    index = discover("/openapi/v3")
    assert index is not None
    told = 0
    for entry in index.body["paths"].values():
        page = discover(entry["serverRelativeURL"])
        assert page is not None
        told += len(page.body["components"]["schemas"])
        for path in page.body["paths"].values():
            assert {"dryRun", "fieldValidation"} <= {item["name"] for item in path["patch"]["parameters"]}
    whole = discover("/openapi/v2", "application/json")
    assert whole is not None
    assert told == len(whole.body["definitions"]) == len(KINDS)


def test_old_clients_get_an_empty_document() -> None:
    """As protobuf: they check nothing then."""
    page = discover("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")
    assert page is not None
    assert page.body == b""
    assert "@" not in page.content_type


@pytest.mark.parametrize("path", ["/version", "/api", "/livez", "/readyz", "/healthz"])
def test_fixed_pages(path: str) -> None:
    """Which every server has."""
    assert discover(path) is not None


def test_the_version() -> None:
    """As kubectl shows it."""
    page = discover("/version")
    assert page is not None
    assert page.body["gitVersion"] == VERSION


@pytest.mark.parametrize("path", ["/", "/metrics", "/apis/none", "/api/v1/nodes"])
def test_other_paths(path: str) -> None:
    """Are for others."""
    assert discover(path) is None


def test_kinds_that_are_not_installed() -> None:
    """They are announced nowhere; a group goes with the last of them."""
    rest = [kind for kind in KINDS if kind.resource.group != "slo.koordinator.sh"]
    page = discover("/apis", kinds=rest)
    assert page is not None
    assert "slo.koordinator.sh" not in {group["name"] for group in page.body["groups"]}
    assert discover("/apis/slo.koordinator.sh/v1alpha1", kinds=rest) is None
