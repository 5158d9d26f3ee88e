"""Annotations of pods and nodes: what is read, and how what cannot be read is said."""

import json
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import pytest

from interpose.core.model.pod import Pod
from interpose.core.model.qos import QosClass
from interpose.hooks.server.pods import pod_annotations
from interpose.hooks.server.pods.pod_annotations import (
    AllocatedDevice,
    ColocatedAmounts,
    ExtendedResources,
    NumaResources,
    ResourceStatus,
    colocated_amounts,
    device_allocated,
    extended_resources,
    is_managed,
    normalization_ratio,
    oom_score,
    oom_scores,
    resource_status,
    system_cpuset,
)

Reader = Callable[[Mapping[str, str]], Any]
READERS: dict[str, Reader] = {
    pod_annotations.RESOURCE_STATUS: resource_status,
    pod_annotations.EXTENDED_RESOURCES: extended_resources,
    pod_annotations.DEVICE_ALLOCATED: device_allocated,
    pod_annotations.OOM_SCORES: oom_scores,
    pod_annotations.SYSTEM_QOS: system_cpuset,
}


def read(annotation: str, document: object) -> Any:
    """What the reader of an annotation makes of a document, or of the text of one."""
    return READERS[annotation]({annotation: document if isinstance(document, str) else json.dumps(document)})


def test_the_schedulers_decision() -> None:
    """CPUs as a normalised list, amounts by NUMA node; text and numbers are amounts."""
    document = {
        "cpuset": "8,0-1,2-3",
        "numaNodeResources": [
            {"node": 0, "resources": {"cpu": "4", "memory": 5}},
            {"node": 1, "resources": {"cpu": 0.5}},
        ],
    }
    assert read(pod_annotations.RESOURCE_STATUS, document) == ResourceStatus(
        cpuset="0-3,8",
        numa=(
            NumaResources(node=0, resources={"cpu": Fraction(4), "memory": Fraction(5)}),
            NumaResources(node=1, resources={"cpu": Fraction(1, 2)}),
        ),
    )


def test_fields_are_read_as_go_reads_them() -> None:
    """Any case, unknown ones ignored, null is absent, the last of several counts; null as an amount is zero."""
    text = '{"CPUSet": "1", "cpuset": "2", "more": [], "numanoderesources": [{"NODE": 1, "Resources": {"cpu": null}}]}'
    expected = ResourceStatus(cpuset="2", numa=(NumaResources(node=1, resources={"cpu": Fraction(0)}),))
    assert read(pod_annotations.RESOURCE_STATUS, text) == expected
    assert read(pod_annotations.RESOURCE_STATUS, {"cpuset": None, "numaNodeResources": None}) == ResourceStatus()


def test_without_an_annotation_there_is_nothing() -> None:
    """No reader asks for one."""
    assert [reader({}) for reader in READERS.values()] == [ResourceStatus(), {}, {}, {}, ""]
    assert oom_score({}) is None
    assert normalization_ratio({}, 1.5) is None


def test_extended_resources_by_container() -> None:
    """Requests and limits; names of containers and resources keep their case."""
    document = {
        "containers": {
            "Main": {"requests": {"kubernetes.io/batch-cpu": "500"}, "limits": {"kubernetes.io/batch-memory": "1Gi"}},
            "side": {},
            "prepare": {"init": True},
            "proxy": {"init": None},
        }
    }
    assert read(pod_annotations.EXTENDED_RESOURCES, document) == {
        "Main": ExtendedResources(
            requests={"kubernetes.io/batch-cpu": Fraction(500)}, limits={"kubernetes.io/batch-memory": Fraction(2**30)}
        ),
        "side": ExtendedResources(),
        "prepare": ExtendedResources(init=True),
        "proxy": ExtendedResources(init=False),
    }
    assert list(read(pod_annotations.EXTENDED_RESOURCES, document)) == ["Main", "side", "prepare", "proxy"]


def test_devices_by_kind() -> None:
    """What is not read here, such as virtual functions, is no obstacle."""
    document = {
        "gpu": [{"minor": 1, "resources": {"koordinator.sh/gpu-core": "50"}, "id": "GPU-1"}],
        "rdma": [{"minor": 0, "extension": {"vfs": [{"minor": 1, "busID": "0000:09:00.2"}]}}],
        "fpga": None,
    }
    assert read(pod_annotations.DEVICE_ALLOCATED, document) == {
        "gpu": (AllocatedDevice(minor=1, resources={"koordinator.sh/gpu-core": Fraction(50)}, id="GPU-1"),),
        "rdma": (AllocatedDevice(minor=0),),
        "fpga": (),
    }


def test_oom_scores() -> None:
    """By container, and one for all."""
    assert read(pod_annotations.OOM_SCORES, {"main": -500, "side": 1000}) == {"main": -500, "side": 1000}
    assert oom_score({pod_annotations.OOM_SCORE: " -1000 "}) == -1000


def test_system_cpuset() -> None:
    """Of the node; whether it is exclusive is not asked here."""
    assert read(pod_annotations.SYSTEM_QOS, {"cpuset": "1,0", "cpusetExclusive": False}) == "0-1"


@pytest.mark.parametrize(
    ("annotation", "document", "complaint"),
    [
        (pod_annotations.RESOURCE_STATUS, "", ": is empty"),
        (pod_annotations.RESOURCE_STATUS, "{", "line 1 column 2: is not valid JSON"),
        (pod_annotations.RESOURCE_STATUS, "null", ": expected a group of keys, found null"),
        (pod_annotations.RESOURCE_STATUS, '{"a": NaN}', "NaN is not a number"),
        (pod_annotations.RESOURCE_STATUS, "[" * 10_000, "nested too deeply"),
        (
            pod_annotations.RESOURCE_STATUS,
            {"cpuset": ",4-7"},
            ": cpuset: expected a list of CPUs such as 0-3,8, found ',4-7'",
        ),
        (pod_annotations.RESOURCE_STATUS, {"cpuset": 3}, ": cpuset: expected text, found a whole number ('3')"),
        (pod_annotations.RESOURCE_STATUS, {"numaNodeResources": {}}, ": numaNodeResources: expected a list"),
        (
            pod_annotations.RESOURCE_STATUS,
            {"numaNodeResources": [{"node": -1}]},
            "[0].node: expected a whole number from 0 to",
        ),
        (pod_annotations.RESOURCE_STATUS, {"numaNodeResources": [{"node": "a"}]}, "found text ('a')"),
        (pod_annotations.RESOURCE_STATUS, {"numaNodeResources": [{}]}, "numaNodeResources[0].node: is missing"),
        (
            pod_annotations.RESOURCE_STATUS,
            {"numaNodeResources": [{"node": 1, "resources": {"cpu": True}}]},
            "[0].resources['cpu']: expected a quantity, found true",
        ),
        (
            pod_annotations.EXTENDED_RESOURCES,
            {"containers": []},
            ": containers: expected a group of keys, found a list",
        ),
        (
            pod_annotations.EXTENDED_RESOURCES,
            {"containers": {"a": {"init": 1}}},
            ": containers['a'].init: expected true or",
        ),
        (
            pod_annotations.EXTENDED_RESOURCES,
            {"containers": {"main": {"limits": {"kubernetes.io/batch-cpu": "1x"}}}},
            ": containers['main'].limits['kubernetes.io/batch-cpu']: '1x' is not a quantity",
        ),
        (
            pod_annotations.EXTENDED_RESOURCES,
            {"containers": {"main": {"requests": {"kubernetes.io/batch-cpu": -1}}}},
            ": containers['main'].requests['kubernetes.io/batch-cpu']: '-1' is below zero",
        ),
        (pod_annotations.DEVICE_ALLOCATED, {"gpu": [{"minor": 0, "id": 5}]}, "['gpu'][0].id: expected text"),
        (
            pod_annotations.DEVICE_ALLOCATED,
            '{"gpu": [{"minor": ' + "9" * 5000 + "}]}",
            "['gpu'][0].minor: expected a whole",
        ),
        (
            pod_annotations.OOM_SCORES,
            {"main": 1001},
            "['main']: expected a whole number from -1000 to 1000, found a whole",
        ),
        (pod_annotations.OOM_SCORES, {"main": 1.5}, "found a number with a fraction ('1.5')"),
        (pod_annotations.SYSTEM_QOS, {"cpuset": "a"}, ": cpuset: expected a list of CPUs"),
    ],
)
def test_what_cannot_be_read_is_named(annotation: str, document: object, complaint: str) -> None:
    """Annotation, place and value, on one short line; never another exception."""
    with pytest.raises(ValueError) as caught:
        read(annotation, document)
    text = str(caught.value)
    assert text.startswith(f"annotation {annotation}")
    assert complaint in text
    assert len(text) < 300


def many(text: str, count: int) -> str:
    """So many entries of a list or an object."""
    return ",".join([text] * count)


@pytest.mark.parametrize(
    ("annotation", "text", "said"),
    [
        (
            pod_annotations.RESOURCE_STATUS,
            '{"cpuset": "' + many("0-8191", 35_000) + '"}',
            "has 245013 characters, more than",
        ),
        (pod_annotations.RESOURCE_STATUS, '{"cpuset": "' + many("0-8191", 5) + '"}', "expected a list of CPUs"),
        (pod_annotations.RESOURCE_STATUS, '{"cpuset": "' + many("0", 600) + '"}', "has 599 commas, more than 512"),
        (pod_annotations.RESOURCE_STATUS, "[" * 100_000, "has 100000 characters, more than 16384"),
        (
            pod_annotations.RESOURCE_STATUS,
            '{"numaNodeResources": [' + many('{"node": 0}', 600) + "]}",
            "has 599 commas",
        ),
        (pod_annotations.EXTENDED_RESOURCES, '{"containers": {' + many('"a": {}', 600) + "}}", "has 599 commas"),
        (pod_annotations.DEVICE_ALLOCATED, '{"gpu": [' + many('{"minor": 0}', 600) + "]}", "has 599 commas"),
        (pod_annotations.OOM_SCORES, "{" + many('"a": 1', 600) + "}", "has 599 commas"),
        (pod_annotations.OOM_SCORES, '{"a": "' + "x" * 16_384 + '"}', "has 16393 characters"),
    ],
    ids=lambda value: value[:30],
)
def test_what_would_take_long_is_refused_at_once(annotation: str, text: str, said: str) -> None:
    """Whoever may create a pod can write as much as he likes; nobody needs that much."""
    with pytest.raises(ValueError, match=said) as caught:
        read(annotation, text)
    assert str(caught.value).startswith(f"annotation {annotation}")
    assert len(str(caught.value)) < 300


def test_a_large_pod_is_read() -> None:
    """With fifty containers that ask for everything there is."""
    tiers = {f"kubernetes.io/batch-{kind}": "1000" for kind in ("cpu", "memory")}
    document = {"containers": {f"container-{number}": {"requests": tiers, "limits": tiers} for number in range(50)}}
    assert len(read(pod_annotations.EXTENDED_RESOURCES, document)) == 50


@pytest.mark.parametrize("text", ["", "x", "1_0", "1001", "1.0", "9" * 5000])
def test_a_bad_oom_score_is_named(text: str) -> None:
    """It is plain text, no JSON."""
    with pytest.raises(
        ValueError, match=f"annotation {pod_annotations.OOM_SCORE}: expected a whole number from -1000 to 1000"
    ):
        oom_score({pod_annotations.OOM_SCORE: text})


@pytest.mark.parametrize(
    ("mark", "value", "ours"),
    [
        (pod_annotations.MANAGED, "false", False),
        (pod_annotations.MANAGED, "False ", False),
        (pod_annotations.MANAGED, "true", True),
        (pod_annotations.MANAGED, "", True),
        (pod_annotations.SKIP_HOOKS, "true", False),
        (pod_annotations.SKIP_HOOKS, "false", True),
        ("other", "false", True),
    ],
)
def test_pods_can_opt_out(mark: str, value: str, ours: bool) -> None:
    """By label or by annotation."""
    assert is_managed(Pod(id="1", labels={mark: value})) is ours
    assert is_managed(Pod(id="1", annotations={mark: value})) is ours


BATCH = ExtendedResources(
    requests={"kubernetes.io/batch-cpu": Fraction(1, 2)},
    limits={"kubernetes.io/batch-cpu": Fraction(1000), "kubernetes.io/batch-memory": Fraction(4096)},
)
MID = ExtendedResources(
    requests={"kubernetes.io/mid-cpu": Fraction(200)}, limits={"kubernetes.io/mid-memory": Fraction(8192)}
)
OLD = ExtendedResources(limits={"koordinator.sh/batch-cpu": Fraction(30), "koordinator.sh/batch-memory": Fraction(40)})
BOTH = ExtendedResources(requests=BATCH.requests, limits=MID.limits)


@pytest.mark.parametrize(
    ("qos", "extended", "expected"),
    [
        (QosClass.BE, BATCH, ColocatedAmounts(cpu_request=1, cpu_limit=1000, memory_limit=4096)),
        (QosClass.BE, OLD, ColocatedAmounts(cpu_limit=30, memory_limit=40)),
        (QosClass.BE, MID, ColocatedAmounts(cpu_request=200, memory_limit=8192)),
        (QosClass.BE, BOTH, ColocatedAmounts(cpu_request=1)),
        (QosClass.LS, MID, ColocatedAmounts(cpu_request=200, memory_limit=8192)),
        (None, MID, ColocatedAmounts(cpu_request=200, memory_limit=8192)),
        (None, BATCH, None),
        (QosClass.LS, BATCH, None),
        (QosClass.LSR, MID, None),
        (QosClass.SYSTEM, BATCH, None),
        (QosClass.BE, ExtendedResources(), None),
    ],
)
def test_which_class_has_which_tier(
    qos: QosClass | None, extended: ExtendedResources, expected: ColocatedAmounts | None
) -> None:
    """Batch is for BE; mid is for LS, BE and pods without a class. Old names count; parts of a unit are rounded up."""
    assert colocated_amounts(qos, extended) == expected


def test_more_than_a_node_can_have_is_an_error() -> None:
    """It would not fit into the number that CRI has for it."""
    with pytest.raises(
        ValueError, match=f"annotation {pod_annotations.EXTENDED_RESOURCES}: kubernetes.io/mid-cpu: 1000000001"
    ):
        colocated_amounts(None, ExtendedResources(limits={"kubernetes.io/mid-cpu": Fraction(10**9 + 1)}))


@pytest.mark.parametrize(
    ("text", "previous", "ratio"),
    [
        ("1.2", None, 1.2),
        (" 1.2 ", None, 1.2),
        ("0.5", None, 0.5),
        ("1.205", 1.2, 1.2),
        ("1.195", 1.2, 1.2),
        ("1.22", 1.2, 1.22),
        ("1.0", 1.2, 1.0),
    ],
)
def test_a_small_change_of_the_ratio_is_none(text: str, previous: float | None, ratio: float) -> None:
    """Less than a hundredth leaves the ratio in force."""
    assert normalization_ratio({pod_annotations.NORMALIZATION_RATIO: text}, previous) == ratio


@pytest.mark.parametrize("text", ["", "x", "0", "-1", "nan", "inf", "1e999", "1" * 100])
def test_a_bad_ratio_is_named(text: str) -> None:
    """Zero and below are no ratios either."""
    with pytest.raises(ValueError, match="expected a number above zero, found") as caught:
        normalization_ratio({pod_annotations.NORMALIZATION_RATIO: text}, 1.2)
    assert pod_annotations.NORMALIZATION_RATIO in str(caught.value)
