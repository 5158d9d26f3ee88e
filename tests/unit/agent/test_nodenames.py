"""Names that others may put on our node."""

import pytest

from interpose.agent.nodenames import (
    PUBLISHED,
    STATUS,
    check_label_value,
    check_name,
    check_writable,
    of_kubernetes,
)
from interpose.resmgr.nodemarks import ANNOTATION

LONG = "x" * 63


@pytest.mark.parametrize(
    "name", ["a", "cmk", "A_b.c-d", "cmk.intel.com/cmk-node", "interpose/published", LONG, f"a/{LONG}"]
)
def test_names(name: str) -> None:
    """With a domain or without."""
    check_name(name)


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "is no name"),
        ("a b", "is no name"),
        ("-a", "is no name"),
        ("a-", "is no name"),
        (f"{LONG}x", "is no name"),
        ("example.com/", "is no name"),
        ("a\n", "is no name"),
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
        with pytest.raises(ValueError, match="is no value"):
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
    assert of_kubernetes(name) is theirs


def test_patterns_narrow_down_what_may_be_written() -> None:
    """The relay's own note is always possible, the agent's own status never."""
    check_writable("cmk.intel.com/x")
    check_writable("cmk.intel.com/x", ["cmk.intel.com/*", "cmk"])
    check_writable("cmk", ["cmk.intel.com/*", "cmk"])
    check_writable(PUBLISHED, [])
    with pytest.raises(ValueError, match=r"example\.com/x is not among what may be changed: cmk\*"):
        check_writable("example.com/x", ["cmk*"])
    with pytest.raises(ValueError, match="is not among what may be changed: nothing"):
        check_writable("cmk", [])
    with pytest.raises(ValueError, match="is in a domain of Kubernetes"):
        check_writable("kubernetes.io/x")
    with pytest.raises(ValueError, match="is the agent's own"):
        check_writable(STATUS)
    with pytest.raises(ValueError, match="is no name"):
        check_writable("")


def test_both_sides_mean_the_same_note() -> None:
    """The relay writes it, the agent lets it pass."""
    assert PUBLISHED == ANNOTATION
