"""Pods of a simulation: what a policy decides by is read from manifests as the API server and the kubelet would."""

from pathlib import Path

import pytest

from interpose.cli.policy.simulate import planned_pod
from interpose.core.model.cgroup import KubeQos
from interpose.core.policy.request import Amounts, Request, RequestSource
from interpose.core.policy.simulate import PlannedPod, Role
from interpose.errors import ConfigError
from interpose.node.pods.manifest.reader import read_pod_file, read_pods

HEAD = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"
NO_QUANTITY = "is not a quantity such as 500m, 1.5 or 1Gi"


def read_manifests(text: str, where: str) -> list[PlannedPod]:
    """The pods of a text as a simulation plans them."""
    return [planned_pod(pod) for pod in read_pods(text, where, resources_only=True)]


def only(spec: str) -> Request:
    """The one container of a pod."""
    [pod] = read_manifests(f"{HEAD}spec: {spec}", "x")
    [member] = pod.members
    return member.request


def with_resources(resources: str) -> Request:
    """A container with these resources."""
    return only(f"{{containers: [{{name: c, resources: {resources}}}]}}")


def problems(text: str) -> list[str]:
    """What is wrong with a text."""
    with pytest.raises(ConfigError) as caught:
        read_manifests(text, "file p.yaml")
    return caught.value.problems


def test_a_container_is_read_with_all_a_policy_wants_to_know() -> None:
    """Amounts exact, namespace filled in, what is not known left out."""
    request = only(
        """
  nodeName: n
  restartPolicy: Always
  containers:
    - name: c
      image: i
      command: [a]
      args: ["b"]
      env: [{name: A, value: "1"}, {name: B, valueFrom: {}}]
      resources:
        requests: {cpu: 1500m, memory: 1Gi, example.com/card: 2, ephemeral-storage: 1Gi}
        limits: {cpu: "2", memory: 2Gi}
"""
    )
    assert request.title == "default/p/c"
    assert str(request.key) == "default/p/c/0"
    assert (request.command, request.args, request.envs) == (("a",), ("b",), {"A": "1"})
    amounts = request.amounts
    assert (amounts.milli, amounts.limit_milli) == (1500, 2000)
    assert (amounts.memory, amounts.memory_limit) == (1 << 30, 2 << 30)
    assert (amounts.extended, amounts.source) == ({"example.com/card": 2}, RequestSource.MANIFEST)


def test_labels_and_annotations_are_those_of_the_pod() -> None:
    """And the namespace is its own."""
    [pod] = read_manifests(
        "kind: Pod\nmetadata: {name: p, namespace: n, labels: {a: b}, annotations: {c: d}}\n"
        "spec: {containers: [{name: x}]}",
        "x",
    )
    request = pod.members[0].request
    assert (pod.title, dict(request.pod_labels), request.annotation("c")) == ("n/p", {"a": "b"}, "d")


def test_a_missing_request_is_the_limit() -> None:
    """Resource by resource."""
    amounts = with_resources("{limits: {cpu: 2, memory: 1Gi}, requests: {cpu: 1}}").amounts
    assert (amounts.milli, amounts.memory) == (1000, 1 << 30)


@pytest.mark.parametrize(
    ("resources", "qos"),
    [
        ("{}", KubeQos.BEST_EFFORT),
        ("{requests: {cpu: 0}}", KubeQos.BEST_EFFORT),
        ("{requests: {example.com/card: 1}}", KubeQos.BEST_EFFORT),
        ("{requests: {cpu: 1}}", KubeQos.BURSTABLE),
        ("{limits: {cpu: 1}}", KubeQos.BURSTABLE),
        ("{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 0}}", KubeQos.BURSTABLE),
        ("{limits: {cpu: 1, memory: 1Gi}}", KubeQos.GUARANTEED),
        ("{limits: {cpu: 1, memory: 1Gi}, requests: {cpu: 1000m, memory: 1024Mi}}", KubeQos.GUARANTEED),
    ],
)
def test_the_qos_class_follows_the_kubelets_rule(resources: str, qos: KubeQos) -> None:
    """CPU and memory above zero count."""
    assert with_resources(resources).qos is qos


def test_all_containers_of_a_pod_decide_its_class() -> None:
    """Also those that run before; unless the pod says it for all of them."""
    whole = "resources: {limits: {cpu: 1, memory: 1Gi}}"
    containers = f"initContainers: [{{name: i}}], containers: [{{name: c, {whole}}}]"
    [mixed] = read_manifests(f"{HEAD}spec: {{{containers}}}", "x")
    assert {member.request.qos for member in mixed.members} == {KubeQos.BURSTABLE}
    [of_pod] = read_manifests(f"{HEAD}spec: {{{whole}, {containers}}}", "x")
    assert {member.request.qos for member in of_pod.members} == {KubeQos.GUARANTEED}


def test_sidecars_are_told_from_init_containers() -> None:
    """By their restart policy; main containers come last."""
    [pod] = read_manifests(
        f"{HEAD}spec: {{containers: [{{name: m}}], initContainers: [{{name: i, restartPolicy: OnFailure}}, "
        "{name: s, restartPolicy: Always}]}",
        "x",
    )
    assert [(member.request.key.name, member.role) for member in pod.members] == [
        ("i", Role.INIT),
        ("s", Role.SIDECAR),
        ("m", Role.MAIN),
    ]


def test_documents_and_lists_are_read_in_order() -> None:
    """Documents without content are no documents."""
    pod = "{{kind: Pod, metadata: {{name: {}}}, spec: {{containers: [{{name: c}}]}}}}"
    text = (
        f"# first\n---\n--- # nothing\n{pod.format('a')}\n---\nkind: List\nitems:\n  - {pod.format('b')}\n"
        f"  - {pod.format('c')}\n---\n...\n---\nkind: List\n"
    )
    assert [one.name for one in read_manifests(text, "x")] == ["a", "b", "c"]


def test_problems_name_file_document_line_key_and_value() -> None:
    """All of them at once."""
    bad_amounts = "resources: {requests: {cpu: lots}, limits: {cpu: -1}}"
    documents = [
        f"{HEAD}spec:\n  containers:\n    - name: c\n      {bad_amounts}\n    - {{}}\n",
        f"{HEAD}spec: {{containers: [{{name: a, resource: {{}}}}, {{name: b, resources: {{requests: 1}}}}]}}\n",
        "kind: Service\n",
        "x: 1\n",
        "kind: List\nitems: {}\n",
        "kind: List\nitems: [{kind: Job}, [1]]\n",
        "a: [\n",
    ]
    text = "---\n".join(documents)
    of_requests = "expected a group of keys, found a number ('1')"
    assert problems(text) == [
        f"file p.yaml document 1 line 7: spec.containers[0].resources.requests.cpu: 'lots' {NO_QUANTITY}",
        "file p.yaml document 1 line 7: spec.containers[0].resources.limits.cpu: '-1' is below zero",
        "file p.yaml document 1 line 8: spec.containers[1].name: is missing",
        "file p.yaml document 2 line 13: spec.containers[0].resource: is not a known key, did you mean resources?",
        f"file p.yaml document 2 line 13: spec.containers[1].resources.requests: {of_requests}",
        "file p.yaml document 3 line 15: kind: expected Pod or List, found 'Service'",
        "file p.yaml document 4 line 17: kind: is missing, expected Pod or List",
        "file p.yaml document 5 line 20: items: expected a list, found a group of keys",
        "file p.yaml document 6 line 23: items[0].kind: expected Pod or List, found 'Job'",
        "file p.yaml document 6 line 23: items[1].kind: is missing, expected Pod or List",
        "file p.yaml document 7 line 26: is not valid YAML: did not find expected node content",
    ]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        (
            "{containers: [{name: c, resources: {requests: {cpu: 3}, limits: {cpu: 2500m}}}]}",
            "spec.containers[0].resources: the request of 3 cpu is more than the limit, 2.5",
        ),
        ("{containers: [{name: c}, {name: c}]}", "spec.containers: two containers have the name 'c'"),
        ("{containers: [{name: c}], initContainers: [{name: c}]}", "spec: two containers have the name 'c'"),
        (
            "{containers: [{name: c, resources: {limits: {cpu: 1, cpu: 2}}}]}",
            "spec.containers[0].resources.limits.cpu: is given twice",
        ),
    ],
)
def test_what_the_api_server_refuses_is_refused(spec: str, problem: str) -> None:
    """With the reason."""
    assert problems(f"{HEAD}spec: {spec}") == [f"file p.yaml line 4: {problem}"]


def test_a_pod_is_given_once() -> None:
    """Its name says which it is."""
    pod = f"{HEAD}spec: {{containers: [{{name: c}}]}}\n"
    assert problems(f"{pod}---\n{pod}") == ["file p.yaml: pod default/p is given twice, first in p.yaml"]


@pytest.mark.parametrize("text", ["", "# nothing\n", "---\n---\n", "kind: List\n"])
def test_a_file_without_pods_is_a_mistake(text: str) -> None:
    """Rather than an empty table."""
    assert problems(text) == ["file p.yaml: holds no pods"]


def test_too_many_documents_are_refused() -> None:
    """Before they are read."""
    assert problems("---\n" * 2000) == ["file p.yaml: has more than 1000 documents"]


def test_the_sample_can_be_read() -> None:
    """What we ship can be copied."""
    pods = read_pod_file(str(Path(__file__).parents[4] / "samples/pods.yaml"), resources_only=True)
    assert [pod.title for pod in pods] == ["prod/database", "prod/web", "prod/dpdk", "batch/backup"]


def test_amounts_of_a_pod_as_a_whole_are_read() -> None:
    """Limits that a container does not have are the pod's; the class is that of the pod."""
    request = only("{containers: [{name: c}], resources: {limits: {cpu: 4, memory: 1Gi}}}")
    assert request.qos is KubeQos.GUARANTEED
    assert request.pod_amounts is not None
    assert (request.pod_amounts.milli, request.pod_amounts.memory) == (4000, 1 << 30)
    assert (request.milli, request.amounts.limit_milli, request.amounts.memory_limit) == (0, 4000, 1 << 30)


def test_what_a_pod_does_not_say_as_a_whole_is_the_sum_of_its_containers() -> None:
    """Memory is the pod's here, CPU that of both containers."""
    containers = "[{name: a, resources: {requests: {cpu: 1}}}, {name: b, resources: {requests: {cpu: 500m}}}]"
    text = f"{HEAD}spec: {{containers: {containers}, resources: {{requests: {{memory: 1Gi}}}}}}"
    [pod] = read_manifests(text, "x")
    assert [member.request.pod_amounts for member in pod.members] == [
        Amounts(milli=1500, memory=1 << 30, source=RequestSource.MANIFEST)
    ] * 2
    assert [member.request.milli for member in pod.members] == [1000, 500]
