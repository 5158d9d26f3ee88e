"""Names of the objects that may be the configuration of a node, and texts that mean one of them."""

import pytest

from interpose.kube.agent.config_kinds import (
    ConfigKind,
    ConfigSource,
    config_kinds,
    is_name,
    parse_source,
    title_of,
)
from interpose.kube.client.api import BALLOONS_POLICIES, CONFIG_MAPS, TOPOLOGY_AWARE_POLICIES, Object

MAPS = ConfigKind(resource=CONFIG_MAPS, group_labels=("a/group",), base="c")
OBJECTS = ConfigKind(resource=BALLOONS_POLICIES, group_labels=("b/group", "group.b"))


def labelled(**labels: object) -> Object:
    """A Node with these labels."""
    return {"metadata": {"labels": {name.replace("__", "/"): value for name, value in labels.items()}}}


def test_order_of_the_names() -> None:
    """Node, group, default; a ConfigMap of the plain name counts last."""
    assert MAPS.names("n", "g") == ("c.node.n", "c.group.g", "c.default", "c")
    assert OBJECTS.names("n", "g") == ("node.n", "group.g", "default")


@pytest.mark.parametrize("group", ["", "Fast_Ones", "-x", "a..b", "x" * 253])
def test_a_group_without_an_object(group: str) -> None:
    """A label may hold what no name can; then there is no object for it."""
    assert MAPS.names("n", group) == ("c.node.n", "c.default", "c")
    assert bool(MAPS.group_problem(group)) == bool(group)


def test_the_problem_of_a_group_names_value_and_object() -> None:
    """So that it is found. Without a problem there is no text."""
    assert MAPS.group_problem("g") == ""
    assert MAPS.group_problem("Fast_Ones") == (
        "group 'Fast_Ones': no ConfigMap can be named c.group.Fast_Ones, so none is looked for"
    )
    assert "no BalloonsPolicy can be named group.Fast_Ones" in OBJECTS.group_problem("Fast_Ones")


@pytest.mark.parametrize(
    ("node", "group"),
    [
        (labelled(b__group="new"), "new"),
        (labelled(**{"group.b": "old"}), "old"),
        (labelled(**{"group.b": "old", "b__group": "new"}), "new"),
        (labelled(**{"group.b": "old", "b__group": 1}), "old"),
        (labelled(a__group="maps"), ""),
        ({}, ""),
        ({"metadata": {"labels": [1]}}, ""),
    ],
)
def test_the_first_label_that_is_there_names_the_group(node: Object, group: str) -> None:
    """A Node without any of them is in no group, whatever else an API server sends."""
    assert OBJECTS.group_of(node) == group


def test_kinds_of_settings() -> None:
    """ConfigMaps have names and a label of their own; an empty label is none."""
    found = config_kinds(
        ("BalloonsPolicy", "ConfigMap", "TopologyAwarePolicy"), base="c", group_label="a/group", object_labels=("b",)
    )
    assert found == (
        ConfigKind(resource=BALLOONS_POLICIES, group_labels=("b",)),
        ConfigKind(resource=CONFIG_MAPS, group_labels=("a/group",), base="c"),
        ConfigKind(resource=TOPOLOGY_AWARE_POLICIES, group_labels=("b",)),
    )
    [plain] = config_kinds(("ConfigMap",), base="c", group_label="", object_labels=())
    assert plain.group_labels == ()


@pytest.mark.parametrize(
    ("source", "text", "title"),
    [
        (ConfigSource("ConfigMap", "ns", "a"), "ns/a", "ConfigMap ns/a"),
        (ConfigSource("BalloonsPolicy", "ns", "node.n"), "BalloonsPolicy ns/node.n", "BalloonsPolicy ns/node.n"),
    ],
)
def test_a_source_is_read_back(source: ConfigSource, text: str, title: str) -> None:
    """ConfigMaps need no kind: they had none when there was nothing else."""
    assert str(source) == text
    assert parse_source(text) == source
    assert title_of(text) == title


@pytest.mark.parametrize("text", ["", "a", "Pod ns/a", "ConfigMap ns/a", "BalloonsPolicy a"])
def test_a_text_that_is_no_source(text: str) -> None:
    """Annotations can be edited by anybody."""
    assert parse_source(text) is None


def test_names_of_objects() -> None:
    """RFC 1123, up to 253 characters."""
    assert is_name("a.b-c")
    assert not is_name("a" * 254)
    assert not is_name("A")
