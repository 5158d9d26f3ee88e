"""Objects of policies as documents: what they mean, what they say in vain, and what is wrong with them."""

import json
from typing import Any

import pytest

from interpose.config.documents.amounts import CpuAmount
from interpose.config.documents.policy import PolicyDocument
from interpose.config.documents.policy_objects import (
    OBJECT_KEY,
    OBJECT_POLICIES,
    is_policy_object,
    object_form,
    read_policy_file,
    read_sent_config,
    spec_of,
)
from interpose.config.documents.yaml import MAX_DEPTH, parse_document
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.balloons.options import BalloonsOptions, BalloonType
from interpose.core.policy.topology_aware.options import PoolLevel, TopologyAwareOptions
from interpose.errors import ConfigError

HEAD = "apiVersion: config.nri/v1alpha1\nkind: {kind}\nmetadata: {{name: default, namespace: kube-system}}\n"
BALLOONS = HEAD.format(kind="BalloonsPolicy")
TOPOLOGY = HEAD.format(kind="TopologyAwarePolicy")


def read(text: str) -> PolicyDocument:
    """Of a file."""
    return read_policy_file(parse_document(text, "file f"), "file f")


def problems(text: str) -> list[str]:
    """Why it is refused."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    return caught.value.problems


def test_the_kind_says_which_policy_is_active() -> None:
    """The spec has its options and its CPUs, in lower camel case."""
    spec = """\
spec:
  availableResources: {cpu: "cpuset:1-7"}
  reservedResources: {cpu: 750m}
  pinMemory: false
  unlimitedBurstable: numa
"""
    assert read(TOPOLOGY + spec) == PolicyDocument(
        active="topology-aware",
        available=CpuAmount(cpus=CpuSet.parse("1-7")),
        reserved=CpuAmount(milli=750),
        options={"topology-aware": TopologyAwareOptions(pin_memory=False, unlimited_burstable=PoolLevel.NUMA)},
    )
    spec = 'spec: {reservedResources: {cpu: "exclude-cpuset:2-7"}, balloonTypes: [{name: fast, minCPUs: 2}]}\n'
    assert read(BALLOONS + spec) == PolicyDocument(
        active="balloons",
        reserved=CpuAmount(excluded=CpuSet.parse("2-7")),
        options={"balloons": BalloonsOptions(types=(BalloonType(name="fast", min_cpus=2),))},
    )


def test_a_document_of_the_other_form_is_read_as_ever() -> None:
    """It has no kind."""
    assert read("policy: {Active: none}").active == "none"


def test_what_is_about_something_else_is_remarked() -> None:
    """Each part with its line and with what does it here; what is switched off needs no remark."""
    spec = """\
spec:
  reservedResources: {cpu: 1, memory: 1Gi}
  log:
    debug: [policy]
    source: true
  instrumentation: {httpEndpoint: ":8891", prometheusExport: true, metrics: {enabled: [policy]}}
  control:
    rdt: {enable: true, partitions: {any: thing}}
    blockio: {enable: false}
    cpu: {classes: {turbo: {minFreq: 1}}}
  agent:
    nodeResourceTopology: true
    podResourceAPI: false
status: {nodes: {n1: {status: Success}}}
"""
    assert read(BALLOONS + spec).warnings == (
        "file f line 5: spec.reservedResources.memory: has no effect here",
        "file f line 6: spec.log: has no effect here: the log is set up by --log-level and --log-debug",
        (
            "file f line 9: spec.instrumentation: has no effect here: metrics are on the admin socket and at "
            "--metrics-listen"
        ),
        (
            "file f line 11: spec.control.rdt: has no effect here: RDT classes are not assigned; the hook server "
            "limits caches by QoS"
        ),
        "file f line 13: spec.control.cpu: has no effect here: frequencies of CPUs are not set",
        "file f line 15: spec.agent.nodeResourceTopology: has no effect here: no NodeResourceTopology is written",
    )


def test_options_without_effect_are_remarked() -> None:
    """In the words of the file."""
    spec = "spec:\n  pinCPU: true\n  cpuClasses: [{name: fast}]\n  podQosSchedulingClasses: {besteffort: x}\n"
    assert read(TOPOLOGY + spec).warnings == (
        "file f line 6: spec.cpuClasses: has no effect here",
        "file f line 7: spec.podQosSchedulingClasses: has no effect here",
    )


@pytest.mark.parametrize("spec", ["spec: {log: , agent: , reservedResources: {cpu: 1}}", "spec: {}"])
def test_what_is_not_said_needs_no_remark(spec: str) -> None:
    """Null is as good as absent."""
    assert read(BALLOONS + spec).warnings == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            BALLOONS
            + "spec:\n  balonTypes: []\n  control: {rtd: {}}\n  log: {debg: []}\n  agent: {x: 1}\nstatos: {}\n",
            [
                "file f line 5: spec.balonTypes: is not a known key, did you mean balloonTypes?",
                "file f line 6: spec.control.rtd: is not a known key, did you mean rdt?",
                "file f line 7: spec.log.debg: is not a known key, did you mean debug?",
                "file f line 8: spec.agent.x: is not a known key",
                "file f line 9: statos: is not a known key, did you mean status?",
            ],
        ),
        (
            TOPOLOGY + "spec:\n  availableResources: {cpu: 4}\n  reservedResources: {cpu: some}\n  pinCPU: 3\n",
            [
                (
                    "file f line 5: spec.availableResources.cpu: '4' is an amount, say which CPUs: cpuset:0-7 or "
                    "cgroup:DIR"
                ),
                (
                    "file f line 6: spec.reservedResources.cpu: 'some' is not a quantity such as 500m, 1.5 or 1Gi; "
                    "expected an amount (2, 750m), CPUs (0-3, cpuset:2, #2), all but some (exclude-cpuset:0) or a "
                    "cgroup (cgroup:DIR, /DIR)"
                ),
                "file f line 7: spec.pinCPU: expected true or false, found a number ('3')",
            ],
        ),
        (TOPOLOGY, ["file f line 1: spec: is missing"]),
        (
            HEAD.format(kind="TemplatePolicy") + "spec: {}\n",
            ["file f line 2: kind: TemplatePolicy configures no policy, it is a pattern for authors of plugins"],
        ),
        (
            HEAD.format(kind="BaloonsPolicy") + "spec: {}\n",
            ["file f line 2: kind: expected TopologyAwarePolicy or BalloonsPolicy, found 'BaloonsPolicy'"],
        ),
        (
            BALLOONS.replace("v1alpha1", "v1") + "spec: {}\n",
            ["file f line 1: apiVersion: expected config.nri/v1alpha1, found 'config.nri/v1'"],
        ),
    ],
)
def test_everything_that_is_wrong_is_named(text: str, expected: list[str]) -> None:
    """With file, line, key, and what was probably meant."""
    assert problems(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (BALLOONS, True),
        ("kind: TemplatePolicy", True),
        ("apiVersion: config.nri/v2\nkind: Other", True),
        ("apiVersion: v1\nkind: ConfigMap", False),
        ("policy: {Active: none}", False),
    ],
)
def test_which_documents_are_objects(text: str, expected: bool) -> None:
    """What says so, even if it is none that is known: the reader then says what is wrong."""
    assert is_policy_object(parse_document(text, "f")) is expected


def test_an_object_without_a_spec_has_an_empty_one() -> None:
    """For those who look for lines."""
    assert spec_of(parse_document("kind: X", "f")).entries == ()


# -- sent by an agent


def sent(**changes: Any) -> dict[str, str]:
    """An object as an agent sends it."""
    body = {
        "apiVersion": "config.nri/v1alpha1",
        "kind": "BalloonsPolicy",
        "metadata": {"namespace": "ns", "name": "default"},
        "spec": {"reservedResources": {"cpu": 1}},
    }
    return {OBJECT_KEY: json.dumps({**body, **changes})}


def test_an_object_may_be_sent() -> None:
    """Under a key that no ConfigMap can have."""
    assert read_sent_config(sent(), "n1").active == "balloons"


def test_the_data_of_a_config_map_may_be_sent() -> None:
    """What is for this node alone counts, as ever."""
    data = {"policy": "Active: static", "policy.static": "PinMemory: true", "policy.static.n1": "PinMemory: false"}
    assert read_sent_config(data, "n1").options["static"].pin_memory is False


def test_mistakes_of_an_object_that_was_sent_name_the_object() -> None:
    """Without lines: nobody has written the text that was sent."""
    with pytest.raises(ConfigError) as caught:
        read_sent_config(sent(spec={"pinCpus": True}), "n1")
    assert caught.value.problems == [
        "BalloonsPolicy ns/default: spec.pinCpus: is not a known key, did you mean pinCPU?",
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"kind": "X", "metadata": {}}', '"text"', "1"])
def test_an_object_that_cannot_be_read_is_refused(text: str) -> None:
    """An agent of another version, or somebody else."""
    with pytest.raises(ConfigError, match=f"object of {OBJECT_KEY}: cannot be read"):
        read_sent_config({OBJECT_KEY: text}, "n1")


def test_an_object_that_is_nested_too_deeply_is_refused() -> None:
    """Nobody means that."""
    deep: Any = 1
    for _ in range(MAX_DEPTH + 1):
        deep = {"a": deep}
    with pytest.raises(ConfigError, match="nested too deeply"):
        read_sent_config(sent(spec=deep), "n1")


# -- schema


@pytest.mark.parametrize("kind", OBJECT_POLICIES)
def test_the_schema_of_a_kind_knows_all_parts(kind: str) -> None:
    """The keys of an object in one spelling, those of a spec in any."""
    form = object_form(kind)
    assert form["properties"].keys() == {"apiVersion", "kind", "metadata", "spec", "status"}
    assert form["properties"]["kind"] == {"type": "string", "enum": [kind]}
    spec = form["properties"]["spec"]
    assert {"pinCPU", "reservedResources", "control", "agent", "log", "instrumentation"} <= spec["properties"].keys()


# -- the same in the form of cri-resmgr

BALLOONS_DOCUMENT = """\
policy:
  Active: balloons
  ReservedResources: {CPU: 750m}
  balloons:
    PinMemory: false
    ReservedPoolNamespaces: [monitoring]
    BalloonTypes: [{Name: fast, MinCPUs: 2, AllocatorPriority: 2, ShareIdleCPUsInSame: numa}]
"""
BALLOONS_SPEC = """\
spec:
  reservedResources: {cpu: 750m}
  pinMemory: false
  reservedPoolNamespaces: [monitoring]
  balloonTypes: [{name: fast, minCPUs: 2, allocatorPriority: low, shareIdleCPUsInSame: numa}]
"""
TOPOLOGY_DOCUMENT = """\
policy.Active: memtier
policy.ReservedResources.CPU: 1
policy.topology-aware:
  PreferSharedCPUs: true
  ColocatePods: true
  ReservedPoolNamespaces: [monitoring-*]
"""
TOPOLOGY_SPEC = """\
spec:
  reservedResources: {cpu: 1}
  preferSharedCPUs: true
  colocatePods: true
  reservedPoolNamespaces: [monitoring-*]
"""


@pytest.mark.parametrize(
    ("document", "text"),
    [(BALLOONS_DOCUMENT, BALLOONS + BALLOONS_SPEC), (TOPOLOGY_DOCUMENT, TOPOLOGY + TOPOLOGY_SPEC)],
)
def test_both_forms_mean_the_same(document: str, text: str) -> None:
    """Keys in either case, under the policy or in a spec; priorities as numbers or words."""
    assert read(document) == read(text)
