"""The table of kinds."""

from interpose.kube.client.api import NODES
from tests.support.apiserver.resources import BY_PATH, BY_RESOURCE, KINDS, PODS


def test_no_kind_is_there_twice() -> None:
    """Neither by resource nor by path."""
    assert len(BY_RESOURCE) == len(BY_PATH) == len(KINDS)


def test_short_names_are_unique() -> None:
    """kubectl could not tell them apart."""
    short = [word for kind in KINDS for word in kind.short]
    assert len(short) == len(set(short))


def test_a_kind_without_fields_has_spec_and_status() -> None:
    """What most have."""
    assert BY_RESOURCE[NODES].known_fields == {"apiVersion", "kind", "metadata", "spec", "status"}


def test_the_group_is_part_of_the_name_in_messages() -> None:
    """As kubectl shows it; the core group has no name."""
    assert BY_RESOURCE[PODS].qualified == "pods"
    assert {kind.qualified for kind in KINDS if kind.resource.kind == "Deployment"} == {"deployments.apps"}
