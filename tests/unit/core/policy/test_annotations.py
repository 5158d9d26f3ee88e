"""What pods say about CPUs: the spellings that are understood, and refusals that name what was written."""

import re
from collections.abc import Callable

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.annotations import (
    FAMILIES,
    ISOLATED,
    ISOLATED_LABEL,
    NUMA_NODES,
    POD_SCOPES,
    AnnotationScope,
    PolicyAnnotation,
    find_annotation,
    numa_nodes,
    prefers_isolated,
)
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


NEW, OLD = (f"hide-hyperthreads.{family}" for family in FAMILIES)


@pytest.mark.parametrize(
    ("annotations", "key", "scope"),
    [
        ({NEW: "1", OLD: "1"}, NEW, AnnotationScope.PLAIN),
        ({OLD: "1"}, OLD, AnnotationScope.PLAIN),
        ({NEW: "1", f"{OLD}/pod": "1"}, f"{OLD}/pod", AnnotationScope.POD),
        ({f"{NEW}/pod": "1", f"{OLD}/container.app": "1"}, f"{OLD}/container.app", AnnotationScope.CONTAINER),
        ({f"{NEW}/container.app": "1", f"{OLD}/container.app": "1"}, f"{NEW}/container.app", AnnotationScope.CONTAINER),
        ({NEW: "1", f"{NEW}/container.other": "1"}, NEW, AnnotationScope.PLAIN),
    ],
)
def test_the_most_specific_annotation_counts_then_the_newer_family(
    annotations: dict[str, str], key: str, scope: AnnotationScope
) -> None:
    """An annotation of the older family about a single container wins over one of the newer family about the pod."""
    assert find_annotation(request(annotations), "hide-hyperthreads") == PolicyAnnotation(
        key=key, text="1", scope=scope
    )


def test_an_annotation_that_is_not_there_is_none() -> None:
    """Nor is one about another container, or about something else."""
    others = {f"{NEW}/container.other": "1", f"x{NEW}": "1", "hide-hyperthreads": "1"}
    assert find_annotation(request(others), "hide-hyperthreads") is None


def test_scopes_can_be_left_out() -> None:
    """Where a pod as a whole is what it is about."""
    annotations = {f"{NEW}/container.app": "own", NEW: "pod"}
    found = find_annotation(request(annotations), "hide-hyperthreads", POD_SCOPES)
    assert found is not None
    assert found.text == "pod"


def annotation(text: str) -> PolicyAnnotation:
    return PolicyAnnotation(key="some.key", text=text, scope=AnnotationScope.PLAIN)


@pytest.mark.parametrize(("text", "value"), [("true", True), (" F\n", False), ("0", False), ("T", True)])
def test_an_annotation_is_a_flag(text: str, value: bool) -> None:
    """In the spellings that Go's programs take."""
    assert annotation(text).flag() is value


@pytest.mark.parametrize(("text", "value"), [("512Mi", 512 << 20), ("1.5", 2), (" 0 ", 0)])
def test_an_annotation_is_an_amount(text: str, value: int) -> None:
    """A quantity, rounded up."""
    assert annotation(text).amount() == value


def test_an_annotation_is_of_known_words() -> None:
    """In any case; the answer has the spelling that is known."""
    kinds = ("dram", "PMEM", "hbm")
    assert annotation("Dram").choice(kinds) == "dram"
    assert annotation(" HBM, pmem ").choices(kinds) == ("hbm", "PMEM")


@pytest.mark.parametrize(
    ("read", "text", "problem"),
    [
        (PolicyAnnotation.flag, "yes", "annotation some.key: 'yes' is neither true nor false"),
        (PolicyAnnotation.amount, "much", "annotation some.key: 'much' is not a quantity such as 500m, 1.5 or 1Gi"),
        (PolicyAnnotation.amount, "-1", "annotation some.key: '-1' is below zero"),
        (
            lambda found: found.choice(("dram", "hbm")),
            "drum",
            "annotation some.key: 'drum' has 'drum', which is none of dram, hbm, did you mean dram?",
        ),
        (
            lambda found: found.choices(("dram", "hbm")),
            "dram,",
            "annotation some.key: 'dram,' has '', which is none of dram, hbm",
        ),
        (lambda found: found.choice(("a", "b")), "a,b", "annotation some.key: 'a,b' has 'a,b', which is none of a, b"),
    ],
)
def test_an_annotation_that_cannot_be_read_is_named(
    read: Callable[[PolicyAnnotation], object], text: str, problem: str
) -> None:
    """With its key and its text."""
    with pytest.raises(ValueError, match=re.escape(problem)):
        read(annotation(text))
