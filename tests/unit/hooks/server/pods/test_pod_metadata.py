"""What the kubelet says of pods, and what it makes of a pod of the runtime."""

import json
from typing import Any

import pytest

from interpose.core.model.pod import Pod
from interpose.hooks.server.pods.pod_annotations import EXTENDED_RESOURCES, extended_resources
from interpose.hooks.server.pods.pod_metadata import MAX_PODS, PodMetadata, RequestedResources, overlay, parse_pods


def pod_list(*pods: Any) -> bytes:
    """A document as the kubelet sends it."""
    return json.dumps({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": list(pods)}).encode()


def pod(**more: Any) -> dict[str, Any]:
    """A pod with the least that one has."""
    return {"metadata": {"uid": "u1", "name": "web", "namespace": "shop"}, "spec": {}, "status": {}, **more}


def with_containers(**kinds: Any) -> dict[str, Any]:
    """A pod with these containers."""
    return pod(spec=kinds)


def container(name: str, requests: object = None, limits: object = None, **more: object) -> dict[str, Any]:
    """A container that asks for this."""
    return {"name": name, "resources": {"requests": requests, "limits": limits}, **more}


def test_facts_of_a_pod() -> None:
    """By uid."""
    document = pod_list(
        {
            "metadata": {
                "uid": "u1",
                "name": "web",
                "namespace": "shop",
                "labels": {"koordinator.sh/qosClass": "LS"},
                "annotations": {"a": "1"},
            },
            "spec": {"runtimeClassName": "kata", "containers": [{"name": "main"}]},
            "status": {"phase": "Running"},
        }
    )
    assert parse_pods(document) == {
        "u1": PodMetadata(
            namespace="shop",
            name="web",
            labels={"koordinator.sh/qosClass": "LS"},
            annotations={"a": "1"},
            phase="Running",
            runtime_class="kata",
        )
    }


@pytest.mark.parametrize("document", [b"{}", b'{"items": null}', b'{"items": []}'])
def test_node_without_pods(document: bytes) -> None:
    """However an empty list is written."""
    assert parse_pods(document) == {}


def test_extended_resources_become_the_annotation() -> None:
    """Of all kinds of containers, and only what is extended; a number counts as a quantity."""
    document = pod_list(
        with_containers(
            containers=[
                container(
                    "main", {"kubernetes.io/batch-cpu": "500", "cpu": "1"}, {"kubernetes.io/batch-memory": "1Gi"}
                ),
                container("plain", {"cpu": "1"}, {"memory": "1Gi"}),
            ],
            initContainers=[container("prepare", {"kubernetes.io/mid-cpu": 250})],
            ephemeralContainers=[container("debug", None, {"koordinator.sh/batch-cpu": "1"})],
        )
    )
    facts = parse_pods(document)["u1"]
    assert facts.extended == {
        "main": RequestedResources({"kubernetes.io/batch-cpu": "500"}, {"kubernetes.io/batch-memory": "1Gi"}),
        "prepare": RequestedResources({"kubernetes.io/mid-cpu": "250"}, {}, init=True),
        "debug": RequestedResources({}, {"koordinator.sh/batch-cpu": "1"}),
    }
    assert json.loads(facts.annotations[EXTENDED_RESOURCES]) == {
        "containers": {
            "main": {
                "requests": {"kubernetes.io/batch-cpu": "500"},
                "limits": {"kubernetes.io/batch-memory": "1Gi"},
            },
            "prepare": {"requests": {"kubernetes.io/mid-cpu": "250"}, "init": True},
            "debug": {"limits": {"koordinator.sh/batch-cpu": "1"}},
        }
    }
    assert list(extended_resources(facts.annotations)) == ["prepare", "main", "debug"]


CPU = {"kubernetes.io/batch-cpu": "500"}


@pytest.mark.parametrize(
    ("kind", "more", "init"),
    [
        ("initContainers", {}, True),
        ("initContainers", {"restartPolicy": None}, True),
        ("initContainers", {"restartPolicy": "Always"}, False),
        ("containers", {}, False),
        ("containers", {"restartPolicy": "Never"}, False),
    ],
)
def test_init_containers_are_marked(kind: str, more: dict[str, object], init: bool) -> None:
    """Those that end before the next one starts; a sidecar does not, wherever it is listed."""
    facts = parse_pods(pod_list(with_containers(**{kind: [container("one", CPU, **more)]})))["u1"]
    assert facts.extended["one"].init is init
    assert extended_resources(facts.annotations)["one"].init is init


def test_containers_are_listed_in_the_order_of_their_start() -> None:
    """So that one can see which sidecar runs beside which init container."""
    kinds = {
        "containers": [container("main", CPU)],
        "initContainers": [container("proxy", CPU, restartPolicy="Always"), container("prepare", CPU)],
    }
    facts = parse_pods(pod_list(with_containers(**kinds)))["u1"]
    assert list(extended_resources(facts.annotations)) == ["proxy", "prepare", "main"]


def test_the_spec_of_today_beats_the_annotation() -> None:
    """Which was written when the pod was made; it may have been resized since."""
    one = with_containers(containers=[container("main", CPU)])
    one["metadata"]["annotations"] = {EXTENDED_RESOURCES: '{"containers":{"main":{}}}', "a": "1"}
    annotations = parse_pods(pod_list(one))["u1"].annotations
    assert extended_resources(annotations)["main"].requests == {"kubernetes.io/batch-cpu": 500}
    assert annotations["a"] == "1"


def test_the_annotation_stays_if_the_spec_has_nothing_to_say() -> None:
    """A pod whose resources were never extended ones, with words of somebody who knows why."""
    one = with_containers(containers=[container("main", {"cpu": "1"})])
    one["metadata"]["annotations"] = {EXTENDED_RESOURCES: "{}"}
    assert parse_pods(pod_list(one))["u1"].annotations == {EXTENDED_RESOURCES: "{}"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (b"", "the list of pods is not JSON: Expecting value"),
        (b"\xff\xfe\xfd", "the list of pods is not JSON"),
        (b"[" * 200_000, "the list of pods is nested too deeply"),
        (b"[]", "the list of pods: [] is not a group of keys"),
        (b'{"items": {}}', "items: {} is not a list"),
        (pod_list(*[{}] * (MAX_PODS + 1)), "items: 10001 pods, more than 10000"),
        (pod_list(pod(), 5), "items[1]: 5 is not a group of keys"),
        (pod_list(pod(metadata={"name": "web"})), "items[0].metadata.uid is missing"),
        (pod_list(pod(metadata=None)), "items[0].metadata.uid is missing"),
        (pod_list(pod(metadata={"uid": 7})), "items[0].metadata.uid: 7 is not text"),
        (pod_list(pod(metadata={"uid": "u", "labels": {"a": True}})), "items[0].metadata.labels.a: True is not text"),
        (pod_list(pod(status="x" * 100)), "items[0].status: '" + "x" * 59 + "... is not a group of keys"),
        (pod_list(with_containers(containers="x")), "items[0].spec.containers: 'x' is not a list"),
        (pod_list(with_containers(containers=["x"])), "items[0].spec.containers[0]: 'x' is not a group of keys"),
        (
            pod_list(with_containers(containers=[container("main", {"kubernetes.io/batch-cpu": True})])),
            "items[0].spec.containers[0].resources.requests.kubernetes.io/batch-cpu: True is not a quantity",
        ),
        (
            pod_list(with_containers(containers=[container("main", None, {"kubernetes.io/mid-cpu": {}})])),
            "items[0].spec.containers[0].resources.limits.kubernetes.io/mid-cpu: {} is not a quantity",
        ),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_damaged_documents_are_refused(document: bytes, message: str) -> None:
    """With the place and what is there."""
    with pytest.raises(ValueError) as caught:
        parse_pods(document)
    assert str(caught.value).startswith(message)


def test_labels_and_annotations_of_today_replace_those_of_the_sandbox() -> None:
    """What was taken away is gone; what names the sandbox stays."""
    sandbox = Pod(
        id="p1",
        name="web",
        labels={"io.kubernetes.pod.uid": "u1", "app": "old", "gone": "1"},
        annotations={"io.kubernetes.docker.type": "x", "a": "1"},
        cgroup_parent="/kubepods/podu1",
    )
    facts = PodMetadata(labels={"app": "new", "io.kubernetes.pod.uid": "forged"}, annotations={"b": "2"})
    fresh = overlay(sandbox, facts)
    assert fresh.labels == {"app": "new", "io.kubernetes.pod.uid": "u1"}
    assert fresh.annotations == {"b": "2", "io.kubernetes.docker.type": "x"}
    assert (fresh.id, fresh.name, fresh.cgroup_parent) == ("p1", "web", "/kubepods/podu1")


def test_pod_the_kubelet_does_not_list_stays_as_it_is() -> None:
    """The list may be older than the pod."""
    sandbox = Pod(id="p1", labels={"app": "old"})
    assert overlay(sandbox, None) is sandbox


def test_pod_without_marks_of_the_kubelet() -> None:
    """Everything is replaced."""
    assert overlay(Pod(id="p1", labels={"app": "old"}), PodMetadata(labels={"app": "new"})).labels == {"app": "new"}
