"""What is about policies means the same wherever it stands, and each value is known by its line."""

import pytest

from interpose.cli.config.policy_kinds import default_rows, find_key, read_config_maps, read_policy, read_pool_file
from interpose.cli.config.reading import NODES, POLICIES, DocumentPart, ReadContext, Reading
from interpose.cli.config.sources import DocumentSource
from interpose.errors import ConfigError

NOWHERE = ReadContext(env={})
MAP = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: m}
data:
  policy: |
    Active: static
  policy.static: "PinMemory: true"
  policy.static.n1: "RelaxedIsolation: true"
"""
SLO = "apiVersion: slo.koordinator.sh/v1alpha1\nkind: NodeSLO\n"


def source(text: str) -> DocumentSource:
    """A file that is nowhere."""
    return DocumentSource(name="f.yaml", data=text.encode(), is_file=False)


def said(reading: Reading) -> dict[str, tuple[str, str]]:
    """Values and origins of what is not at its default."""
    (part,) = reading.parts
    return {row.key: (row.value, row.origin) for row in part.rows if row.origin != "default"}


def test_values_of_a_document_have_lines() -> None:
    """However the keys are spelled."""
    reading = read_policy(
        source("policy:\n  active: stp\npolicy.STP:\n  labelnode: true\n  Confdirpath: /x\n"), NOWHERE
    )
    assert said(reading) == {
        "policy.Active": ("static-pools", "file f.yaml:2"),
        "policy.static-pools.LabelNode": ("true", "file f.yaml:4"),
        "policy.static-pools.ConfDirPath": ("/x", "file f.yaml:5"),
    }


def test_a_document_that_says_nothing_has_defaults() -> None:
    """So that another one can be compared with it; other families have none."""
    reading = read_policy(source("policy: {}"), NOWHERE)
    assert reading.parts == (DocumentPart(POLICIES, default_rows(POLICIES)),)
    assert default_rows(NODES) == ()


@pytest.mark.parametrize(
    ("node", "key", "line"), [(None, "PinMemory", 7), ("n2", "PinMemory", 7), ("n1", "RelaxedIsolation", 8)]
)
def test_values_of_a_map_have_the_line_of_their_key(node: str | None, key: str, line: int) -> None:
    """That of the node, if it has one."""
    found = said(read_config_maps(source(MAP), ReadContext(env={}, node=node)))
    assert found[f"policy.static.{key}"] == ("true", f"file f.yaml:{line}")
    assert found["policy.Active"] == ("static", "file f.yaml:5")


def test_several_maps_are_told_apart() -> None:
    """By namespace and name, as a cluster does."""
    others = [MAP.replace("name: m", name) for name in ("name: m.default", "name: m, namespace: kube-system")]
    reading = read_config_maps(source("---\n".join([MAP, *others])), NOWHERE)
    assert [one.title for one in reading.parts] == ["ConfigMap m", "ConfigMap m.default", "ConfigMap kube-system/m"]
    assert len({one.rows[0].key for one in reading.parts}) == 1


def test_a_nodeslo_among_manifests_is_read_too() -> None:
    """And what else is there is named."""
    reading = read_config_maps(source(f"{SLO}spec: {{}}\n---\nkind: Job\n---\nkind: Job\n---\na: 1"), NOWHERE)
    assert (reading.kind, [one.family for one in reading.parts]) == ("NodeSLO", [NODES])
    assert reading.note == "not looked at: Job, something without a kind"
    assert read_config_maps(source(f"{MAP}---\n{SLO}"), NOWHERE).kind == "ConfigMap and NodeSLO"
    with pytest.raises(ConfigError, match="spce: is not a known key"):
        read_config_maps(source(f"{SLO}spce: {{}}\n---\nkind: Job"), NOWHERE)


def test_files_named_as_keys_are_a_map() -> None:
    """Values come from the file with that name, problems with the directory."""
    keys = {"policy": "Active: static", "policy.static": "PinMemory: true"}
    reading = read_config_maps(DocumentSource(name="d", keys=keys), NOWHERE)
    assert said(reading)["policy.static.PinMemory"] == ("true", "file d/policy.static")
    assert reading.note == "keys policy, policy.static"
    with pytest.raises(ConfigError, match=r"file d: ConfigMap key policy\.static line 1: X: is not a known key"):
        read_config_maps(DocumentSource(name="d", keys={"policy.static": "X: 1"}), NOWHERE)
    alone = read_config_maps(DocumentSource(name="d/policy.static", keys={"policy.static": "PinMemory: true"}), NOWHERE)
    assert said(alone)["policy.static.PinMemory"] == ("true", "file d/policy.static")


def test_keys_are_found_by_what_they_are_about() -> None:
    """The node's own first, then that of the policy, then the one for everything."""
    keys = ("policy", "policy.STP", "policy.stp.n1")
    path = "policy.static-pools.LabelNode"
    assert [find_key(path, keys, node) for node in ("n1", "n2", None)] == ["policy.stp.n1", "policy.STP", "policy.STP"]
    assert find_key("policy.static.PinMemory", keys, "n1") == "policy"
    assert find_key("policy.static.PinMemory", ("logger",), None) == ""


def test_pools_are_known_list_by_list() -> None:
    """Each with its own line."""
    text = "pools:\n  a:\n    exclusive: true\n    cpuLists:\n    - {Cpuset: 0-1, Socket: 0}\n"
    text += "    - {Cpuset: 2-3, Socket: 0}\n"
    assert said(read_pool_file(source(text), NOWHERE)) == {
        "pools.a.exclusive": ("true", "file f.yaml:3"),
        "pools.a.cpuLists[0]": ("0-1 of socket 0", "file f.yaml:5"),
        "pools.a.cpuLists[1]": ("2-3 of socket 0", "file f.yaml:6"),
    }


OBJECT = """\
apiVersion: config.nri/v1alpha1
kind: BalloonsPolicy
metadata: {name: default, namespace: ns}
spec:
  reservedResources: {cpu: 750m}
  pinmemory: false
  log: {source: true}
"""


def test_the_object_of_a_policy_is_a_document() -> None:
    """Its values have the keys that they have in a document, with the lines of the spec."""
    reading = read_policy(source(OBJECT), NOWHERE)
    assert reading.kind == "BalloonsPolicy"
    assert said(reading) == {
        "policy.Active": ("balloons", "file f.yaml:2"),
        "policy.ReservedResources.CPU": ("750m", "file f.yaml:5"),
        "policy.balloons.pinMemory": ("false", "file f.yaml:6"),
    }
    assert [warning.partition(": has no effect")[0] for warning in reading.warnings] == ["file f.yaml line 7: spec.log"]


def test_objects_of_policies_may_stand_in_a_manifest() -> None:
    """Each is a part with its own title, and every mistake is told."""
    lists = "kind: List\napiVersion: v1\nitems:\n- {apiVersion: config.nri/v1alpha1, kind: BalloonsPolicy, spec: {}}\n"
    reading = read_config_maps(source(f"{MAP}---\n{OBJECT}---\n{lists}---\nkind: Pod\napiVersion: v1\n"), NOWHERE)
    assert reading.kind == "ConfigMap and BalloonsPolicy"
    assert [part.title for part in reading.parts] == ["ConfigMap m", "BalloonsPolicy ns/default", "BalloonsPolicy"]
    assert reading.note == "not looked at: Pod"
    assert len(reading.warnings) == 1
    wrong = OBJECT.replace("pinmemory", "pinmemry")
    with pytest.raises(ConfigError) as caught:
        read_config_maps(source(f"{wrong}---\n{wrong}"), NOWHERE)
    assert [problem.partition(": spec")[0] for problem in caught.value.problems] == [
        "file f.yaml line 6",
        "file f.yaml line 14",
    ]
