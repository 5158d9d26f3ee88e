"""Manifests of ConfigMaps are read as nodes read them, and what is wrong is said with its place."""

import pytest

from interpose.config.documents.configmaps import Manifest, named_nodes, read_data, read_manifest, text_of, title_of
from interpose.config.documents.yaml import parse_document
from interpose.core.policy.static.options import StaticOptions
from interpose.errors import ConfigError

MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: cri-resmgr-config}
data:
  policy.static: |
    RelaxedIsolation: true
  policy.static.node-1: |
    PinMemory: true
"""


def manifest(text: str, node: str | None = None) -> Manifest:
    """What a file holds."""
    return read_manifest(text, "file m.yaml", node)


def refused(text: str, node: str | None = None) -> list[str]:
    """What is wrong with a file."""
    with pytest.raises(ConfigError) as caught:
        manifest(text, node)
    return caught.value.problems


@pytest.mark.parametrize(
    ("node", "options"),
    [
        (None, StaticOptions(relaxed_isolation=True)),
        ("node-1", StaticOptions(pin_memory=True)),
        ("node-2", StaticOptions(relaxed_isolation=True)),
    ],
)
def test_a_map_says_to_a_node_what_is_meant_for_it(node: str | None, options: StaticOptions) -> None:
    """The part of the node alone wins; without a name it is what all others get."""
    (found,) = manifest(MAP, node).maps
    assert found.document.options["static"] == options
    assert (found.title, found.lines) == (
        "ConfigMap cri-resmgr-config",
        {"policy.static": 5, "policy.static.node-1": 7},
    )


def test_a_mistake_in_the_part_of_any_node_is_found() -> None:
    """Once, with the line of the key and the line inside of it."""
    assert refused(MAP + "    Nonsense: 1\n") == [
        "file m.yaml line 7: ConfigMap key policy.static.node-1 line 2: Nonsense: is not a known key"
    ]


def test_only_one_node_can_be_looked_at() -> None:
    """Then the parts of others do not count."""
    assert manifest(MAP + "    Nonsense: 1\n", "node-2").maps


def test_every_document_and_every_item_of_a_list_is_read() -> None:
    """What is about something else is left alone."""
    listed = (
        "kind: List\nitems:\n- {kind: ConfigMap, metadata: {name: a}, data: {policy: 'Active: static'}}\n- {a: 1}\n"
    )
    others = "---\nkind: ConfigMap\nmetadata: {name: other}\ndata: {x: y}\n---\nkind: Service\n---\nkind: List\n"
    found = manifest(listed + others)
    assert [one.title for one in found.maps] == ["ConfigMap a"]
    assert [text_of(one, "kind") for one in found.others] == ["", "ConfigMap", "Service"]


def test_a_map_of_the_usual_name_is_about_policies() -> None:
    """Also if none of its keys is: then that is said."""
    (found,) = manifest("{kind: ConfigMap, metadata: {name: cri-resmgr-config.default}, data: {polcy: x}}").maps
    assert found.warnings == ("file m.yaml line 1: ConfigMap key polcy: has no effect here",)
    (empty,) = manifest("{kind: ConfigMap, metadata: {name: cri-resmgr-config}}").maps
    assert empty.lines == {}


def test_what_an_api_server_would_refuse_is_refused() -> None:
    """Values that are not text, and keys a ConfigMap does not have."""
    text = "{kind: ConfigMap, data: {policy: 'Active: static', other: 1}, datas: {}}"
    assert refused(text) == [
        "file m.yaml line 1: data['other']: expected text in quotes, found a number ('1')",
        "file m.yaml line 1: datas: is not a known key, did you mean data?",
    ]


def test_problems_of_all_documents_are_told_at_once() -> None:
    """Each with its document, if there are several; a key that cannot be told has the place of its document."""
    bad = "kind: ConfigMap\ndata: {policy.statik: 'x'}\n"
    found = refused(f"{bad}---\n{bad}---\na: [\n")
    assert [one.partition(":")[0] for one in found] == [
        "file m.yaml document 1 line 2",
        "file m.yaml document 2 line 5",
        "file m.yaml document 3 line 8",
    ]


def test_data_can_be_read_without_a_manifest() -> None:
    """As files for `kubectl create configmap --from-file` have it; each warning once."""
    document, warnings = read_data({"policy": "Active: static", "logger": "", "policy.stp.n1": "pools: {}"}, None)
    assert document.active == "static"
    assert warnings == ("ConfigMap key logger: has no effect here",)


def test_nodes_are_named_by_keys_of_policies() -> None:
    """Names of nodes have dots; other keys name none."""
    keys = ("policy.static.a.b", "policy.STP.c", "policy.Active.x", "policy.static", "policy", "logger.static.d")
    assert named_nodes(dict.fromkeys(keys, "")) == {"a.b", "c"}


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("{kind: ConfigMap, metadata: {name: a, namespace: b}}", "ConfigMap b/a"),
        ("{kind: NodeSLO, metadata: {name: n}}", "NodeSLO n"),
        ("{kind: ConfigMap}", "ConfigMap"),
    ],
)
def test_an_object_is_known_by_kind_namespace_and_name(text: str, title: str) -> None:
    """As far as it has them."""
    assert title_of(parse_document(text, "m.yaml")) == title
