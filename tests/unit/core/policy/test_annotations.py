"""What pods say about CPUs: the spellings that are understood, and refusals that name what was written."""

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.annotations import ISOLATED, ISOLATED_LABEL, NUMA_NODES, numa_nodes, prefers_isolated
from interpose.core.policy.request import Key, Request

SCOPED, PLAIN = ISOLATED
NODES = CpuSet.parse("0-3")


def request(annotations: dict[str, str], labels: dict[str, str] | None = None) -> Request:
    return Request(key=Key("pod-1", "app"), pod_annotations=annotations, pod_labels=labels or {})


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({}, None),
        ({PLAIN: "true"}, True),
        ({PLAIN: " false\n"}, False),
        ({PLAIN: "1"}, True),
        ({PLAIN: '{"app": true, "other": false}'}, True),
        ({PLAIN: "{app: false}"}, False),
        ({PLAIN: "{'app': false}"}, False),
        ({PLAIN: '{\n  "other": true,\n  "app": false\n}'}, False),
        ({PLAIN: "other: true\napp: true"}, True),
        ({PLAIN: "{other: true}"}, None),
        ({PLAIN: "{}"}, None),
        ({f"{SCOPED}/container.app": "false", f"{SCOPED}/pod": "true"}, False),
        ({f"{SCOPED}/container.other": "false", f"{SCOPED}/pod": "true"}, True),
        ({SCOPED: "true", PLAIN: "false"}, True),
        ({SCOPED: "{other: true}", PLAIN: "false"}, False),
    ],
)
def test_isolated_cpus_can_be_preferred_or_declined(annotations: dict[str, str], said: bool | None) -> None:
    """For a pod, or for single containers; the first annotation that says something about a container counts."""
    assert prefers_isolated(request(annotations)) is said


def test_the_old_label_counts_if_no_annotation_does() -> None:
    """It is the first spelling there was."""
    labels = {ISOLATED_LABEL: "true"}
    assert prefers_isolated(request({}, labels)) is True
    assert prefers_isolated(request({PLAIN: "false"}, labels)) is False


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yes",
        "{app}",
        "{app: maybe}",
        "app: true,",
        "{app: true, app: false}",
        "{\"app': true}",
        "{" * 5000,
        "[true]",
        "{" + "a: true," * 4000 + "app: true}",
    ],
)
def test_what_is_no_preference_is_refused_by_name(text: str) -> None:
    """Never taken for nothing said; the message stays short."""
    with pytest.raises(ValueError) as caught:
        prefers_isolated(request({PLAIN: text}))
    assert f"annotation {PLAIN}: {text[:20]!r}"[:-1] in str(caught.value)
    assert len(str(caught.value)) < 300
    with pytest.raises(ValueError, match=f"label {ISOLATED_LABEL}: "):
        prefers_isolated(request({}, {ISOLATED_LABEL: text}))


@pytest.mark.parametrize(
    ("annotations", "nodes"),
    [
        ({}, None),
        ({"interpose/numa-nodes": "1"}, "1"),
        ({"interpose/numa-nodes": "0-1,3"}, "0-1,3"),
        ({"interpose/numa-nodes": "1", "numa-nodes.interpose/pod": "2"}, "2"),
        ({"numa-nodes.interpose/container.app": "3", "numa-nodes.interpose/pod": "2"}, "3"),
        ({"numa-nodes.interpose/container.other": "3"}, None),
    ],
)
def test_numa_nodes_can_be_named(annotations: dict[str, str], nodes: str | None) -> None:
    """For a pod or for one container."""
    assert numa_nodes(request(annotations), NODES) == (None if nodes is None else CpuSet.parse(nodes))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("node1", "is not a list of NUMA nodes such as 0 or 0-1"),
        ("1-0", "is not a list of NUMA nodes such as 0 or 0-1"),
        ("", "names no NUMA node"),
        ("2-5", "names NUMA node 4-5; this machine has 0-3"),
    ],
)
def test_what_names_no_numa_nodes_is_refused_by_name(text: str, problem: str) -> None:
    """Also nodes that the machine does not have."""
    with pytest.raises(ValueError) as caught:
        numa_nodes(request({NUMA_NODES[1]: text}), NODES)
    assert str(caught.value) == f"annotation interpose/numa-nodes: {text!r} {problem}"
