"""What the hook server is told about the node."""

from pathlib import Path
from typing import Any

import pytest

from interpose.cli.agent.documents import check_document
from interpose.kube.agent.config_choice import ObservedObject
from interpose.kube.agent.node_document import (
    SloPhase,
    SloState,
    judge,
    node_part,
    node_state,
    read_stored_slo,
    slo_in_force,
    text_of,
)

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


def made(seen_slo: ObservedObject, *, good: Any = None, keep: bool = True) -> tuple[Any, SloState]:
    """What is in force, by the rules of the hook server."""
    judged = judge(seen_slo.object, check_document) if seen_slo.object is not None else None
    return slo_in_force(seen_slo, judged, good=good, keep=keep)


def known(found: Any) -> ObservedObject:
    """The cluster told."""
    return ObservedObject("n", True, found)


GOOD = {"apiVersion": "slo.koordinator.sh/v1alpha1", "kind": "NodeSLO", "metadata": {"name": "n"}, "spec": {}}


def test_document_holds_what_is_read() -> None:
    """And nothing that changes with every heartbeat."""
    used, state = made(known(slo()))
    assert node_state(node_part(NODE), used) == {
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
    assert state == SloState(phase=SloPhase.APPLIED, version="9")


def test_text_is_the_same_for_the_same_content() -> None:
    """Whatever the order of keys."""
    text = text_of({"a": 1, "b": [2]})
    assert text == text_of({"b": [2], "a": 1})
    assert text.endswith("}\n")


def test_node_without_anything() -> None:
    """Still makes a document that can be read."""
    assert check_document(node_state(node_part({}), None)) == ()


def test_slo_without_a_spec() -> None:
    """It is one all the same."""
    found = slo()
    del found["spec"]
    assert made(known(found))[0].keys() == {"apiVersion", "kind", "metadata"}


@pytest.mark.parametrize("problem", ["", "forbidden"])
def test_slo_that_is_not_known_yet(problem: str) -> None:
    """That of the run before stays."""
    assert made(ObservedObject("n", False, None, problem), good=GOOD) == (
        GOOD,
        SloState(problems=(problem,) if problem else ()),
    )


def test_deleted_slo_is_kept() -> None:
    """As koordlet does it."""
    assert made(known(None), good=GOOD) == (GOOD, SloState(phase=SloPhase.KEPT))


@pytest.mark.parametrize(("good", "keep"), [(GOOD, False), (None, True)])
def test_no_slo(good: Any, keep: bool) -> None:
    """It is dropped if that is wanted, or there never was one."""
    assert made(known(None), good=good, keep=keep) == (None, SloState(phase=SloPhase.NONE))


@pytest.mark.parametrize("good", [GOOD, None])
def test_bad_slo_does_not_replace_a_good_one(good: Any) -> None:
    """All that is wrong with it is told."""
    used, state = made(known(slo("nonsense")), good=good)
    assert used == good
    assert state.phase is SloPhase.REJECTED
    assert "nonsense" in state.problems[0]


def test_judgement_is_about_one_version() -> None:
    """A large NodeSLO is not looked at for each heartbeat of the Node."""
    judged = judge(slo(), check_document)
    assert judged.is_of(slo())
    assert not judged.is_of(slo() | {"metadata": {"name": "n", "resourceVersion": "10"}})
    assert not judged.is_of(slo() | {"metadata": {"name": "n", "resourceVersion": "9", "uid": "another"}})


def test_judgement_without_versions() -> None:
    """The content tells."""
    one: dict[str, Any] = {"metadata": {"name": "n"}, "spec": {}}
    judged = judge(one, check_document)
    assert judged.is_of(dict(one))
    assert not judged.is_of(one | {"spec": {"extensions": {}}})


# -- the file of the run before


def test_slo_in_the_file_of_the_run_before() -> None:
    """That is how one outlives its object."""
    assert read_stored_slo(text_of(node_state({"name": "n"}, GOOD)), "n", check_document) == GOOD


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "[" * 100_000,
        text_of(node_state({"name": "n"}, None)),
        text_of(node_state({"name": "m"}, GOOD)),
        text_of(node_state({"name": "n"}, GOOD | {"spec": {"nonsense": 1}})),
    ],
)
def test_file_without_a_slo_for_us(text: str) -> None:
    """Damaged, of another kind, without one, about another node, or of a version that knew more."""
    assert read_stored_slo(text, "n", check_document) is None


def test_sample_is_of_this_form() -> None:
    """The one that people read."""
    sample = Path(__file__).parents[4] / "samples" / "nodeslo" / "node-state.json"
    assert read_stored_slo(sample.read_text(), "node-1", check_document) is not None
