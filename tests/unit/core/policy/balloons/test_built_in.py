"""The types that there always are."""

import pytest

from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.policy.balloons.options import BalloonsOptions, BalloonType
from interpose.errors import ConfigError
from tests.support.policy.balloon_node import BalloonNode, node


def test_reserved_is_first_and_default_is_last() -> None:
    """Both have one balloon; an amount of reserved CPUs is what the first has at least."""
    there = node(BalloonType(name="own"), reserved=1500)
    kinds = list(there.policy._balloons.kinds.values())
    assert [kind.name for kind in kinds] == ["reserved", "own", "default"]
    first, _, last = kinds
    assert (first.min_cpus, first.min_balloons, first.max_balloons, first.priority) == (2, 1, 1, CpuPriority.LOW)
    assert first.namespaces == ("kube-system",)
    assert (last.min_cpus, last.min_balloons, last.max_balloons, last.priority) == (0, 1, 1, CpuPriority.LOW)
    assert there.pools() == {"reserved[0]": "0-1", "default[0]": "", "idle": "2-15"}


def test_their_place_and_options_can_be_others() -> None:
    """Namespaces of the options are added to those of the type."""
    types = (
        BalloonType(name="default", max_cpus=4),
        BalloonType(name="reserved", namespaces=("ops",), max_cpus=3, priority=CpuPriority.HIGH),
    )
    there = node(*types, reserved_namespaces=("sys-*",))
    kinds = there.policy._balloons.kinds
    assert list(kinds) == ["default", "reserved"]
    assert kinds["reserved"].namespaces == ("ops", "kube-system", "sys-*")
    assert kinds["reserved"].priority is CpuPriority.HIGH
    assert there.add("a", 100, namespace="sys-log") == "reserved[0]: 0"
    assert there.pools() == {"reserved[0]": "0", "idle": "1-15"}  # a default of one's own has the balloons that it says


def test_reserved_cpus_by_number_are_in_its_balloon_only() -> None:
    """It has all of them from the start and grows beyond them; nobody else gets them, whatever is missing."""
    there = node(reserved="6-7")
    assert there.pools() == {"reserved[0]": "6-7", "default[0]": "", "idle": "0-5,8-15"}
    assert there.add("a", 15000).startswith("no suitable balloon of type default")
    assert there.add("b", 14000) == "default[0]: 0-5,8-15"
    assert there.add("c", 2000, namespace="kube-system") == "reserved[0]: 6-7"
    assert there.add("d", 100, namespace="kube-system").startswith("no suitable balloon of type reserved")
    there.remove("b")
    assert there.add("d", 100, namespace="kube-system") == "reserved[0]: 4,6-7"


def test_a_smaller_balloon_than_reserved_cpus() -> None:
    """With maxCPUs 1 of two reserved ones the other is idle, and still nobody else's."""
    there = node(BalloonType(name="reserved", max_cpus=1), reserved="6-7")
    assert there.pools()["reserved[0]"] == "6"
    assert there.add("a", 14000) == "default[0]: 0-5,8-15"
    assert there.pools()["idle"] == "7"


def test_a_smaller_least_size_that_somebody_said() -> None:
    """minCPUs counts as it is said."""
    assert node(BalloonType(name="reserved", min_cpus=1), reserved="6-7").pools()["reserved[0]"] == "6"


def test_the_system_has_no_room_if_somebody_says_so() -> None:
    """maxCPUs -1: nothing fits."""
    there = node(BalloonType(name="reserved", max_cpus=-1), reserved="6-7")
    decision = there.create(there.request("a", 100, namespace="kube-system"))
    assert decision.refusal is not None
    assert decision.refusal.kind == "invalid"


@pytest.mark.parametrize(
    ("kind", "problem"),
    [
        (BalloonType(name="reserved", min_cpus=1), "type 'reserved': minCPUs: 1 cannot be, 2 CPUs are reserved"),
        (BalloonType(name="reserved", max_cpus=1), "type 'reserved': maxCPUs: 1 cannot be, 2 CPUs are reserved"),
        (
            BalloonType(name="own", min_balloons=3, min_cpus=7),
            "type own: minBalloons: 3 of 7 CPUs cannot be, 2 CPUs are left for number 2",
        ),
        (BalloonType(name="own", min_cpus=2, max_cpus=1), "type 'own': minCPUs: 2 is more than maxCPUs: 1"),
    ],
)
def test_what_cannot_be_on_this_machine(kind: BalloonType, problem: str) -> None:
    """The problem names type, key and value."""
    with pytest.raises(ConfigError) as caught:
        node(kind, reserved=2000)
    assert any(problem in found for found in caught.value.problems)


def test_components_that_do_not_fit_their_composite() -> None:
    """Five CPUs make two for each of two, and each must have three."""
    types = (
        BalloonType(name="three", min_cpus=3),
        BalloonType(name="two", components=("three", "three"), max_cpus=5),
    )
    with pytest.raises(ConfigError) as caught:
        BalloonNode(BalloonsOptions(types=types))
    (problem,) = caught.value.problems
    assert problem == (
        "policy.balloons.balloonTypes: type 'two': components: balloonType: three would have at least 3 CPUs and at "
        "most 2"
    )


def test_reserved_cpus_are_necessary() -> None:
    """Without any, there is no balloon for the system."""
    with pytest.raises(ConfigError, match="reserved resources"):
        node(reserved=0)
