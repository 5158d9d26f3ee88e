"""Names that others may put on our node."""

import pytest

from interpose.kube.agent.node_keys import (
    EVERYTHING,
    PUBLISHED,
    STATUS,
    Writable,
    check_label_value,
    check_name,
    is_kubernetes_name,
)
from interpose.resmgr.publish.node_state import ANNOTATION

LONG = "x" * 63


@pytest.mark.parametrize(
    "name", ["a", "cmk", "A_b.c-d", "cmk.intel.com/cmk-node", "interpose/published", LONG, f"a/{LONG}"]
)
def test_names(name: str) -> None:
    """With a domain or without; none of them can end in a dash."""
    check_name(name)
    with pytest.raises(ValueError, match="is not a name"):
        check_name(f"{name}-")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "is not a name"),
        ("a b", "is not a name"),
        ("-a", "is not a name"),
        ("a-", "is not a name"),
        (f"{LONG}x", "is not a name"),
        ("example.com/", "is not a name"),
        ("a\n", "is not a name"),
        ("/a", "does not begin with a domain"),
        ("Example.com/a", "does not begin with a domain"),
        ("a/b/c", "does not begin with a domain"),
        ("a..b/c", "does not begin with a domain"),
        (f"{'a.' * 130}a/c", "does not begin with a domain"),
    ],
)
def test_what_is_no_name(name: str, why: str) -> None:
    """The API server would refuse it too, with fewer words."""
    with pytest.raises(ValueError, match=why):
        check_name(name)


def test_values_of_labels() -> None:
    """Empty is one."""
    for text in ("", "true", "a.b_c-1", LONG):
        check_label_value(text)
    for text in ("a b", '"true"', "-", f"{LONG}x", "a\n"):
        with pytest.raises(ValueError, match="is not a value"):
            check_label_value(text)


@pytest.mark.parametrize(
    ("name", "theirs"),
    [
        ("kubernetes.io/hostname", True),
        ("node.kubernetes.io/x", True),
        ("k8s.io/x", True),
        ("scheduling.k8s.io/x", True),
        ("notkubernetes.io/x", False),
        ("kubernetes.io.example.com/x", False),
        ("kubernetes.io", False),
        ("cmk", False),
    ],
)
def test_names_of_kubernetes(name: str, theirs: bool) -> None:
    """By the domain alone."""
    assert is_kubernetes_name(name) is theirs


def test_patterns_narrow_down_what_may_be_written() -> None:
    """The relay's own note is always possible, the agent's own status never."""
    both, nothing = Writable(patterns=["cmk.intel.com/*", "cmk"]), Writable(patterns=[])
    EVERYTHING.check("cmk.intel.com/x")
    both.check("cmk.intel.com/x")
    both.check("cmk")
    nothing.check(PUBLISHED)
    with pytest.raises(ValueError, match=r"example\.com/x is not among what may be changed: cmk\*"):
        Writable(patterns=["cmk*"]).check("example.com/x")
    with pytest.raises(ValueError, match="is not among what may be changed: nothing"):
        nothing.check("cmk")
    with pytest.raises(ValueError, match="is in a domain of Kubernetes"):
        EVERYTHING.check("kubernetes.io/x")
    with pytest.raises(ValueError, match="is the agent's own"):
        EVERYTHING.check(STATUS)
    with pytest.raises(ValueError, match="is not a name"):
        EVERYTHING.check("")


def test_what_is_for_people_to_set() -> None:
    """No pattern lets it through: it would be the relay that says which configuration the relay gets."""
    group = "cri-resource-manager.intel.com/group"
    for patterns in (["*"], [group]):
        with pytest.raises(ValueError, match=f"^{group} says which configuration this node gets"):
            Writable(patterns=patterns, reserved=[group]).check(group)
    Writable(reserved=[group]).check("cri-resource-manager.intel.com/other")
    Writable(reserved=[""]).check("cmk")  # no label names a group


def test_both_sides_mean_the_same_note() -> None:
    """The relay writes it, the agent lets it pass."""
    assert PUBLISHED == ANNOTATION
