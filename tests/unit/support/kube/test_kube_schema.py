"""Manifests against Kubernetes' schemas."""

from typing import Any

import pytest

from tests.support.kube.kube_schema import UnknownKindError, manifest_problems


def pod(**changes: Any) -> dict[str, Any]:
    """A small pod with a changed spec."""
    spec = {"containers": [{"name": "a", "image": "b"}], **changes}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}


def test_a_good_object_has_no_problems() -> None:
    """Everything that is optional may be missing."""
    assert manifest_problems(pod(terminationGracePeriodSeconds=5, nodeSelector={"a": "b"})) == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"hostPid": True}, ".spec.hostPid: PodSpec has no such field"),
        ({"hostPID": "yes"}, ".spec.hostPID: 'yes' is not of the type bool"),
        ({"containers": [{"image": "b"}]}, ".spec.containers[0].name: is missing"),
        ({"containers": {"a": "b"}}, ".spec.containers: is not a list"),
        ({"nodeSelector": {"a": 1}}, ".spec.nodeSelector.a: 1 is not text"),
        ({"nodeSelector": ["a"]}, ".spec.nodeSelector: is not a map"),
        ({"priority": True}, ".spec.priority: True is not of the type int"),
        ({"securityContext": "root"}, ".spec.securityContext: is not a map"),
    ],
)
def test_what_a_schema_does_not_allow_is_named(changes: dict[str, Any], problem: str) -> None:
    """Unknown fields, wrong types, missing ones: each with its path."""
    assert problem in manifest_problems(pod(**changes))


def test_a_number_or_a_text_may_stand_where_both_may() -> None:
    """Ports and amounts of pods are such."""
    budget = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "x"}}

    assert (
        manifest_problems({**budget, "spec": {"minAvailable": 1}})
        == manifest_problems({**budget, "spec": {"minAvailable": "50%"}})
        == []
    )
    assert manifest_problems({**budget, "spec": {"minAvailable": True}}) == [
        ".spec.minAvailable: is neither a number nor text"
    ]


def test_fields_with_signs_in_their_names_are_known() -> None:
    """Classes spell them otherwise."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Thing", "plural": "things"}
    spec = {"group": "example.org", "names": names, "scope": "Cluster", "versions": [version]}
    document = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": spec}

    assert manifest_problems(document) == []


def test_kinds_of_others_are_not_judged() -> None:
    """There is no schema for them here."""
    with pytest.raises(UnknownKindError, match=r"example\.org/v1 Thing"):
        manifest_problems({"apiVersion": "example.org/v1", "kind": "Thing"})
