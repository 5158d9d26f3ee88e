"""The environment of a container."""

from fractions import Fraction

import pytest

from interpose.node.pods.cri_config.env import DownwardApiContext, environment, expand_all, field_value, source_value
from interpose.node.pods.spec import ContainerSpec, EnvVar, FieldRef, PodSpec, ResourceFieldRef, ResourceRequirements

AROUND = DownwardApiContext(
    node_name="n1",
    host_ips=("10.0.0.1", "fd00::1"),
    ips=("10.1.0.9", "fd01::9"),
    allocatable={"cpu": Fraction(4), "memory": Fraction(1000)},
)
CONTAINER = ContainerSpec(
    name="c",
    image="i",
    resources=ResourceRequirements(
        requests={"cpu": Fraction(1, 4), "memory": Fraction(64)}, limits={"memory": Fraction(100), "x.y/z": Fraction(3)}
    ),
)
OTHER = ContainerSpec(name="init", image="i", resources=ResourceRequirements(limits={"cpu": Fraction(2)}))
POD = PodSpec(
    name="p",
    namespace="ns",
    uid="u-1",
    labels={"b": 'two "2"', "a": "one"},
    annotations={"k['x']": "odd", "n": "line\nline"},
    service_account="sa",
    containers=(CONTAINER,),
    init_containers=(OTHER,),
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.name", "p"),
        ("metadata.namespace", "ns"),
        ("metadata.uid", "u-1"),
        ("metadata.labels['a']", "one"),
        ("metadata.labels['none']", ""),
        ("metadata.annotations['k['x']']", "odd"),
        ("metadata.annotations['n']", "line\nline"),
        ("metadata.labels", 'a="one"\nb="two \\"2\\""'),
        ("metadata.annotations", 'k[\'x\']="odd"\nn="line\\nline"'),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "10.0.0.1"),
        ("status.hostIPs", "10.0.0.1,fd00::1"),
        ("status.podIP", "10.1.0.9"),
        ("status.podIPs", "10.1.0.9,fd01::9"),
    ],
)
def test_fields_of_the_pod(path: str, value: str) -> None:
    """All that Kubernetes knows and a node without a cluster has."""
    assert field_value(POD, path, AROUND) == value


def test_a_node_name_of_the_manifest_wins() -> None:
    """It is what the pod was made for."""
    pod = PodSpec(name="p", uid="u", containers=(CONTAINER,), node_name="other")
    assert field_value(pod, "spec.nodeName", AROUND) == "other"


def test_addresses_that_are_not_known() -> None:
    """Empty, but in the node's network they are the node's."""
    nowhere = DownwardApiContext(host_ips=("10.0.0.1",))
    assert field_value(POD, "status.podIP", nowhere) == ""
    pod = PodSpec(name="p", uid="u", containers=(CONTAINER,), host_network=True)
    assert field_value(pod, "status.podIP", nowhere) == "10.0.0.1"
    assert field_value(pod, "status.hostIP", DownwardApiContext()) == ""


@pytest.mark.parametrize("path", ["status.phase", "metadata.labels[a]", "metadata.finalizers['x']", ""])
def test_other_fields_are_refused(path: str) -> None:
    """With the field's name."""
    with pytest.raises(ValueError, match=r"is not known; known are metadata\.name, "):
        field_value(POD, path, AROUND)


@pytest.mark.parametrize(
    ("resource", "container", "divisor", "value"),
    [
        ("requests.cpu", "", Fraction(1), "1"),
        ("requests.cpu", "", Fraction(1, 1000), "250"),
        ("requests.cpu", "", Fraction(0), "1"),
        ("requests.memory", "", Fraction(1), "64"),
        ("requests.memory", "", Fraction(10), "7"),
        ("limits.memory", "", Fraction(1), "100"),
        ("limits.cpu", "", Fraction(1), "4"),
        ("limits.x.y/z", "", Fraction(1), "3"),
        ("limits.other", "", Fraction(1), "0"),
        ("limits.ephemeral-storage", "", Fraction(1), "0"),
        ("limits.cpu", "init", Fraction(1), "2"),
        ("requests.cpu", "init", Fraction(1), "2"),
        ("limits.memory", "init", Fraction(1), "1000"),
    ],
)
def test_resources_of_a_container(resource: str, container: str, divisor: Fraction, value: str) -> None:
    """Rounded up; a limit that is not given is what the node can give."""
    source = ResourceFieldRef(resource=resource, container=container, divisor=divisor)
    assert source_value(POD, CONTAINER, source, AROUND) == value


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (ResourceFieldRef(resource="limits"), "'limits' is neither limits.NAME nor requests.NAME"),
        (ResourceFieldRef(resource="usage.cpu"), "'usage.cpu' is neither"),
        (ResourceFieldRef(resource="limits.cpu", container="x"), "the pod has no container 'x'"),
    ],
)
def test_resources_that_are_none(source: ResourceFieldRef, words: str) -> None:
    """The error names what was asked for."""
    with pytest.raises(ValueError, match=words):
        source_value(POD, CONTAINER, source, AROUND)


def test_a_volume_must_name_the_container() -> None:
    """It is in none itself."""
    with pytest.raises(ValueError, match="the pod has no container ''"):
        source_value(POD, None, ResourceFieldRef(resource="limits.cpu"), AROUND)


def test_variables_may_use_those_before_them() -> None:
    """Later ones are not known yet; a repeated name has its last value, in its first place."""
    container = ContainerSpec(
        name="c",
        image="i",
        env=(
            EnvVar(name="A", value="1"),
            EnvVar(name="B", value="$(A)$(C)"),
            EnvVar(name="C", source=FieldRef(path="metadata.name")),
            EnvVar(name="D", value="$(C)$$(C)"),
            EnvVar(name="A", value="$(A)2"),
            EnvVar(name="SELF", value="$(SELF)"),
        ),
    )
    found = environment(POD, container, AROUND)
    assert list(found.items()) == [("A", "12"), ("B", "1$(C)"), ("C", "p"), ("D", "p$(C)"), ("SELF", "$(SELF)")]


def test_a_variable_that_cannot_be_had_is_named() -> None:
    """So that it can be found in the manifest."""
    container = ContainerSpec(name="c", image="i", env=(EnvVar(name="X", source=FieldRef(path="spec.other")),))
    with pytest.raises(ValueError, match=r"environment variable 'X': fieldRef 'spec.other' is not known"):
        environment(POD, container, AROUND)


def test_commands_are_expanded_word_by_word() -> None:
    """A value with blanks stays one word."""
    assert expand_all(("echo", "$(A)", "$$(A)"), {"A": "a b"}) == ["echo", "a b", "$(A)"]
