"""What of the node bears on what."""

from fractions import Fraction

from interpose.node.pods.cri_config.env import DownwardApiContext
from interpose.node.pods.cri_config.resources import ResourceRules
from interpose.node.pods.node_info import NodeFacts


def test_parts_of_the_node_for_those_who_need_no_more() -> None:
    """Rules for numbers, surroundings for fields."""
    node = NodeFacts(
        name="n",
        memory=5,
        allocatable={"cpu": Fraction(2)},
        cgroup_version=2,
        swap_limits=True,
        hugepage_sizes=("2MB",),
        addresses=("10.0.0.1",),
        cpu_quota=False,
        cpu_quota_period=50_000,
    )
    assert node.rules == ResourceRules(
        memory=5, cgroup_version=2, cpu_quota=False, period=50_000, hugepage_sizes=("2MB",), swap=True
    )
    assert node.around(("10.1.0.1",)) == DownwardApiContext(
        node_name="n", host_ips=("10.0.0.1",), ips=("10.1.0.1",), allocatable={"cpu": Fraction(2)}
    )


def test_where_a_pod_is_reached() -> None:
    """At the node's address only if it is in the node's network; a pod without an address is not reached at all."""
    node = NodeFacts(name="n", memory=5, addresses=("10.0.0.1", "fd00::1"))
    assert node.reach(("10.1.0.1",), host_network=False) == ("10.1.0.1",)
    assert node.reach((), host_network=False) == ()
    assert node.reach((), host_network=True) == ("10.0.0.1", "fd00::1")
    assert NodeFacts(name="n", memory=5).reach((), host_network=True) == ("127.0.0.1",)
