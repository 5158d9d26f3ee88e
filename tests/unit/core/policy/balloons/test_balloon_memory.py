"""Memory nodes of containers in balloons: near to their CPUs, as long as there is enough. Nodes have 4 GiB here."""

from dataclasses import replace

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.balloons.options import BalloonsOptions, BalloonType
from interpose.core.policy.decision import Grant
from interpose.core.topology.topology import MemoryKind
from tests.support.policy.balloon_node import BalloonNode, node

GIB = 1 << 30
ONE = BalloonType(name="one", prefer_new=True)
TIERED = "2 sockets x 2 numa x 2 cores x 2 threads; pmem 2 x 64Gi"
KINDS = "memory-type.resource-policy.nri.io"
KEEP = "memory.preserve.resource-policy.nri.io"


def resize(there: BalloonNode, title: str, milli: int, memory: int) -> str:
    """The memory nodes after a resize."""
    there.policy.resize(there.request(title, milli, kind="one", memory=memory))
    return there.mems(title)


def test_memory_is_near_the_cpus() -> None:
    """Node 0 for CPUs 2 and 3."""
    there = node(ONE)
    there.add("a", 2000, kind="one", memory=GIB)
    assert (there.cpus("a"), there.mems("a")) == ("2-3", "0")


def test_memory_that_does_not_fit_is_in_more_nodes() -> None:
    """6 GiB are more than node 0 has, so the nearest one is added."""
    there = node(ONE)
    there.add("a", 2000, kind="one", memory=6 * GIB)
    assert there.mems("a") == "0-1"


def test_others_make_room() -> None:
    """A burstable one of 3 GiB moves to both nodes when a guaranteed one needs 3 GiB in node 0."""
    there = node(ONE)
    there.add("a", 1000, kind="one", memory=3 * GIB, qos=there.request("x", 0).qos.BURSTABLE)
    assert there.mems("a") == "0"
    decision = there.create(there.request("b", 1000, kind="one", memory=3 * GIB))
    assert (there.cpus("b"), there.mems("b"), there.mems("a")) == ("2", "0", "0-1")
    assert there.key("a") in decision.changed


def test_no_memory_at_all() -> None:
    """More than the machine has: it is near its CPUs all the same, and the decision says so."""
    there = node(ONE)
    decision = there.create(there.request("a", 1000, kind="one", memory=99 * GIB))
    assert "; memory of nodes 0 although " in decision.reason
    assert there.mems("a") == "0"


def test_memory_nodes_grow_with_the_balloon_and_stay() -> None:
    """Its memory is in node 1 by then; after a restart too."""
    there = node(BalloonType(name="one"))
    there.add("a/x", 2000, kind="one")
    there.add("a/y", 4000, kind="one")
    assert (there.mems("a/x"), there.mems("a/y")) == ("0-1", "0-1")
    there.remove("a/y")
    assert there.mems("a/x") == "0-1"
    assert there.restarted().mems("a/x") == "0-1"


def test_a_resize_without_other_memory_keeps_the_nodes() -> None:
    """With another limit they are found anew."""
    there = node(ONE)
    there.add("a", 2000, kind="one", memory=6 * GIB)
    assert resize(there, "a", 1000, 6 * GIB) == "0-1"
    assert resize(there, "a", 1000, GIB) == "0"


def test_memory_is_free_again_when_a_container_goes() -> None:
    """3 GiB fit into node 0 after 3 GiB have gone."""
    there = node(ONE)
    there.add("a", 1000, kind="one", memory=3 * GIB)
    there.remove("a")
    there.add("b", 1000, kind="one", memory=3 * GIB)
    assert there.mems("b") == "0"


def test_nodes_that_are_full_are_not_all_there_is() -> None:
    """The next nearest one is added, then the others; after that there are none, and others are not changed."""
    there = node(ONE)
    there.add("a", 1000, kind="one")
    there.add("b", 1000, kind="one")
    seen = []
    for _ in range(4):
        changed = there.policy.widen(there.key("a"))
        seen.append((there.mems("a"), changed))
    mine = (there.key("a"),)
    assert seen[0] == ("0-1", mine)
    assert seen[-1] == ("0-3", ())
    assert there.mems("b") == "0"
    assert there.restarted().mems("a") == "0-3"


def test_nodes_that_are_not_pinned_stay_as_they_are() -> None:
    """Nothing is added for one that has all, and for one that is left alone."""
    there = node(replace(ONE, pin_memory=False))
    there.add("a", 1000, kind="one")
    there.add("b", 1000, notes={"cpu.preserve.resource-policy.nri.io": "true"})
    assert (there.policy.widen(there.key("a")), there.policy.widen(there.key("b"))) == ((), ())


def test_kinds_of_memory() -> None:
    """By the type, or by an annotation for one container; a balloon that grows does not add other kinds."""
    there = node(replace(ONE, memory_types=frozenset({MemoryKind.DRAM})), on="hybrid")
    there.add("a", 1000, kind="one")
    assert there.mems("a") == "0"
    other = node(BalloonType(name="one"))
    other.add("a/x", 1000, kind="one", notes={KINDS: "pmem"})
    other.add("a/y", 4000, kind="one")
    assert other.mems("a/x") == "0"  # there is no such memory here, so its kind does not matter, and nothing is added
    assert other.mems("a/y") == "0-1"


def test_memory_that_is_left_alone() -> None:
    """Nothing is written, whatever it was bound to."""
    there = node(ONE)
    request = there.request("a", 1000, kind="one", notes={KEEP: "true"}, memory=GIB)
    there.create(request, Grant(pools=("x",), mems=CpuSet.parse("3")))
    assert there.mems("a") == "None"


def test_memory_that_was_pinned_is_given_back() -> None:
    """With pinMemory false for the type now: all nodes, as nothing written would leave it bound."""
    there = node(ONE)
    there.add("a", 1000, kind="one")
    again = there.restarted(BalloonsOptions(types=(replace(ONE, pin_memory=False),)))
    assert again.mems("a") == "0-3"
    fresh = node(replace(ONE, pin_memory=False))
    fresh.add("a", 1000, kind="one")
    assert fresh.mems("a") == "None"


def test_a_machine_that_tells_nothing_of_its_memory() -> None:
    """Nothing is written."""
    there = node(ONE, on="1 socket x 4 cores; memory 0")
    there.add("a", 1000, kind="one")
    assert there.mems("a") == "None"
