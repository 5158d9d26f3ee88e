"""Laws of documents about the node: the forms agree, defaults are Koordinator's, and no document breaks the reader."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from interpose.config.documents.yaml import DocumentNode
from interpose.errors import ConfigError
from interpose.hooks.server.node.node_document import NodeDocument, parse_node_document
from interpose.hooks.server.node.nodeslo import CpuQos, NodeSLO

FILE = "/etc/interpose/node.yaml"
WRAPPING = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO"}
STATE = {"apiVersion": "interpose/v1", "kind": "NodeState"}
# What Koordinator lays a received class over: identity, idle, expeller.
DEFAULTS = {"lsrClass": (2, 0, True), "lsClass": (2, 0, True), "beClass": (-1, 0, False)}

cpu_qos = st.fixed_dictionaries(
    {},
    optional={
        "enable": st.none() | st.booleans(),
        "groupIdentity": st.none() | st.integers(-1, 2),
        "schedIdle": st.none() | st.integers(0, 1),
        "coreExpeller": st.none() | st.booleans(),
    },
)
names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8)
applications = st.lists(
    st.fixed_dictionaries(
        {"name": names},
        optional={
            "qos": st.sampled_from(["LSE", "LSR", "LS", "BE", "SYSTEM", ""]),
            "cgroupPath": st.fixed_dictionaries(
                {"relativePath": names},
                optional={"base": st.sampled_from(["CgroupRoot", "Kubepods", ""]), "parentDir": names},
            ),
        },
    ),
    max_size=3,
    unique_by=lambda one: str(one["name"]),
)
specs = st.fixed_dictionaries(
    {},
    optional={
        "resourceQOSStrategy": st.fixed_dictionaries(
            {}, optional={name: st.fixed_dictionaries({}, optional={"cpuQOS": cpu_qos}) for name in DEFAULTS}
        ),
        "resourceUsedThresholdWithBE": st.fixed_dictionaries(
            {}, optional={"enable": st.booleans(), "cpuSuppressPolicy": st.sampled_from(["cpuset", "cfsQuota", ""])}
        ),
    },
)
KEYS = [
    *("apiVersion", "kind", "spec", "nodeSLO", "node", "labels", "annotations", "name", "nodeResourceTopology"),
    *("resourceQOSStrategy", "policies", "cpuPolicy", "lsClass", "beClass", "systemClass", "cpuQOS", "enable"),
    *("groupIdentity", "schedIdle", "coreExpeller", "resourceUsedThresholdWithBE", "cpuSuppressPolicy"),
    *("hostApplications", "qos", "cgroupPath", "base", "parentDir", "relativePath", "extensions", "Enable", "x", ""),
]
leaves: Any = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters(), max_size=30)
    | st.sampled_from([*WRAPPING.values(), *STATE.values(), "LS", "groupIdentity", "Kubepods", "..", "a" * 300])
)
documents = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(st.characters(), max_size=90), inner, max_size=6)
    ),
    max_leaves=25,
)


def node(value: Any) -> DocumentNode:
    """A value as a reader of documents gives it."""
    if isinstance(value, dict):
        return DocumentNode(tag="map", line=1, entries=tuple((key, node(entry)) for key, entry in value.items()))
    if isinstance(value, list):
        return DocumentNode(tag="list", line=1, items=tuple(map(node, value)))
    if isinstance(value, bool):
        return DocumentNode(tag="bool", text=str(value).lower(), line=1)
    tag = {int: "int", float: "float", str: "str", type(None): "null"}[type(value)]
    return DocumentNode(tag=tag, text="null" if value is None else str(value), line=1)


def parse(value: Any) -> NodeDocument:
    """The document."""
    return parse_node_document(node(value), FILE)


def outcome(value: Any) -> NodeDocument | list[str]:
    """The document, or what is wrong with it."""
    try:
        return parse(value)
    except ConfigError as error:
        return error.problems


@given(specs, applications)
def test_the_three_forms_say_the_same(spec: dict[str, Any], found: list[dict[str, Any]]) -> None:
    """A spec, an object around it, and a state around that: all are used, or all refused for as many reasons."""
    spec = {**spec, "hostApplications": found}
    bare = outcome(spec)
    wrapped = outcome({**WRAPPING, "spec": spec})
    state = outcome({**STATE, "nodeSLO": {**WRAPPING, "spec": spec}})
    if isinstance(bare, NodeDocument):
        assert bare == wrapped == state
    else:
        assert isinstance(wrapped, list)
        assert isinstance(state, list)
        assert len(bare) == len(wrapped) == len(state)


@given(cpu_qos, st.sampled_from(sorted(DEFAULTS)))
def test_a_class_is_its_defaults_with_what_it_says_or_neutral(said: dict[str, Any], name: str) -> None:
    """As Koordinator merges them."""
    slo = parse({"resourceQOSStrategy": {name: {"cpuQOS": said}}}).slo
    assert isinstance(slo, NodeSLO)
    given_values = {key: value for key, value in said.items() if value is not None}
    identity, idle, expeller = DEFAULTS[name]
    merged = {"groupIdentity": identity, "schedIdle": idle, "coreExpeller": expeller, **given_values}
    expected = CpuQos(
        enable=True,
        group_identity=merged["groupIdentity"],
        sched_idle=merged["schedIdle"],
        core_expeller=merged["coreExpeller"],
    )
    found = {"lsrClass": slo.lsr, "lsClass": slo.ls, "beClass": slo.be}
    assert found.pop(name) == (expected if given_values.get("enable") else CpuQos())
    assert set(found.values()) == {CpuQos()}


@given(applications)
def test_host_applications_keep_below_their_base(found: list[dict[str, Any]]) -> None:
    """Never the base itself, never above it, no two in one place."""
    outcome_ = outcome({"hostApplications": found})
    if isinstance(outcome_, NodeDocument):
        assert outcome_.slo is not None
        places = [(one.base, one.directory) for one in outcome_.slo.host_applications]
        assert len(set(places)) == len(places) == len(found)
        assert all(directory.strip("/") == directory != "" for _, directory in places)


@given(documents)
def test_any_document_is_read_or_refused(document: Any) -> None:
    """With messages that name the file, can be shown, and fit a screen."""
    found = outcome(document)
    if isinstance(found, list):
        assert found
        assert all(problem.startswith(f"file {FILE}") for problem in found)
        assert all(problem.isprintable() and len(problem) < 1000 for problem in found)
