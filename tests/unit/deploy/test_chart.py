"""deploy/helm/interpose: what `helm lint` would look at, and that chart and kustomization are one thing."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from interpose import __version__
from tests.support.helm.chart import NOTES, Chart, Release, merged
from tests.support.helm.errors import ChartError
from tests.support.kube.deployed import kustomized, normal
from tests.support.kube.json_schema import schema_problems, strict_schema
from tests.support.kube.kube_schema import manifest_problems
from tests.support.kube.manifests import Identity, by_identity, identity, problems
from tests.support.kube.plain_documents import Document, documents

SEMVER = re.compile(r"\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")
CERTIFICATE = Identity("Secret", "interpose-system", "interpose-webhook-tls")
# Kinds of definitions that others install.
OF_OTHERS = ("cert-manager.io/v1", "monitoring.coreos.com/v1")
EVERYTHING: Mapping[str, Any] = {
    "commonLabels": {"team": "platform"},
    "podAnnotations": {"example.org/x": "y"},
    "imagePullSecrets": [{"name": "pull"}],
    "crds": {"policies": True},
    "rbac": {"nodeGuard": True},
    "agent": {"policyObjects": ["BalloonsPolicy", "TopologyAwarePolicy"]},
    "webhook": {"networkPolicy": {"enabled": True}, "tolerations": [{"operator": "Exists"}]},
    "hookserver": {
        "extraArgs": ["--mode=standalone"],
        "extraHostPaths": ["/run/containerd"],
        "kubeletDir": "/data/kubelet",
        "securityContext": {"seLinuxOptions": {"type": "spc_t"}},
        "affinity": {"nodeAffinity": {}},
    },
    "configuration": {
        "seed": {"policy.static": "RelaxedIsolation: true\n"},
        "default": {"policy": "Active: none\n"},
        "groups": {"batch": {"policy": "Active: static\n"}},
        "nodes": {"node-1": {"policy": "Active: none\n"}},
    },
    "podMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "grafanaDashboard": {"enabled": True},
}
# Ways to install it, each with what others make.
WAYS = {
    "defaults": ({}, [CERTIFICATE]),
    "everything": (EVERYTHING, [CERTIFICATE]),
    "cert-manager": ({"webhook": {"certificates": {"source": "certManager"}}}, [CERTIFICATE]),
    "an issuer of the cluster": (
        {"webhook": {"certificates": {"source": "certManager", "issuerRef": {"name": "ca", "kind": "ClusterIssuer"}}}},
        [CERTIFICATE],
    ),
    "a certificate of one's own": (
        {"webhook": {"certificates": {"source": "existingSecret", "secretName": "mine", "caBundle": "PEM"}}},
        [Identity("Secret", "interpose-system", "mine")],
    ),
    "agent alone": ({"hookserver": {"enabled": False}, "webhook": {"enabled": False}}, []),
    "hook server alone": ({"agent": {"enabled": False}, "webhook": {"enabled": False}}, []),
    "webhook alone": ({"agent": {"enabled": False}, "hookserver": {"enabled": False}}, [CERTIFICATE]),
    "one webhook": ({"webhook": {"replicas": 1}}, [CERTIFICATE]),
    "rights by others": ({"rbac": {"create": False}}, [CERTIFICATE]),
    "beside Koordinator": ({"crds": {"install": False}}, [CERTIFICATE]),
    "an image by digest": (
        {"image": {"repository": "registry.example/x", "digest": "sha256:" + "0" * 64}},
        [CERTIFICATE],
    ),
    "no places": (
        {"agent": {"nodeSelector": None, "tolerations": [], "resources": None, "priorityClassName": ""}},
        [CERTIFICATE],
    ),
}


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> tuple[Mapping[str, Any], list[Identity]]:
    """Values and what others make."""
    return WAYS[request.param]


def test_the_chart_says_what_it_is(chart: Chart) -> None:
    """The fields Helm insists on, and the version of the program it is for."""
    metadata = chart.metadata

    assert (metadata["apiVersion"], metadata["name"], metadata["type"]) == ("v2", "interpose", "application")
    assert SEMVER.fullmatch(metadata["version"])
    assert metadata["appVersion"] == __version__
    assert metadata["description"]


def test_every_way_to_install_it_is_valid(chart: Chart, way: tuple[Mapping[str, Any], list[Identity]]) -> None:
    """Kubernetes' schemas have every field; what is named is there; nothing appears twice."""
    values, elsewhere = way
    found = chart.manifests(values)

    assert problems(found, elsewhere) == []
    for document in found:
        if document["apiVersion"] not in OF_OTHERS:
            assert manifest_problems(document) == [], identity(document)


def test_values_of_every_way_are_accepted(chart: Chart, way: tuple[Mapping[str, Any], list[Identity]]) -> None:
    """values.schema.json knows them; Helm refuses what it does not."""
    schema = json.loads(chart.files["values.schema.json"])

    assert schema_problems(merged(chart.values, way[0]), strict_schema(schema)) == []


@pytest.mark.parametrize(
    "values",
    [
        {"agnet": {}},
        {"agent": {"enabled": "yes"}},
        {"agent": {"metrics": {"port": 0}}},
        {"image": {"repository": ""}},
        {"image": {"digest": "latest"}},
        {"webhook": {"failurePolicy": "Perhaps"}},
        {"webhook": {"certificates": {"source": "magic"}}},
        {"agent": {"securityContext": {"capabilities": {}}}},
        {"agent": {"configMaps": {"groups": ["Not A Name"]}}},
        {"configuration": {"default": {"policy": {"Active": "none"}}}},
        {"podMonitor": {"interval": "often"}},
        {"webhook": {"podDisruptionBudget": {"maxUnavailable": 0}}},
        {"webhook": {"podDisruptionBudget": {"maxUnavailable": "0%"}}},
        {"webhook": {"podDisruptionBudget": {"minAvailable": 2}}},
        {"agent": {"maxUnavailable": 0}},
    ],
)
def test_slips_are_refused(chart: Chart, values: Mapping[str, Any]) -> None:
    """Before anything is rendered."""
    schema = json.loads(chart.files["values.schema.json"])

    assert schema_problems(merged(chart.values, values), strict_schema(schema))


def test_every_value_is_described_and_used(chart: Chart) -> None:
    """The schema has what values.yaml has, and a template reads each of them."""
    schema = json.loads(chart.files["values.schema.json"])
    described = set(leaves(schema["properties"]))
    given = set(paths(chart.values))

    assert given == described - {("global",)}


def leaves(properties: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths that a schema describes; the own keys of a securityContext are Kubernetes'."""
    for name, inner in properties.items():
        if "properties" in inner and name != "securityContext":
            yield from leaves(inner["properties"], (*above, name))
        else:
            yield (*above, name)


def paths(values: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Paths of values, down to what is free."""
    free = ("resources", "nodeSelector", "labels", "affinity", "securityContext", "issuerRef")
    for name, value in values.items():
        if isinstance(value, dict) and value and name not in free:
            yield from paths(value, (*above, name))
        else:
            yield (*above, name)


def test_each_value_changes_something(deploy: Path, chart: Chart) -> None:
    """No value is left that no template reads."""
    templates = "\n".join(path.read_text() for path in (deploy / "helm/interpose/templates").iterdir())

    for path in paths(chart.values):
        assert re.search(rf"\b{path[-1]}\b", templates), path


def test_chart_and_kustomization_give_the_same_objects(chart: Chart, self_signed: list[Document]) -> None:
    """But for the namespace, which Helm makes itself, and the job, which has a name per revision."""
    rendered, files = by_identity(map(normal, chart.manifests())), by_identity(map(normal, self_signed))
    job = Identity("Job", "interpose-system", "interpose-webhook-certs")
    of_revision = rendered.pop(job._replace(name=f"{job.name}-1"))
    del files[Identity("Namespace", "", "interpose-system")]

    of_files = files.pop(job)
    assert of_revision["spec"] == of_files["spec"]
    assert of_revision["metadata"]["annotations"].items() <= of_files["metadata"]["annotations"].items()
    assert rendered == files


def test_options_are_the_same_too(chart: Chart, deploy: Path) -> None:
    """Network policy, node guard, objects of policies and cert-manager, switched on by values."""
    values = {
        "crds": {"policies": True},
        "rbac": {"nodeGuard": True},
        "agent": {"policyObjects": ["BalloonsPolicy"]},
        "webhook": {"networkPolicy": {"enabled": True}, "certificates": {"source": "certManager"}},
    }
    rendered = by_identity(map(normal, chart.manifests(values)))
    expected = [
        *kustomized(deploy / "kustomize/options/network-policy"),
        *kustomized(deploy / "kustomize/options/node-guard"),
        *kustomized(deploy / "kustomize/options/policy-objects"),
        *kustomized(deploy / "crds/policies"),
        *(one for one in kustomized(deploy / "kustomize/overlays/cert-manager") if "cert-manager" in one["apiVersion"]),
    ]
    webhook = rendered[Identity("MutatingWebhookConfiguration", "", "interpose")]

    assert len(expected) == 11
    for document in map(normal, expected):
        assert rendered[identity(document)] == document
    assert webhook["metadata"]["annotations"] == {
        "cert-manager.io/inject-ca-from": "interpose-system/interpose-webhook"
    }


@pytest.mark.parametrize(
    ("copy", "original"),
    [
        ("files/nodeslo.yaml", "crds/nodeslo.yaml"),
        ("files/topologyawarepolicy.yaml", "crds/policies/topologyawarepolicy.yaml"),
        ("files/balloonspolicy.yaml", "crds/policies/balloonspolicy.yaml"),
        ("files/prometheus-rules.yaml", "monitoring/prometheus-rules.yaml"),
        ("files/grafana-dashboard.json", "monitoring/grafana-dashboard.json"),
    ],
)
def test_files_of_the_chart_are_copies(chart: Chart, deploy: Path, copy: str, original: str) -> None:
    """A chart cannot reach outside of its directory: copy the original again."""
    assert chart.files[copy] == (deploy / original).read_text()


@pytest.mark.parametrize("component", ["agent", "hookserver", "webhook"])
def test_there_are_no_alerts_about_what_is_switched_off(chart: Chart, component: str) -> None:
    """One that asks whether anybody answers would fire for ever. Everything else is that of the rule file."""
    values = {component: {"enabled": False}, "prometheusRule": {"enabled": True}}
    [rules] = documents(chart.files["files/prometheus-rules.yaml"], "rules")
    [found] = [one for one in chart.manifests(values) if one["kind"] == "PrometheusRule"]

    assert found["spec"]["groups"] == [one for one in rules["groups"] if one["name"] != f"interpose.{component}"]
    assert len(found["spec"]["groups"]) == len(rules["groups"]) - 1


def test_all_alerts_are_there_where_everything_is(chart: Chart) -> None:
    """Word for word."""
    [rules] = documents(chart.files["files/prometheus-rules.yaml"], "rules")
    [found] = [one for one in chart.manifests({"prometheusRule": {"enabled": True}}) if one["kind"] == "PrometheusRule"]

    assert found["spec"] == rules


def test_another_release_has_other_names(chart: Chart) -> None:
    """Two releases can live side by side; what all share is the definition."""
    one = by_identity(chart.manifests())
    other = by_identity(chart.manifests(release=Release(name="second", namespace="elsewhere")))

    assert one.keys() & other.keys() == {Identity("CustomResourceDefinition", "", "nodeslos.slo.koordinator.sh")}
    assert problems(list(other.values()), [Identity("Secret", "elsewhere", "second-interpose-webhook-tls")]) == []


def test_names_can_be_given(chart: Chart) -> None:
    """Whatever the release is called."""
    found = by_identity(chart.manifests({"fullnameOverride": "mine"}))

    assert Identity("DaemonSet", "interpose-system", "mine-agent") in found


def test_the_agent_may_read_the_maps_it_is_given(chart: Chart) -> None:
    """Groups and nodes that have maps, in the chart or made by others, each once."""
    values = merged(
        EVERYTHING, {"agent": {"configMaps": {"name": "conf", "namespace": "ns", "groups": ["batch", "web"]}}}
    )
    found = by_identity(chart.manifests(values))
    role = found[Identity("Role", "ns", "interpose-agent-config")]
    agent = found[Identity("DaemonSet", "interpose-system", "interpose-agent")]

    assert role["rules"][0]["resourceNames"] == [
        "conf",
        "conf.default",
        "conf.group.batch",
        "conf.group.web",
        "conf.node.node-1",
    ]
    assert {one.name for one in found if one.kind == "ConfigMap" and one.namespace == "ns"} == {
        "conf",
        "conf.default",
        "conf.group.batch",
        "conf.node.node-1",
    }
    arguments = agent["spec"]["template"]["spec"]["containers"][0]["args"]
    assert {"--config-namespace=ns", "--config-map=conf"} <= set(arguments)
    assert "--config-sources=BalloonsPolicy,TopologyAwarePolicy,ConfigMap" in arguments
    assert Identity("Role", "ns", "interpose-agent-policies") in found


def test_an_own_certificate_must_be_named(chart: Chart) -> None:
    """Instead of pods that wait for ever."""
    with pytest.raises(ChartError, match="which Secret has the certificate"):
        chart.manifests({"webhook": {"certificates": {"source": "existingSecret"}}})


def test_the_notes_name_what_was_installed(chart: Chart) -> None:
    """And the part that no chart can install."""
    notes = chart.render()[NOTES]

    assert "daemonset/interpose-agent" in notes
    assert "The relay is no pod" in notes
    assert "daemonset/interpose-agent" not in chart.render({"agent": {"enabled": False}})[NOTES]


def test_the_oldest_kubernetes_is_told(chart: Chart, deploy: Path) -> None:
    """The chart refuses older ones, whoever uses kustomize has to read it."""
    found = re.fullmatch(r">=(\d+\.\d+)\.0-0", str(chart.metadata["kubeVersion"]))

    assert found
    assert f"Kubernetes {found[1]} or newer" in (deploy.parent / "docs/deployment.md").read_text(encoding="utf-8")
