"""What a webhook wrote down about containers."""

import json
from typing import Any

import pytest

from interpose.core.model.cgroup import KubeQos
from interpose.core.policy.request import Amounts, RequestSource
from interpose.resmgr.container_request import ANNOTATIONS, MAX_TEXT, ResourceAnnotation, read_annotation

NAME = ANNOTATIONS[0]
ENTRY = {
    "requests": {"cpu": "1500m", "memory": "64Mi", "cmk.intel.com/exclusive-cores": 2, "hugepages-2Mi": "4Mi"},
    "limits": {"cpu": 2, "memory": "1e8", "cmk.intel.com/exclusive-cores": "2", "x.io/none": "0"},
    "claims": [{"name": "gpu"}],
}


def said(document: Any) -> ResourceAnnotation:
    """The annotation with this content."""
    return ResourceAnnotation(NAME, document if isinstance(document, str) else json.dumps(document))


def test_amounts_are_exact() -> None:
    """Quantities as text or number; extended resources by name; keys nobody knows are ignored."""
    document = said({"containers": {"a": ENTRY}, "initContainers": None, "more": 1})
    assert document.container("a").amounts() == Amounts(
        milli=1500,
        limit_milli=2000,
        memory=64 << 20,
        memory_limit=100_000_000,
        extended={"cmk.intel.com/exclusive-cores": 2},
        source=RequestSource.ANNOTATION,
    )


def test_a_request_that_is_not_there_is_the_limit() -> None:
    """As the API server has it; without either it is known to be none."""
    document = said({"containers": {"a": {"limits": {"cpu": "1", "x.io/y": 3}}, "b": None}})
    assert document.container("a").amounts() == Amounts(
        milli=1000, limit_milli=1000, memory=0, extended={"x.io/y": 3}, source=RequestSource.ANNOTATION
    )
    assert document.container("b").amounts() == Amounts(memory=0, source=RequestSource.ANNOTATION)


def test_an_init_container_comes_first() -> None:
    """Names are unique in a pod, so this is for odd texts only."""
    text = {"containers": {"a": {}}, "initContainers": {"a": {"requests": {"cpu": "1"}}}}
    assert said(text).container("a").amounts().milli == 1000


def test_either_annotation_counts_the_first_before_the_second() -> None:
    """Of the two names."""
    texts = {name: json.dumps({"containers": {"a": {"requests": {"cpu": n}}}}) for n, name in enumerate(ANNOTATIONS, 1)}
    assert read_annotation({}) is None
    for expected, names in ((1, ANNOTATIONS), (2, ANNOTATIONS[1:])):
        found = read_annotation({name: texts[name] for name in names})
        assert found is not None
        assert found.container("a").amounts().milli == expected * 1000


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("", "annotation intel.com/resources: is empty"),
        ("{", "annotation intel.com/resources line 1 column 2: is not valid JSON"),
        ("[]", "annotation intel.com/resources: expected a group of keys, found a list"),
        ("[" * 3000, "annotation intel.com/resources: is nested too deeply"),
        ({"containers": 3}, "annotation intel.com/resources: containers: expected a group of keys, found a whole"),
        (" " * (MAX_TEXT + 1), f"annotation intel.com/resources: has {MAX_TEXT + 1} characters, more than {MAX_TEXT}"),
        ("," * 5000, "annotation intel.com/resources: has 5000 commas, more than 1024"),
        ({}, "annotation intel.com/resources: says nothing about container 'a'"),
        ({"containers": {"a": []}}, "annotation intel.com/resources: containers['a']: expected a group of keys"),
        (
            {"containers": {"a": {"requests": {"cpu": "lots"}}}},
            "annotation intel.com/resources: containers['a'].requests['cpu']: 'lots' is not a quantity",
        ),
        (
            {"initContainers": {"a": {"limits": {"memory": "-1"}}}},
            "annotation intel.com/resources: initContainers['a'].limits['memory']: '-1' is below zero",
        ),
        (
            {"containers": {"a": {"limits": {"cpu": True}}}},
            "annotation intel.com/resources: containers['a'].limits['cpu']: expected a quantity, found true",
        ),
        (
            {"containers": {"a": {"requests": {"x.io/y": "500m"}}}},
            "annotation intel.com/resources: containers['a']: 'x.io/y' comes in whole numbers, found 0.5",
        ),
        (
            {"containers": {"a": {"requests": {"cpu": "9000"}}}},
            "annotation intel.com/resources: containers['a']: asks for more than 8192 CPUs",
        ),
        (
            {"containers": {"a": {"requests": {"cpu": 1}, "limits": {"cpu": "9000"}}}},
            "annotation intel.com/resources: containers['a']: asks for more than 8192 CPUs",
        ),
    ],
)
def test_what_is_wrong_is_named(document: Any, problem: str) -> None:
    """Annotation, place and value."""
    with pytest.raises(ValueError) as caught:
        said(document).container("a").amounts()
    assert str(caught.value).startswith(problem)


def test_another_container_may_be_wrong() -> None:
    """It is read when it is asked for."""
    text = {"containers": {"a": {"requests": {"cpu": "1", "memory": None}}, "b": 7}}
    assert said(text).container("a").amounts().milli == 1000


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "qos"),
    [
        ([{}], KubeQos.BEST_EFFORT),
        ([{"requests": {"cpu": "0"}, "limits": {"x.io/y": 1}}], KubeQos.BEST_EFFORT),
        ([{"requests": BOTH, "limits": BOTH}], KubeQos.GUARANTEED),
        ([{"limits": BOTH}], KubeQos.GUARANTEED),
        ([{"requests": BOTH, "limits": {"cpu": "1000m", "memory": "1024Mi"}}], KubeQos.GUARANTEED),
        ([{"requests": BOTH}], KubeQos.BURSTABLE),
        ([{"limits": {"cpu": "1"}}], KubeQos.BURSTABLE),
        ([{"requests": {"cpu": "500m"}, "limits": BOTH}], KubeQos.BURSTABLE),
        ([{"limits": BOTH}, {}], KubeQos.BURSTABLE),
    ],
)
def test_the_class_of_a_pod(containers: list[Any], qos: KubeQos) -> None:
    """Guaranteed only if every container, init containers too, may have just what it asks for."""
    names = dict(zip("ab", containers, strict=False))
    assert said({"containers": names}).qos() is qos
    assert said({"initContainers": names}).qos() is qos
