"""The tables of points and differences."""

from collections import Counter
from itertools import chain

from conformance.checks.differences import CONTAINERD, PLAIN
from conformance.points import Kind
from conformance.table import GROUPS, named_points

CRITEST = (
    *("Runtime info", "Container", "Container Mount Propagation", "Container Mount Readonly", "Container OOM"),
    *("Idempotence", "PodSandbox", "Security Context", "AppArmor", "SELinux", "Networking", "Streaming"),
    *("Multiple Containers", "Image Manager", "Image Consistency", "Image Identifier Consistency", "Image Volume"),
    "NRI",
)


def test_every_point_has_an_id_of_its_own() -> None:
    """Two with the same one would hide each other."""
    assert [name for name, count in Counter(name for name, _ in named_points()).items() if count > 1] == []


def test_a_refusal_says_why() -> None:
    """With its status, for the page."""
    for name, point in named_points():
        if point.ours.kind is Kind.REFUSED:
            assert point.ours.code, name
            assert point.ours.why, name


def test_differences_are_about_points() -> None:
    """A point that was renamed takes its differences along."""
    assert set(chain(CONTAINERD, PLAIN)) - {name for name, _ in named_points()} == set()


def test_differences_say_why() -> None:
    """For the page."""
    assert all(verdict.why for verdict in chain(CONTAINERD.values(), PLAIN.values()))


def test_the_groups_of_critest_are_there() -> None:
    """With points, or with the reason why there are none."""
    groups = {group.name: group for group in GROUPS}
    assert set(CRITEST) <= set(groups)
    assert all(bool(group.points) != bool(group.absent) for group in GROUPS)
