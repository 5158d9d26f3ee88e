"""What the hook server is told about the node."""

import json
from pathlib import Path
from typing import Any

import pytest

from interpose.agent.choice import Seen
from interpose.agent.nodestate import Outcome, SloPhase, SloState, decide, document, slo_in
from interpose.config.document import parse_document
from interpose.errors import ConfigError
from interpose.runtimehooks.nodedocument import parse_node_document

NODE: dict[str, Any] = {
    "metadata": {
        "name": "n",
        "resourceVersion": "5",
        "labels": {"a": "b"},
        "annotations": {
            "x": "y",
            "interpose/config-status": "{}",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
        "managedFields": [{}],
    },
    "spec": {},
    "status": {"conditions": []},
}


def slo(cpu: str = "groupIdentity", **more: Any) -> dict[str, Any]:
    """A NodeSLO as an API server has it. `cpu` is checked by the hook server."""
    policies = {"cpuPolicy": cpu}
    return {
        "metadata": {"name": "n", "resourceVersion": "9", "managedFields": []},
        "spec": {"resourceQOSStrategy": {"policies": policies}},
        "status": {},
        **more,
    }


def check(text: str) -> list[str]:
    """The real one."""
    try:
        parse_node_document(parse_document(text, "f", json_only=True), "f")
    except ConfigError as error:
        return error.problems
    return []


def made(seen_slo: Seen, *, node: Any = NODE, good: Any = None, keep: bool = True) -> Outcome:
    """For a Node that is known."""
    return decide(Seen("n", True, node), seen_slo, good=good, keep=keep, check=check)


def known(found: Any) -> Seen:
    """The cluster told."""
    return Seen("n", True, found)


def in_document(outcome: Outcome) -> Any:
    """The NodeSLO in it."""
    assert outcome.text is not None
    return json.loads(outcome.text).get("nodeSLO")


GOOD = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": "n"}, "spec": {}}


def test_document_holds_what_is_read() -> None:
    """And nothing that changes with every heartbeat."""
    outcome = made(known(slo()))
    assert outcome.text is not None
    assert json.loads(outcome.text) == {
        "apiVersion": "interpose/v1",
        "kind": "NodeState",
        "node": {"name": "n", "labels": {"a": "b"}, "annotations": {"x": "y"}},
        "nodeSLO": {
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeSLO",
            "metadata": {"name": "n"},
            "spec": {"resourceQOSStrategy": {"policies": {"cpuPolicy": "groupIdentity"}}},
        },
    }
    assert outcome.slo == SloState(phase=SloPhase.APPLIED, version="9")
    assert outcome.good == in_document(outcome)


def test_text_is_the_same_for_the_same_content() -> None:
    """Whatever the order of keys."""
    other = {"metadata": dict(reversed(NODE["metadata"].items()))}
    assert document(NODE, None) == document(other, None)
    assert document(NODE, None).endswith("}\n")


def test_node_without_anything() -> None:
    """Still makes a document that can be read."""
    assert check(document({}, None)) == []


def test_slo_without_a_spec() -> None:
    """It is one all the same."""
    found = slo()
    del found["spec"]
    assert in_document(made(known(found))).keys() == {"apiVersion", "kind", "metadata"}


@pytest.mark.parametrize("node", [Seen("n", False, None), Seen("n", True, None)])
def test_nothing_is_written_before_the_node_is_known(node: Seen) -> None:
    """What is in the file stays."""
    outcome = decide(node, known(slo()), good=GOOD, keep=True, check=check)
    assert outcome == Outcome(text=None, slo=SloState(), good=GOOD)


@pytest.mark.parametrize("problem", ["", "forbidden"])
def test_slo_that_is_not_known_yet(problem: str) -> None:
    """That of the run before stays."""
    outcome = made(Seen("n", False, None, problem), good=GOOD)
    assert in_document(outcome) == GOOD
    assert outcome.slo == SloState(problems=(problem,) if problem else ())


def test_deleted_slo_is_kept() -> None:
    """As koordlet does it."""
    outcome = made(known(None), good=GOOD)
    assert in_document(outcome) == GOOD
    assert outcome.slo.phase is SloPhase.KEPT


@pytest.mark.parametrize(("good", "keep"), [(GOOD, False), (None, True)])
def test_no_slo(good: Any, keep: bool) -> None:
    """It is dropped if that is wanted, or there never was one."""
    outcome = made(known(None), good=good, keep=keep)
    assert in_document(outcome) is None
    assert outcome.good is None
    assert outcome.slo.phase is SloPhase.NONE


def test_bad_slo_does_not_replace_a_good_one() -> None:
    """All that is wrong with it is told."""
    outcome = made(known(slo("nonsense")), good=GOOD)
    assert in_document(outcome) == GOOD
    assert outcome.good == GOOD
    assert outcome.slo.phase is SloPhase.REJECTED
    assert "nonsense" in outcome.slo.problems[0]


def test_bad_slo_and_no_good_one() -> None:
    """The node's labels are told all the same."""
    outcome = made(known(slo("nonsense")))
    assert in_document(outcome) is None
    assert outcome.text is not None


def test_node_that_cannot_be_used() -> None:
    """Nothing is written."""
    broken = {"metadata": {"name": "n", "labels": {"a": {"b": "c"}}}}
    outcome = made(known(None), node=broken, good=GOOD)
    assert (outcome.text, outcome.good, outcome.slo.phase) == (None, GOOD, SloPhase.REJECTED)


# -- the file of the run before


def test_slo_in_the_file_of_the_run_before() -> None:
    """That is how one outlives its object."""
    assert slo_in(document(NODE, GOOD), "n") == GOOD


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, document(NODE, None), document({"metadata": {"name": "m"}}, GOOD)]
)
def test_file_without_a_slo_for_us(text: str) -> None:
    """Damaged, of another kind, without one, or about another node."""
    assert slo_in(text, "n") is None


def test_sample_is_of_this_form() -> None:
    """The one that people read."""
    sample = Path(__file__).parents[3] / "samples" / "nodeslo" / "node-state.json"
    assert slo_in(sample.read_text(), "node-1") is not None
