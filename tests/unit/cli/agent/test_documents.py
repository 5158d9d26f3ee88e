"""What the hook server would say about objects of the cluster."""

import json
from pathlib import Path
from typing import Any

from interpose.cli.agent.documents import check_document

SAMPLE = json.loads((Path(__file__).parents[4] / "samples" / "nodeslo" / "node-state.json").read_text())


def test_documents_are_held_to_the_rules_of_the_hook_server() -> None:
    """What it would refuse is not written for it."""
    assert check_document(SAMPLE) == ()
    assert check_document(SAMPLE["nodeSLO"]) == ()
    wrong = {"apiVersion": "interpose/v1", "kind": "NodeState", "node": {"labels": 7}}
    assert any("labels" in problem for problem in check_document(wrong))


def test_problems_name_the_key_and_no_file() -> None:
    """Whoever edits a NodeSLO has neither a file nor a line."""
    slo = SAMPLE["nodeSLO"] | {"spec": {"resourceQOSStrategy": {"lsClass": {"cpuQOS": {"groupIdentity": 9}}}}}
    assert check_document(slo) == (
        "NodeSLO: spec.resourceQOSStrategy.lsClass.cpuQOS.groupIdentity: expected a number from -1 to 2, found '9'",
    )


def test_nested_too_deeply() -> None:
    """It is refused as in a file."""
    deep: Any = 1
    for _ in range(100):
        deep = {"a": deep}
    assert check_document({"kind": "NodeSLO", "spec": deep}) == ("NodeSLO: is nested too deeply",)
