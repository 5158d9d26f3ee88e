"""What balloons of a type would rather have: devices, kinds of cores, cores without another load."""

from types import MappingProxyType

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.balloons.options import (
    BalloonsOptions,
    BalloonType,
    CoreType,
    LoadClass,
    LoadLevel,
)
from interpose.core.topology.hints import TopologyHint
from tests.support.policy.balloon_node import BalloonNode, node

CARD = "/sys/class/net/eth0"
NET = BalloonType(name="net", close_to_devices=(CARD,))
PLAIN = BalloonType(name="plain")


def with_card(hint: TopologyHint, *types: BalloonType) -> BalloonNode:
    """A node whose network card is near to something."""
    devices = MappingProxyType({CARD: (hint,)})
    return BalloonNode(BalloonsOptions(types=types or (NET, PLAIN), devices=devices))


@pytest.mark.parametrize(
    "hint",
    [
        TopologyHint(provider="slot", cpus=CpuSet.parse("12-15")),
        TopologyHint(provider="slot", nodes=CpuSet.parse("3")),
    ],
    ids=["CPUs", "node"],
)
def test_close_to_a_device(hint: TopologyHint) -> None:
    """Its balloon is in node 3, where the card is."""
    assert with_card(hint).add("a", 2000, kind="net") == "net[0]: 12-13"


def test_close_to_a_device_of_a_package() -> None:
    """Node 2 is the first of package 1."""
    hint = TopologyHint(provider="slot", packages=CpuSet.parse("1"))
    assert with_card(hint).add("a", 2000, kind="net") == "net[0]: 8-9"


def test_a_device_that_does_not_say_where_it_is() -> None:
    """The balloon is packed as any other: next to the reserved CPU 0 less is free, and 2 and 3 are a core."""
    assert with_card(TopologyHint(provider="slot")).add("a", 2000, kind="net") == "net[0]: 2-3"


def test_others_keep_away_from_the_device() -> None:
    """Package 0 is near to it, so the balloons of other types are in package 1, that of the system first."""
    near = with_card(TopologyHint(provider="slot", cpus=CpuSet.parse("0-7")))
    assert near.pools()["reserved[0]"] == "8"
    assert near.add("a", 3000, kind="plain") == "plain[0]: 9-11"


def test_a_device_is_a_wish_only() -> None:
    """Eight CPUs are not to be had next to it; only package 0 has eight, as CPU 8 is reserved."""
    near = with_card(TopologyHint(provider="slot", cpus=CpuSet.parse("12-15")))
    assert near.add("a", 8000, kind="net") == "net[0]: 0-7"


def test_shrinking_leaves_what_is_far_from_the_device_first() -> None:
    """Of CPUs 8-15 those of node 3 stay, where the card is."""
    near = with_card(TopologyHint(provider="slot", cpus=CpuSet.parse("12-15")))
    near.add("a/one", 4000, kind="net")
    near.add("a/two", 4000, kind="net")
    near.remove("a/two")
    assert near.cpus("a/one") == "12-15"


def test_isolated_cpus_for_those_who_want_them() -> None:
    """Two of them are a core; nobody else comes near while there are others."""
    iso = BalloonType(name="iso", prefer_isolated=True)
    there = node(iso, on="2 sockets x 2 numa x 2 cores x 2 threads; isolated 8-9")
    assert there.add("a", 2000, kind="iso") == "iso[0]: 8-9"
    assert there.policy.notes == ()


def test_isolated_cpus_are_the_last_for_others() -> None:
    """13 CPUs are free besides them and CPU 10, which is reserved; one more container gets one of them."""
    there = node(on="2 sockets x 2 numa x 2 cores x 2 threads; isolated 8-9")
    assert there.add("a", 13000) == "default[0]: 0-7,11-15"
    assert there.add("b", 1000) == "default[0]: 0-8,11-15"
    assert there.policy.notes == ("CPUs 8-9 are isolated, so balloons get them only when no others are left",)


def test_kinds_of_cores() -> None:
    """Performance cores are 0-7, efficient ones 8-15; other types keep away from both, rather from the first."""
    fast = BalloonType(name="fast", core_type=CoreType.PERFORMANCE)
    slow = BalloonType(name="slow", core_type=CoreType.EFFICIENT)
    there = node(fast, slow, on="hybrid")
    assert there.pools()["reserved[0]"] == "8"
    assert there.add("a", 1000, kind="fast") == "fast[0]: 0"
    assert there.add("b", 1000, kind="slow") == "slow[0]: 9"


@pytest.mark.parametrize("everywhere", [True, False], ids=["by the policy", "by the type"])
def test_spread_on_cores(everywhere: bool) -> None:
    """The first threads of the cores that are not reserved, then a second one."""
    kind = BalloonType(name="wide", spread_on_cores=None if everywhere else True)
    there = node(kind, on="smt8", spread_on_cores=everywhere, reserved="0")
    assert there.add("a", 3000, kind="wide") == "wide[0]: 1-3"
    assert there.add("b", 1000, kind="wide") == "wide[0]: 1-4"


HEAVY = LoadClass(name="avx", level=LoadLevel.CORE)


def test_balloons_with_a_load_are_on_cores_of_their_own() -> None:
    """CPU 0 is reserved. The first is packed on CPU 1; the second keeps away from its core, and then from both."""
    kind = BalloonType(name="hot", loads=("avx",), prefer_new=True)
    there = node(kind, load_classes=(HEAVY,))
    assert there.add("a", 1000, kind="hot") == "hot[0]: 1"
    assert there.add("b", 1000, kind="hot") == "hot[1]: 2"
    assert there.add("c", 1000, kind="hot") == "hot[2]: 4"


def test_a_load_without_its_level_in_the_balloon() -> None:
    """Its own CPUs may be on one core."""
    kind = BalloonType(name="hot", loads=("avx",))
    assert node(kind, load_classes=(HEAVY,)).add("a", 2000, kind="hot") == "hot[0]: 2-3"


def test_a_load_that_overloads_its_balloon() -> None:
    """Its CPUs are on cores of their own, too, while there are such: node 0 has the reserved CPU 0 on the first."""
    load = LoadClass(name="avx", level=LoadLevel.CORE, overloads_in_balloon=True)
    kind = BalloonType(name="hot", loads=("avx",))
    assert node(kind, load_classes=(load,)).add("a", 2000, kind="hot") == "hot[0]: 1-2"


def test_a_load_of_level_2_caches() -> None:
    """Without SMT in the words of this machine, a cache is a core: the second balloon is in another one."""
    load = LoadClass(name="stream", level=LoadLevel.L2_CACHE)
    kind = BalloonType(name="hot", loads=("stream",), prefer_new=True)
    there = node(kind, load_classes=(load,))
    assert (there.add("a", 1000, kind="hot"), there.add("b", 1000, kind="hot")) == ("hot[0]: 1", "hot[1]: 2")


def test_loads_of_components_count() -> None:
    """What a part of a composite has is as heavy: balloon `hot` keeps away from its core."""
    hot = BalloonType(name="hot", loads=("avx",))
    both = BalloonType(name="both", components=("hot",))
    there = node(hot, both, load_classes=(HEAVY,))
    assert there.add("a", 1000, kind="both") == "both[0]: 1"
    assert there.add("b", 1000, kind="hot") == "hot[0]: 2"
