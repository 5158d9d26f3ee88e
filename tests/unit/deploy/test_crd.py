"""The NodeSLO definition: a schema API servers take, and that agrees with our own reader."""

import json
from pathlib import Path
from typing import Any

import pytest

from interpose.config.documents.yaml import parse_document
from interpose.errors import ConfigError
from interpose.hooks.server.node.node_document import SLO_KIND, SLO_VERSION, parse_node_document
from tests.support.kube.json_schema import not_structural, schema_problems, strict_schema
from tests.support.kube.plain_documents import Document, read_documents

SAMPLES = Path(__file__).parents[3] / "samples/nodeslo"


@pytest.fixture(scope="module")
def definition(deploy: Path) -> Document:
    """The definition."""
    [found] = read_documents(deploy / "crds/nodeslo.yaml")
    return found


@pytest.fixture(scope="module")
def schema(definition: Document) -> dict[str, Any]:
    """Its schema."""
    [version] = definition["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def slo(**spec: Any) -> dict[str, Any]:
    """A NodeSLO."""
    return {"apiVersion": SLO_VERSION, "kind": SLO_KIND, "metadata": {"name": "node-1"}, "spec": spec}


def refused(document: dict[str, Any]) -> bool:
    """Whether our own reader refuses it."""
    try:
        parse_node_document(parse_document(json.dumps(document), "here", json_only=True), "here")
    except ConfigError:
        return True
    return False


def test_the_definition_is_koordinators(definition: Document) -> None:
    """Same group, version, kind and scope, so that either can stand in for the other."""
    spec = definition["spec"]

    assert f"{spec['group']}/{spec['versions'][0]['name']}" == SLO_VERSION
    assert (spec["names"]["kind"], spec["names"]["plural"], spec["scope"]) == (SLO_KIND, "nodeslos", "Cluster")
    assert definition["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_the_schema_is_structural(schema: dict[str, Any]) -> None:
    """API servers refuse others."""
    assert not_structural(schema) == []


def test_everything_is_explained(schema: dict[str, Any]) -> None:
    """`kubectl explain nodeslo.spec` has a sentence for each field."""

    def silent(inner: dict[str, Any], path: str) -> list[str]:
        found = [] if inner.get("description") else [path]
        for name, one in inner.get("properties", {}).items():
            found += silent(one, f"{path}.{name}")
        return found + (silent(inner["items"], f"{path}[]") if "items" in inner else [])

    assert silent(schema["properties"]["spec"], "spec") == []


@pytest.mark.parametrize("name", ["colocation.yaml", "off.yaml"])
def test_samples_pass_both(schema: dict[str, Any], name: str) -> None:
    """The API server's check and ours."""
    [document] = read_documents(SAMPLES / name)

    assert schema_problems(document, strict_schema(schema)) == []
    assert not refused(document)


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"resourceQOSStrategy": {"policies": {"cpuPolicy": "coreSched", "netQOSPolicy": "tc"}}},
        {"resourceQOSStrategy": {"policies": {"cpuPolicy": ""}}},
        {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": True, "groupIdentity": 2, "schedIdle": 1}}}},
        {
            "resourceQOSStrategy": {
                "beClass": {"networkQOS": {"enable": True, "ingressLimit": 50, "egressLimit": "50M"}}
            }
        },
        {"resourceQOSStrategy": {"beClass": {"memoryQOS": {"enable": True, "wmarkRatio": 95}, "blkioQOS": {}}}},
        {
            "resourceUsedThresholdWithBE": {
                "enable": True,
                "cpuSuppressPolicy": "cfsQuota",
                "memoryEvictLowerPercent": 1,
            }
        },
        {"systemStrategy": {"totalNetworkBandwidth": "0", "schedGroupIdentityEnabled": None}},
        {"cpuBurstStrategy": {"policy": "none", "cfsQuotaBurstPeriodSeconds": -1}},
        {"hostApplications": [{"name": "a", "qos": "LS", "cgroupPath": {"base": "Kubepods", "relativePath": "x"}}]},
        {"extensions": {"anything": [1, {}]}},
    ],
)
def test_both_accept_what_is_good(schema: dict[str, Any], spec: dict[str, Any]) -> None:
    """Parts of Koordinator included."""
    assert schema_problems(slo(**spec), strict_schema(schema)) == []
    assert not refused(slo(**spec))


@pytest.mark.parametrize(
    "spec",
    [
        {"resourceQosStrategy": {}},
        {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"enable": "true"}}}},
        {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"groupIdentity": 3}}}},
        {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"groupIdentity": -2}}}},
        {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"schedIdle": 2}}}},
        {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"schedIdel": 1}}}},
        {"resourceQOSStrategy": {"lseClass": {}}},
        {"resourceQOSStrategy": {"policies": {"cpuPolicy": "groupidentity"}}},
        {"resourceUsedThresholdWithBE": {"cpuSuppressPolicy": "quota"}},
        {"hostApplications": [{"qos": "LS"}]},
        {"hostApplications": [{"name": ""}]},
        {"hostApplications": [{"name": "a", "qos": "ls"}]},
        {"hostApplications": [{"name": "a", "cgroupPath": {"base": "Root", "relativePath": "x"}}]},
        {"hostApplications": {"name": "a"}},
    ],
)
def test_both_refuse_what_is_wrong(schema: dict[str, Any], spec: dict[str, Any]) -> None:
    """Most mistakes are found when they are applied, not on the node."""
    assert schema_problems(slo(**spec), strict_schema(schema)) != []
    assert refused(slo(**spec))
