"""The option node-guard, evaluated: what an agent may do to a Node, and what a stolen token of one may not."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from interpose.kube.agent import node_keys
from interpose.kube.agent.report import CONDITION
from interpose.resmgr.publish import node_state
from tests.support.kube.cel import CelError, evaluate
from tests.support.kube.plain_documents import Document, read_documents

ACCOUNT = "system:serviceaccount:interpose-system:interpose-agent"
NODE_OF_TOKEN = "authentication.kubernetes.io/node-name"
NODE: Document = {
    "metadata": {
        "name": "n1",
        "uid": "1",
        "resourceVersion": "7",
        "labels": {"kubernetes.io/hostname": "n1", "node-role.kubernetes.io/worker": "", "tier": "web"},
        "annotations": {"flannel.alpha.coreos.com/public-ip": "10.1.1.1"},
        "managedFields": [],
    },
    "spec": {
        "podCIDR": "10.0.0.0/24",
        "podCIDRs": ["10.0.0.0/24"],
        "taints": [{"key": "gpu", "value": "true", "effect": "NoSchedule"}],
    },
    "status": {
        "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        "capacity": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"},
        "allocatable": {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "1"},
        "conditions": [
            {"type": "Ready", "status": "True", "lastHeartbeatTime": "2025-01-01T00:00:00Z"},
            {"type": "DiskPressure", "status": "False", "lastHeartbeatTime": None},
        ],
        "nodeInfo": {"kubeletVersion": "v1.33.0"},
    },
}
# A node of which nobody knows anything yet.
BARE: Document = {"metadata": {"name": "n1"}, "spec": {}, "status": {}}

Change = Callable[[Document], Any]


class Guard:
    """The policy, as an API server goes about it."""

    def __init__(self, document: Document) -> None:
        self._spec = document["spec"]

    def asked(self, user: str) -> bool:
        """Whether it looks at requests of this user."""
        names = {"request": {"userInfo": {"username": user}}}
        return all(evaluate(one["expression"], names) for one in self._spec["matchConditions"])

    def refusals(self, old: Document, new: Document, *, extra: Document | None = None) -> list[str]:
        """Why an update by an agent is refused; an expression that fails refuses, too."""
        user: Document = {"username": ACCOUNT}
        if extra is not None:
            user["extra"] = extra
        names: Document = {"request": {"name": old["metadata"]["name"], "userInfo": user}}
        names |= {"oldObject": old, "object": new, "variables": {}}
        for one in self._spec["variables"]:
            names["variables"][one["name"]] = evaluate(one["expression"], names)
        return [one["message"] for one in self._spec["validations"] if not self._holds(one["expression"], names)]

    @staticmethod
    def _holds(expression: str, names: Document) -> bool:
        try:
            return evaluate(expression, names) is True
        except CelError as error:
            pytest.fail(f"{expression}: {error}")


@pytest.fixture(scope="module")
def guard(deploy: Path) -> Guard:
    """As the files have it; the chart has the same."""
    return Guard(read_documents(deploy / "kustomize/options/node-guard/policy.yaml")[0])


def changed(change: Change, node: Document = NODE) -> Document:
    """The node after a change."""
    new = copy.deepcopy(node)
    change(new)
    return new


def publish(node: Document) -> None:
    """Everything that relay and agent do to a node, at once."""
    label, value = node_state.LABEL
    node["metadata"].setdefault("labels", {})[label] = value
    node["metadata"].setdefault("annotations", {}).update({node_state.ANNOTATION: "{}", node_keys.STATUS: "{}"})
    node["metadata"].update(resourceVersion="8", managedFields=[{"manager": "interpose"}])
    node["spec"]["taints"] = [node_state.TAINT._asdict(), *node["spec"].get("taints", ())]
    node["status"].setdefault("capacity", {})[node_state.CORES] = "2"
    node["status"].setdefault("conditions", []).insert(0, {"type": CONDITION, "status": "True"})


@pytest.mark.parametrize("node", [NODE, BARE])
def test_an_agent_can_do_its_work_and_take_it_back(guard: Guard, node: Document) -> None:
    """Label, annotations, taint, extended resource, condition; on a node that has some, and on one that has none."""
    published = changed(publish, node)

    assert guard.refusals(node, published, extra={NODE_OF_TOKEN: ["n1"]}) == []
    assert guard.refusals(published, published, extra={NODE_OF_TOKEN: ["n1"]}) == []
    assert guard.refusals(published, node, extra={NODE_OF_TOKEN: ["n1"]}) == []


METADATA = "of the metadata an agent may change labels and annotations only"
SPEC = "of the spec an agent may change taints only"
STATUS = "of the status an agent may change conditions and capacity only"
LABELS = "an agent may change its own labels only"
ANNOTATIONS = "an agent may change its own annotations only"
TAINTS = "an agent may change its own taints only"
CONDITIONS = "an agent may change the condition InterposeConfigured only"
CAPACITY = "an agent may change its own extended resources only"


@pytest.mark.parametrize(
    ("change", "refusal"),
    [
        pytest.param(lambda n: n["metadata"].update(finalizers=["x"]), METADATA, id="finalizer"),
        pytest.param(lambda n: n["metadata"].update(ownerReferences=[{}]), METADATA, id="owner"),
        pytest.param(lambda n: n["metadata"].pop("uid"), METADATA, id="uid"),
        pytest.param(lambda n: n["metadata"]["labels"].update({"kubernetes.io/hostname": "n2"}), LABELS, id="hostname"),
        pytest.param(lambda n: n["metadata"]["labels"].update(tier="db"), LABELS, id="label of others"),
        pytest.param(lambda n: n["metadata"]["labels"].update({"new/label": ""}), LABELS, id="new label"),
        pytest.param(lambda n: n["metadata"]["labels"].update({"x.interpose/a": ""}), LABELS, id="like ours"),
        pytest.param(lambda n: n["metadata"]["labels"].pop("tier"), LABELS, id="label away"),
        pytest.param(lambda n: n["metadata"].pop("labels"), LABELS, id="all labels away"),
        pytest.param(
            lambda n: n["metadata"]["annotations"].update({"flannel.alpha.coreos.com/public-ip": "6.6.6.6"}),
            ANNOTATIONS,
            id="annotation of the network",
        ),
        pytest.param(lambda n: n["metadata"]["annotations"].clear(), ANNOTATIONS, id="annotations away"),
        pytest.param(lambda n: n["spec"].update(podCIDR="0.0.0.0/0"), SPEC, id="podCIDR"),
        pytest.param(lambda n: n["spec"].update(podCIDRs=["0.0.0.0/0"]), SPEC, id="podCIDRs"),
        pytest.param(lambda n: n["spec"].pop("podCIDRs"), SPEC, id="podCIDRs away"),
        pytest.param(lambda n: n["spec"].update(unschedulable=True), SPEC, id="unschedulable"),
        pytest.param(lambda n: n["spec"].update(providerID="x"), SPEC, id="providerID"),
        pytest.param(lambda n: n["spec"]["taints"].clear(), TAINTS, id="taint away"),
        pytest.param(lambda n: n["spec"].pop("taints"), TAINTS, id="all taints away"),
        pytest.param(lambda n: n["spec"]["taints"][0].update(effect="NoExecute"), TAINTS, id="taint of others"),
        pytest.param(
            lambda n: n["spec"]["taints"].append({"key": "x", "effect": "NoExecute"}), TAINTS, id="taint that evicts"
        ),
        pytest.param(lambda n: n["status"]["addresses"][0].update(address="6.6.6.6"), STATUS, id="kubelet's address"),
        pytest.param(
            lambda n: n["status"]["daemonEndpoints"]["kubeletEndpoint"].update(Port=1), STATUS, id="kubelet's port"
        ),
        pytest.param(lambda n: n["status"]["allocatable"].update(cpu="1000"), STATUS, id="allocatable"),
        pytest.param(lambda n: n["status"].pop("nodeInfo"), STATUS, id="nodeInfo away"),
        pytest.param(lambda n: n["status"].update(volumesInUse=[]), STATUS, id="volumes"),
        pytest.param(lambda n: n["status"]["conditions"].clear(), CONDITIONS, id="conditions away"),
        pytest.param(lambda n: n["status"].pop("conditions"), CONDITIONS, id="list of conditions away"),
        pytest.param(lambda n: n["status"]["conditions"][0].update(status="False"), CONDITIONS, id="Ready"),
        pytest.param(lambda n: n["status"]["conditions"][0].update(reason="x"), CONDITIONS, id="reason of Ready"),
        pytest.param(
            lambda n: n["status"]["conditions"].append({"type": "PIDPressure", "status": "True"}),
            CONDITIONS,
            id="new condition",
        ),
        pytest.param(lambda n: n["status"]["capacity"].update(cpu="8"), CAPACITY, id="cpu"),
        pytest.param(lambda n: n["status"]["capacity"].pop("cpu"), CAPACITY, id="cpu away"),
        pytest.param(lambda n: n["status"].pop("capacity"), CAPACITY, id="capacity away"),
        pytest.param(lambda n: n["status"]["capacity"].update({"nvidia.com/gpu": "9"}), CAPACITY, id="gpus"),
    ],
)
def test_a_stolen_token_can_do_nothing_else(guard: Guard, change: Change, refusal: str) -> None:
    """Each alone, and hidden between things that an agent may do; exactly one rule says no."""
    for new in (changed(change), changed(publish, changed(change))):
        assert guard.refusals(NODE, new, extra={NODE_OF_TOKEN: ["n1"]}) == [refusal]


@pytest.mark.parametrize(
    "extra", [None, {}, {NODE_OF_TOKEN: []}, {NODE_OF_TOKEN: ["n2"]}, {NODE_OF_TOKEN: ["n2", "n1"]}]
)
def test_other_nodes_are_closed(guard: Guard, extra: Document | None) -> None:
    """The token says where the pod runs; one that does not say so opens no node at all."""
    refusals = guard.refusals(NODE, changed(publish), extra=extra)

    assert refusals == ["an agent may change the node it runs on, and no other"]


def test_only_agents_are_looked_at(guard: Guard) -> None:
    """Kubelets and people change nodes as they did."""
    assert guard.asked(ACCOUNT)
    assert not guard.asked("system:node:n1")


def test_it_sees_updates_of_nodes_and_their_status(deploy: Path) -> None:
    """PATCH is an update. What agents may not do by RBAC is not looked at."""
    policy, binding = read_documents(deploy / "kustomize/options/node-guard/policy.yaml")
    [rule] = policy["spec"]["matchConstraints"]["resourceRules"]

    assert (rule["resources"], rule["operations"]) == (["nodes", "nodes/status"], ["UPDATE"])
    assert policy["spec"]["failurePolicy"] == "Fail"
    assert binding["spec"]["validationActions"] == ["Deny"]


# -- objects of policies

OTHER: Document = {"status": "Success", "generation": 1, "errors": ""}
ENTRIES = "an agent may change the entry of the node it runs on, and no other"
REST = "of the status an agent may change entries of nodes only"


@pytest.fixture(scope="module")
def status_guard(deploy: Path) -> Guard:
    """That of objects of policies."""
    return Guard(read_documents(deploy / "kustomize/options/node-guard/policy-status.yaml")[0])


def entries(**status: Any) -> Document:
    """An object with this status."""
    return {"metadata": {"name": "default"}, "spec": {}, **({"status": status} if status else {})}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (entries(), entries(nodes={"n1": OTHER})),
        (entries(nodes={"n2": OTHER}), entries(nodes={"n1": {}, "n2": OTHER})),
        (entries(nodes={"n1": OTHER, "n2": OTHER}), entries(nodes={"n2": OTHER})),
    ],
)
def test_an_agent_can_write_its_entry_and_take_it_back(status_guard: Guard, old: Document, new: Document) -> None:
    """Whether there are others or not; another node may not do it for it."""
    assert status_guard.refusals(old, new, extra={NODE_OF_TOKEN: ["n1"]}) == []
    assert status_guard.refusals(old, new, extra={NODE_OF_TOKEN: ["n3"]}) == [ENTRIES]
    assert status_guard.refusals(old, new) == [ENTRIES]


@pytest.mark.parametrize(
    ("new", "refusal"),
    [
        (entries(nodes={"n2": {}}), ENTRIES),
        (entries(nodes={}), ENTRIES),
        (entries(nodes={"n2": OTHER, "n3": OTHER}), ENTRIES),
        (entries(nodes={"n2": OTHER}, more=1), REST),
    ],
)
def test_what_is_others_in_a_status_is_refused(status_guard: Guard, new: Document, refusal: str) -> None:
    """Changed, taken away, added; and what is no entry."""
    assert status_guard.refusals(entries(nodes={"n2": OTHER}), new, extra={NODE_OF_TOKEN: ["n1"]}) == [refusal]
    assert not status_guard.asked("somebody")
