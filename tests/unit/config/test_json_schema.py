"""The generated schemas accept what the programs accept, as far as a schema can tell, and know every key."""

from pathlib import Path
from typing import Any

import pytest

from interpose.config.documents.policy import policy_form
from interpose.config.effective import settings_page
from interpose.config.json_schema import DIALECT, document_schema, form_of_kind, settings_schema
from interpose.config.programs import PROGRAMS
from interpose.config.relay.table import RELAY
from interpose.config.schema import Schema
from interpose.config.values import integer, owner, text, words
from interpose.hooks.server.node.node_document import node_form
from tests.support.kube.json_schema import schema_problems
from tests.support.kube.plain_documents import read_value, value_of

ROOT = Path(__file__).parents[3]
SETTINGS = [
    pytest.param(PROGRAMS[name].schema(), file, id=name)
    for name, file in (
        ("relay", "interpose.yaml"),
        ("hookserver", "hookserver.yaml"),
        ("agent", "agent.yaml"),
        ("webhook", "webhook.yaml"),
    )
    if (ROOT / "deploy" / file).exists()
]
every_program = pytest.mark.parametrize("name", PROGRAMS)


def judged(text: str, schema: dict[str, Any]) -> list[str]:
    """What an editor would mark in a text."""
    return schema_problems(value_of(text, "test"), schema)


@pytest.mark.parametrize(("schema", "file"), SETTINGS)
def test_the_sample_settings_are_accepted(schema: Schema, file: str) -> None:
    """Each key of the sample is known, each value is one."""
    assert schema_problems(read_value(ROOT / "deploy" / file), settings_schema(schema)) == []


@every_program
def test_the_example_of_the_reference_is_accepted(name: str) -> None:
    """It has every key, each at its default."""
    schema = PROGRAMS[name].schema()
    example = settings_page(schema).partition("```yaml\n")[2].partition("```")[0]
    assert judged(example, settings_schema(schema)) == []


@every_program
def test_a_schema_describes_every_key(name: str) -> None:
    """With its default and what it is about; there are no others."""
    schema = PROGRAMS[name].schema()
    found = settings_schema(schema)
    assert (found["$schema"], found["title"]) == (DIALECT, schema.file_kind)
    for setting in schema.table:
        form = found
        for part in setting.key.split("."):
            assert form["additionalProperties"] is False
            form = form["properties"][part]
        assert setting.help in form["description"]
        assert schema_problems(form["default"], form) == [], setting.key


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hooks: {timout: 1}", "$.hooks: Additional properties are not allowed ('timout' was unexpected)"),
        ("hooks: {timeout: 61}", "$.hooks.timeout: 61 is "),
        ("hooks: {timeout: soon}", "$.hooks.timeout: 'soon' is not "),
        ("embedded: maybe", "$.embedded: 'maybe' is not "),
        ("backend: podman", "$.backend: 'podman' is not one of"),
        ("policy: {name: statik}", "$.policy.name: 'statik' is not one of"),
        ("limits: {max_streams: 0}", "$.limits.max_streams: 0 is less than the minimum"),
        ("listen: cri.sock", "$.listen: 'cri.sock' "),
        ("socket: {allow_uids: [root]}", "$.socket.allow_uids"),
        ("hooks: true", "$.hooks: True is not of type 'object', 'null'"),
    ],
)
def test_mistakes_are_found(text: str, problem: str) -> None:
    """What an editor can mark before anybody starts anything."""
    found = judged(f"apiVersion: interpose/v1\nkind: RelayConfig\n{text}", settings_schema(RELAY))
    assert any(message.startswith(problem) for message in found), found


def test_the_header_is_required() -> None:
    """As by the loader."""
    assert judged("listen: /x", settings_schema(RELAY)) == [
        "$: 'apiVersion' is a required property",
        "$: 'kind' is a required property",
    ]
    assert judged("{apiVersion: v1, kind: RelayConfig}", settings_schema(RELAY)) == [
        "$.apiVersion: 'interpose/v1' was expected"
    ]


def test_an_empty_group_is_fine() -> None:
    """All its keys may be commented out."""
    assert judged("apiVersion: interpose/v1\nkind: RelayConfig\nhooks:\n", settings_schema(RELAY)) == []


def test_kinds_that_say_nothing_have_their_types() -> None:
    """What a file may hold is known of each."""
    assert form_of_kind(integer(1, 2)) == {"type": "integer", "minimum": 1, "maximum": 2}
    assert form_of_kind(owner())["type"] == ["integer", "string"]
    assert form_of_kind(text())["type"] == ["boolean", "integer", "string"]
    assert form_of_kind(words()) == {"type": ["array", "string"], "items": {"type": ["string", "integer"]}}


@pytest.mark.parametrize("name", ["balloons.yaml", "dynamic-pools.yaml", "podpools.yaml", "policy.yaml"])
def test_sample_policies_are_accepted(name: str) -> None:
    """In the spelling they have."""
    schema = document_schema("PolicyDocument", policy_form())
    assert schema_problems(read_value(ROOT / "samples" / name), schema) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("policy: {Active: stp}", 0),
        ("policy: {ACTIVE: static, reservedresources: {cpu: 2}}", 0),
        ("policy: {null: null, stp: {PINMEMORY: true}}", 1),
        ("policy: {active: statik}", 1),
        ("policy.static: {RelaxedIsolation: true}", 0),
        ("policy: {static: {RelaxedIsolaton: true}}", 1),
        ("policy: {static: {CPUManagerPolicyOptions: {full-pcpus-only: 'TRUE'}}}", 0),
        ("policy: {static-pools: {pools: {a: {cpuLists: [{Cpuset: 1, Socket: 5000}]}}}}", 1),
        ("policy: {podpools: {pools: [{name: a, cpu: '2', instances: 50 %, MAXPODS: -1}]}}", 0),
        ("policy: {podpools: {Pools: [{Name: a, CPU: 0}, {Name: b, FillOrder: packed}, {Instances: 2.5}]}}", 1),
        ("policy: {dynamic-pools: {DynamicPoolTypes: [{name: a, namespaces: [x], allocatorpriority: 3}]}}", 0),
        ("policy: {dynamic-pools: {ReservedPoolNamespaces: x, DynamicPoolTypes: [{Name: 1}]}}", 1),
        ("policy: {balloons: {BalloonTypes: [{Name: a, MINCPUS: 2, preferCoreType: efficient}], loadClasses: []}}", 0),
        ("policy: {balloons: {balloonTypes: [{name: a, maxCPUs: -2}]}}", 1),
        ("policy: {eda: {anything: goes}}", 0),
        ("polcy: {}", 1),
    ],
)
def test_policy_documents_are_judged(text: str, count: int) -> None:
    """Keys in any case, aliases, parts of other software, and mistakes."""
    assert len(judged(text, policy_form())) == count


@pytest.mark.parametrize("name", ["colocation.yaml", "off.yaml", "node-state.json"])
def test_sample_node_documents_are_accepted(name: str) -> None:
    """A NodeSLO and the state of a node."""
    document = read_value(ROOT / "samples/nodeslo" / name)
    assert schema_problems(document, document_schema("NodeSLO", node_form())) == []


def test_a_wrong_node_document_is_not_accepted() -> None:
    """By none of the three forms."""
    text = "{apiVersion: slo.koordinator.sh/v1alpha1, kind: NodeSLO, spec: {resourceQOSStrategy: {lsClas: {}}}}"
    assert judged(text, node_form())
