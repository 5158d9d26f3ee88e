"""The definitions of objects of policies: schemas API servers take, and that agree with our own reader."""

import json
from pathlib import Path
from typing import Any

import pytest

from interpose.config.documents.policy_objects import API_VERSION, OBJECT_POLICIES, object_form, read_policy_object
from interpose.config.documents.yaml import parse_document
from interpose.errors import ConfigError
from interpose.kube.agent.config_kinds import RESOURCES
from tests.support.kube.json_schema import not_structural, schema_problems, strict_schema
from tests.support.kube.plain_documents import Document, read_documents

SAMPLES = Path(__file__).parents[3] / "samples/policy-objects"


@pytest.fixture(scope="module", params=OBJECT_POLICIES)
def definition(request: pytest.FixtureRequest, deploy: Path) -> Document:
    """A definition."""
    [found] = read_documents(deploy / f"crds/policies/{request.param.lower()}.yaml")
    return found


def schema_of(definition: Document) -> dict[str, Any]:
    """The schema of its one version."""
    [version] = definition["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def balloons_schema(deploy: Path) -> dict[str, Any]:
    """The schema of BalloonsPolicy."""
    [found] = read_documents(deploy / "crds/policies/balloonspolicy.yaml")
    return schema_of(found)


def refused(document: dict[str, Any]) -> bool:
    """Whether our own reader refuses it."""
    try:
        read_policy_object(parse_document(json.dumps(document), "here", json_only=True), "here")
    except ConfigError:
        return True
    return False


def test_the_definition_is_that_of_nri_plugins(definition: Document) -> None:
    """Same group, version, kind and scope, so that either can stand in for the other; the agent looks for the same."""
    spec = definition["spec"]
    kind = spec["names"]["kind"]

    assert f"{spec['group']}/{spec['versions'][0]['name']}" == API_VERSION == RESOURCES[kind].api_version
    assert (spec["names"]["plural"], spec["scope"]) == (RESOURCES[kind].plural, "Namespaced")
    assert definition["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    assert spec["versions"][0]["subresources"] == {"status": {}}


def test_the_schema_is_structural(definition: Document) -> None:
    """API servers refuse others."""
    assert not_structural(schema_of(definition)) == []


def test_everything_is_explained(definition: Document) -> None:
    """`kubectl explain balloonspolicy.spec` has a sentence for each field."""

    def silent(inner: dict[str, Any], path: str) -> list[str]:
        found = [] if inner.get("description") else [path]
        for name, one in inner.get("properties", {}).items():
            found += silent(one, f"{path}.{name}")
        for below in ("items", "additionalProperties"):
            found += silent(inner[below], f"{path}[]") if below in inner else []
        return found

    properties = schema_of(definition)["properties"]
    assert silent(properties["spec"], "spec") == []
    assert silent(properties["status"], "status") == []


def test_definition_and_reader_know_the_same_keys(definition: Document) -> None:
    """Of a spec, and one level below; the reader takes any spelling."""

    def keys(schema: Any) -> dict[str, set[str]]:
        parts = {"": schema, **schema["properties"]}
        return {
            name.lower(): {key.lower() for key in part.get("properties", {})}
            for name, part in parts.items()
            if part.get("properties")
        }

    spec = object_form(definition["spec"]["names"]["kind"])["properties"]["spec"]
    patterns = dict(zip(spec["properties"], spec["patternProperties"].values(), strict=True))
    plain: dict[str, Any] = {name: next(iter(form.get("anyOf", [form])), {}) for name, form in patterns.items()}
    ours = keys({"properties": plain})
    theirs = keys(schema_of(definition)["properties"]["spec"])
    domains = {"hugepages", "cache", "memory-bandwidth"}  # of other programs of the same family

    assert theirs.keys() == ours.keys()
    for name, known in theirs.items():
        assert known == ours[name] - domains, name


@pytest.mark.parametrize("name", ["balloons.yaml", "topology-aware.yaml"])
def test_samples_pass_both(deploy: Path, name: str) -> None:
    """The API server's check and ours, without a remark."""
    [document] = read_documents(SAMPLES / name)
    [definition] = read_documents(deploy / f"crds/policies/{document['kind'].lower()}.yaml")

    assert schema_problems(document, strict_schema(schema_of(definition))) == []
    text = (SAMPLES / name).read_text()
    assert read_policy_object(parse_document(text, name), name).warnings == ()


def balloons(**spec: Any) -> dict[str, Any]:
    """An object."""
    metadata = {"name": "default", "namespace": "kube-system"}
    full = {"reservedResources": {"cpu": "750m"}, **spec}
    return {"apiVersion": API_VERSION, "kind": "BalloonsPolicy", "metadata": metadata, "spec": full}


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"reservedResources": {"cpu": 1, "memory": "1Gi"}, "availableResources": {"cpu": "exclude-cpuset:7"}},
        {"reservedResources": {"cpu": "cpuset:0-1"}},
        {"balloonTypes": [{"name": "a", "minCPUs": 1, "maxCPUs": -1 + 2, "allocatorPriority": "low"}]},
        {"balloonTypes": [{"name": "a", "shareIdleCPUsInSame": "l2cache", "memoryTypes": ["DRAM", "HBM"]}]},
        {"balloonTypes": [{"name": "a", "irqClaim": [12, "*nvme*"], "irqMode": "sink"}]},
        {"balloonTypes": [{"name": "a", "matchExpressions": [{"key": "name", "operator": "In", "values": ["x"]}]}]},
        {"loadClasses": [{"name": "avx", "level": "core"}], "balloonTypes": [{"name": "a", "loads": ["avx"]}]},
        {"cpuClasses": [{"name": "fast", "minFreq": "2GHz", "maxFreq": 3000000}]},
        {"control": {"rdt": {"enable": True, "partitions": {"p": {}}}}, "agent": {"podResourceAPI": True}},
        {"log": {"debug": ["policy"], "klog": {"v": 1}}, "instrumentation": {"reportPeriod": "30s"}},
    ],
)
def test_both_accept_what_is_good(deploy: Path, spec: dict[str, Any]) -> None:
    """Parts without effect included."""
    assert schema_problems(balloons(**spec), strict_schema(balloons_schema(deploy))) == []
    assert not refused(balloons(**spec))


@pytest.mark.parametrize(
    "spec",
    [
        {"balonTypes": []},
        {"pinCPU": "yes"},
        {"availableResources": {"cpu": "4"}},
        {"reservedResources": {"cpus": 1}},
        {"balloonTypes": [{"minCPUs": 1}]},
        {"balloonTypes": [{"name": "a", "minCPUs": -1}]},
        {"balloonTypes": [{"name": "a", "maxCPUs": -2}]},
        {"balloonTypes": [{"name": "a", "shareIdleCPUsInSame": "socket"}]},
        {"balloonTypes": [{"name": "a", "matchExpressions": [{"key": "name", "operator": "Like"}]}]},
        {"balloonTypes": {"name": "a"}},
        {"loadClasses": [{"name": "avx", "level": "numa"}]},
        {"turboDomain": "core"},
        {"control": {"rtd": {}}},
        {"agent": {"nodeResourceTopology": "true"}},
        {"instrumentation": {"samplingRatePerMillion": 1000001}},
    ],
)
def test_both_refuse_what_is_wrong(deploy: Path, spec: dict[str, Any]) -> None:
    """Most mistakes are found when they are applied, not on the node."""
    assert schema_problems(balloons(**spec), strict_schema(balloons_schema(deploy))) != []
    assert refused(balloons(**spec))
