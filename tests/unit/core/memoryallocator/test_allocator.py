"""Which memory nodes requests get, and who makes room for whom. Expected zones are reasoned by hand.

`server` has two packages. Nodes 0-3 have CPUs and about 31 GiB of ordinary memory each, nodes 4 and 5 have 124 GiB of
persistent memory. Node 2 is next to node 0 (distance 11), 3 to 1; across packages it is 21. Node 4 is near to node 0
(17), node 5 to node 2; everything else is 28 away from them.
"""

from dataclasses import replace

import pytest

from interpose.core.memoryallocator.allocator import MemoryAllocator
from interpose.core.memoryallocator.request import MemoryPriority, MemoryRequest, NotEnoughMemoryError
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.request import Key
from interpose.core.topology.topology import MemoryKind, Topology
from tests.support.policy.machines import machine

GIB = 1 << 30
SERVER = "server"
DRAM, PMEM, HBM = MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM
BURSTABLE, GUARANTEED = MemoryPriority.BURSTABLE, MemoryPriority.GUARANTEED


def key(name: str) -> Key:
    """A container by its name."""
    return Key("pod", name)


def request(
    name: str,
    nodes: str,
    gib: float = 0,
    *,
    kinds: tuple[MemoryKind, ...] = (),
    priority: MemoryPriority = BURSTABLE,
    strict: bool = False,
) -> MemoryRequest:
    """A request in GiB."""
    return MemoryRequest(
        key=key(name),
        nodes=CpuSet.parse(nodes),
        kinds=frozenset(kinds),
        amount=int(gib * GIB),
        priority=priority,
        strict=strict,
    )


class Node:
    """An allocator that speaks in texts."""

    def __init__(self, topology: Topology | str = SERVER) -> None:
        self.allocator = MemoryAllocator(machine(topology) if isinstance(topology, str) else topology)

    def allocate(self, wanted: MemoryRequest) -> str:
        """The zone; after it those of others that moved."""
        change = self.allocator.allocate(wanted)
        return " ".join([str(change.zone), *(f"{moved.name}:{zone}" for moved, zone in change.moved.items())])

    def zones(self) -> dict[str, str]:
        """The zones of everybody called by a letter."""
        found = {name: self.allocator.zone(key(name)) for name in "abcdefgh"}
        return {name: str(zone) for name, zone in found.items() if zone is not None}


def movable(*numbers: int) -> Topology:
    """The server with so many nodes that have movable memory only."""
    found = machine(SERVER)
    return replace(found, nodes=tuple(replace(node, movable=node.id in numbers) for node in found.nodes))


@pytest.mark.parametrize(
    ("nodes", "kinds", "expected"),
    [
        ("0", (), "0"),
        ("1,3", (), "1,3"),
        ("4", (), "4"),
        ("0,4", (), "0,4"),
        ("0,4", (DRAM,), "0"),
        ("0", (PMEM,), "4"),
        ("2", (PMEM,), "5"),
        ("2", (DRAM, PMEM), "2,5"),
        ("0,2", (PMEM,), "4-5"),
        ("0-1", (PMEM,), "4"),
        ("1", (PMEM,), "4-5"),
        ("4", (DRAM,), "0"),
        ("0", (HBM,), "0"),  # there is none
        ("0", (HBM, PMEM), "4"),
        ("0,77", (), "0"),
    ],
)
def test_the_zone_of_a_request_that_is_alone(nodes: str, kinds: tuple[MemoryKind, ...], expected: str) -> None:
    """Nodes of missing kinds are the closest ones, others are left out, and kinds that do not exist are ignored."""
    assert Node().allocate(request("a", nodes, 1, kinds=kinds)) == expected


@pytest.mark.parametrize(("nodes", "text"), [("", "none"), ("77", "77")])
def test_a_request_near_no_node_is_refused(nodes: str, text: str) -> None:
    """Or near one that this machine has not."""
    with pytest.raises(NotEnoughMemoryError, match=f"^pod/a/0: there is no memory near nodes {text}$"):
        Node().allocate(request("a", nodes, 1))


def test_a_machine_of_which_no_memory_is_known_refuses_everything() -> None:
    """Its policies then bind nobody."""
    with pytest.raises(NotEnoughMemoryError, match=r"there is no memory near nodes 0"):
        Node("1 core; memory 0").allocate(request("a", "0"))


def test_a_strict_request_gets_its_kinds_or_nothing() -> None:
    """A kind that is there is no problem."""
    node = Node()
    assert node.allocate(request("a", "0", 1, kinds=(PMEM,), strict=True)) == "4"
    with pytest.raises(NotEnoughMemoryError, match=r"^pod/b/0: this machine has no memory of kind hbm$"):
        node.allocate(request("b", "0", 1, kinds=(HBM, PMEM), strict=True))


def test_nodes_without_memory_use_the_nearest_ordinary_memory() -> None:
    """Even if other memory is nearer."""
    found = machine(SERVER)
    bare = replace(found.nodes[0], memory_bytes=0, memory=MemoryKind.NONE)
    near = replace(bare, distances={**bare.distances, 2: 21})
    node = Node(replace(found, nodes=(near, *found.nodes[1:])))
    assert node.allocate(request("a", "0", 1)) == "1-3"  # all at 21, node 4 at 17
    assert node.allocate(request("b", "0", 1, kinds=(PMEM,))) == "4"


@pytest.mark.parametrize(
    ("topology", "wanted", "expected"),
    [
        (movable(4, 5), request("a", "0", 1, kinds=(PMEM,)), "0,4"),
        (movable(4), request("a", "0", 1, kinds=(PMEM,)), "4-5"),  # its own kind first
        (movable(0), request("a", "0", 1), "0,2"),
        (movable(0, 2), request("a", "0", 1), "0-1,3"),
        (movable(0, 1, 2, 3), request("a", "0", 1), "0,4"),  # no ordinary memory is normal
        (movable(4), request("a", "0", 1, kinds=(PMEM,), strict=True), "4-5"),
    ],
)
def test_a_zone_has_normal_memory(topology: Topology, wanted: MemoryRequest, expected: str) -> None:
    """The closest: of the own kinds, else ordinary memory, else any."""
    assert Node(topology).allocate(wanted) == expected


def test_strictly_movable_memory_is_refused() -> None:
    """The kernel's pages cannot be anywhere."""
    with pytest.raises(
        NotEnoughMemoryError, match=r"^pod/a/0: all memory of kind pmem is movable, and a process cannot"
    ):
        Node(movable(4, 5)).allocate(request("a", "0", 1, kinds=(PMEM,), strict=True))


def test_a_request_for_which_there_is_no_room_gets_the_next_nodes_too() -> None:
    """Of its own kinds. The one before it is older and stays."""
    node = Node()
    assert node.allocate(request("a", "0", 20, priority=GUARANTEED)) == "0"
    assert node.allocate(request("b", "0", 20, priority=GUARANTEED)) == "0,2"
    assert node.zones() == {"a": "0", "b": "0,2"}


def test_lower_priorities_make_room() -> None:
    """However large they are and whoever came first."""
    node = Node()
    node.allocate(request("a", "0", 20, priority=MemoryPriority.BEST_EFFORT))
    node.allocate(request("b", "0", 5))
    assert node.allocate(request("c", "0", 10, priority=GUARANTEED)) == "0 a:0,2"


def test_the_smallest_make_room_first() -> None:
    """And no more of them than needed: 35 GiB are wanted of node 0, which has nearly 31."""
    node = Node()
    for name, gib in (("a", 15), ("b", 3), ("c", 2), ("d", 10)):
        node.allocate(request(name, "0", gib))
    assert node.allocate(request("e", "0", 5, priority=GUARANTEED)) == "0 b:0,2 c:0,2"


def test_the_youngest_of_the_same_size_makes_room_first() -> None:
    """To be allocated anew makes nobody younger."""
    node = Node()
    for name in "abc":
        node.allocate(request(name, "0", 10))
    node.allocate(request("a", "0", 10))
    assert node.allocate(request("d", "0", 5, priority=GUARANTEED)) == "0 c:0,2"


def test_a_request_without_an_amount_always_fits_and_never_moves() -> None:
    """Its nodes may be full; nothing is known of what it needs."""
    node = Node()
    node.allocate(request("a", "0"))
    node.allocate(request("b", "0", 30, priority=GUARANTEED))
    assert node.allocate(request("c", "0")) == "0"
    assert node.allocate(request("d", "0", 3, priority=GUARANTEED)) == "0,2"
    assert node.zones()["a"] == "0"


def fill(node: Node, nodes: str, gib: float = 30) -> None:
    """Take the memory of nodes for good."""
    for number in CpuSet.parse(nodes):
        node.allocate(request(f"r{number}", str(number), gib, priority=MemoryPriority.RESERVATION))


def test_without_memory_of_its_kinds_a_request_gets_other_memory() -> None:
    """Persistent memory after all ordinary memory."""
    node = Node()
    fill(node, "0-2")
    assert node.allocate(request("a", "0", 5, kinds=(DRAM,))) == "0-3"
    fill(node, "3", 26)
    assert node.allocate(request("b", "0", 5, kinds=(DRAM,))) == "0-5"
    assert node.zones() == {"a": "0-3", "b": "0-5"}


def test_lower_priorities_go_to_other_memory_before_higher_ones_are_touched() -> None:
    """A Burstable one to persistent memory, so that a Guaranteed one stays where it is."""
    node = Node()
    fill(node, "1-3", 31)
    node.allocate(request("a", "0", 10))
    node.allocate(request("b", "0", 10, priority=GUARANTEED))
    assert node.allocate(request("c", "0", 15, priority=GUARANTEED)) == "0 a:0-5"


def test_what_is_preserved_goes_last_and_a_reservation_never() -> None:
    """Each keeps its place as long as anybody else can go."""
    node = Node("2 numa x 1 core; memory 10Gi")
    fill(node, "0", 2)
    node.allocate(request("a", "0", 4, priority=MemoryPriority.PRESERVED))
    assert node.allocate(request("b", "0", 5, priority=GUARANTEED)) == "0-1"
    assert node.allocate(request("c", "0", 8, strict=True, priority=MemoryPriority.RESERVATION)) == "0 a:0-1"
    with pytest.raises(NotEnoughMemoryError, match=r"nodes 0 are short of 1 GiB$"):
        node.allocate(request("d", "0", 1, priority=MemoryPriority.RESERVATION))


def test_zones_that_overlap_are_short_together() -> None:
    """14 GiB are wanted of three nodes with 12, though neither zone has more than its nodes."""
    node = Node("n4c16")
    assert node.allocate(request("a", "0-1", 7)) == "0-1"
    assert node.allocate(request("b", "1-2", 7)) == "0-3"


def test_who_makes_room_goes_past_full_nodes() -> None:
    """Nodes 0 and 2 are full: what leaves node 0 for node 2 leaves that one, too."""
    node = Node()
    node.allocate(request("a", "2", 31, priority=GUARANTEED))
    node.allocate(request("b", "0", 10))
    assert node.allocate(request("c", "0", 30, priority=GUARANTEED)) == "0 b:0-3"


def test_a_strict_request_makes_room_with_its_own_kinds_only() -> None:
    """There is persistent memory, and it must not have it."""
    node = Node("2 numa x 1 core; memory 10Gi")
    node.allocate(request("a", "0-1", 15, kinds=(DRAM,), strict=True))
    with pytest.raises(NotEnoughMemoryError):
        node.allocate(request("b", "0", 6, kinds=(DRAM,), strict=True))
    server = Node()
    fill(server, "0-3")
    with pytest.raises(NotEnoughMemoryError):
        server.allocate(request("a", "0", 6, kinds=(DRAM,), strict=True))
    assert server.allocate(request("a", "0", 5, kinds=(PMEM,), strict=True)) == "4"


def test_more_than_the_machine_has_is_refused_and_nothing_has_changed() -> None:
    """Neither zones nor amounts, also of the request itself that had a zone before."""
    node = Node("2 numa x 1 core; memory 10Gi")
    node.allocate(request("a", "0", 8))
    node.allocate(request("b", "1", 8))
    with pytest.raises(NotEnoughMemoryError, match=r"no room for 13 GiB of memory: nodes 0-1 are short of 1 GiB$"):
        node.allocate(request("a", "0", 13, priority=GUARANTEED))
    assert node.zones() == {"a": "0", "b": "1"}
    assert node.allocator.used(CpuSet.parse("0")) == 8 * GIB


def test_capacity_use_and_what_is_free() -> None:
    """Used is what has nothing but these nodes."""
    node = Node("n4c16")
    node.allocate(request("a", "0", 1))
    node.allocate(request("b", "0-1", 2))
    found = [
        (node.allocator.capacity(nodes) // GIB, node.allocator.used(nodes) // GIB, node.allocator.free(nodes) // GIB)
        for nodes in map(CpuSet.parse, ("0", "1", "0-1", "0-3", "2,99", ""))
    ]
    assert found == [(4, 1, 3), (4, 0, 4), (8, 3, 5), (16, 3, 13), (4, 0, 4), (0, 0, 0)]


def test_an_offer_is_what_would_be_given_and_changes_nothing() -> None:
    """Also if others would move."""
    node = Node()
    node.allocate(request("a", "0", 25))
    wanted = request("b", "0", 10, kinds=(DRAM, PMEM), priority=GUARANTEED)
    found = node.allocator.offer(wanted)
    assert (str(found.zone), found.kinds) == ("0,4", frozenset((DRAM, PMEM)))
    assert str(node.allocator.offer(request("b", "0", 10, priority=GUARANTEED)).zone) == "0"
    assert node.zones() == {"a": "0"}
    with pytest.raises(NotEnoughMemoryError):
        node.allocator.offer(request("b", "0", 1000))


def test_a_zone_is_restored_as_it_is() -> None:
    """Even if nothing fits, and to nodes that are gone; no zone is all nodes. New ones then go elsewhere."""
    node = Node("2 numa x 1 core; memory 10Gi")
    node.allocator.restore(request("a", "0", 12), CpuSet.parse("0"))
    node.allocator.restore(request("b", "0", 1, kinds=(HBM,), strict=True), CpuSet.parse("0,7"))
    node.allocator.restore(request("c", "0", 1), CpuSet.parse("7"))
    node.allocator.restore(request("d", "0", 1), EMPTY)
    assert node.zones() == {"a": "0", "b": "0,7", "c": "7", "d": "0-1"}
    assert node.allocator.free(CpuSet.parse("0")) == -3 * GIB
    assert node.allocator.used(CpuSet.parse("0-1")) == 14 * GIB


def test_who_comes_to_nodes_that_were_short_before_makes_them_fit() -> None:
    """The restored one moves; one elsewhere does not mind."""
    node = Node("2 numa x 1 core; memory 10Gi")
    node.allocator.restore(request("a", "0", 12), CpuSet.parse("0"))
    assert node.allocate(request("b", "1", 3)) == "1"
    assert node.allocate(request("c", "0", 2, priority=GUARANTEED)) == "0 a:0-1"


def test_widening_adds_nodes_and_kinds() -> None:
    """Nodes that are named, the closest of kinds that are missing; of kinds it has it gets no more."""
    node = Node()
    node.allocate(request("a", "0", 1))
    widen = node.allocator.widen
    assert str(widen(key("a"), frozenset((PMEM, DRAM))).zone) == "0,4"
    assert str(widen(key("a"), nodes=CpuSet.parse("1,99")).zone) == "0-1,4"
    assert str(widen(key("a"), frozenset((HBM,)), CpuSet.parse("0")).zone) == "0-1,4"
    assert node.zones() == {"a": "0-1,4"}


def test_widening_at_large_adds_the_closest_nodes() -> None:
    """Of its own kinds, then of any, until there are no more."""
    node = Node()
    node.allocate(request("a", "0", 1))
    assert [str(node.allocator.widen(key("a")).zone) for _ in range(4)] == ["0,2", "0-3", "0-5", "0-5"]


def test_widening_by_a_kind_that_does_not_exist_is_widening_at_large() -> None:
    """The caller wants more, whatever there is."""
    node = Node()
    node.allocate(request("a", "0", 1))
    assert str(node.allocator.widen(key("a"), frozenset((HBM,))).zone) == "0,2"


def test_a_strict_request_is_widened_by_its_own_kinds_only() -> None:
    """That of persistent memory has both nodes in the end."""
    node = Node()
    node.allocate(request("a", "0", 1, kinds=(PMEM,), strict=True))
    assert [str(node.allocator.widen(key("a")).zone) for _ in range(2)] == ["4-5", "4-5"]


def test_kinds_that_were_added_stay() -> None:
    """When it makes room, persistent memory near node 2 is as good as ordinary memory farther away."""
    node = Node()
    node.allocate(request("a", "0", 20))
    node.allocator.widen(key("a"), frozenset((PMEM,)))
    fill(node, "0,2")
    fill(node, "4", 120)
    assert node.zones() == {"a": "0,2,4-5"}


def test_widening_what_has_no_zone_is_an_error_of_the_caller() -> None:
    """There is nothing to add to."""
    with pytest.raises(KeyError):
        Node().allocator.widen(key("a"))


def test_what_is_released_is_free_again() -> None:
    """Releasing what is not there is nothing."""
    node = Node("n4c16")
    node.allocate(request("a", "0", 4))
    node.allocator.release(key("a"))
    node.allocator.release(key("a"))
    assert node.zones() == {}
    assert node.allocate(request("b", "0", 4)) == "0"


def test_amounts_are_not_negative() -> None:
    """That would be room for others out of nothing."""
    with pytest.raises(ValueError, match=r"not negative, found -1"):
        MemoryRequest(key=key("a"), nodes=CpuSet.of([0]), amount=-1, priority=BURSTABLE)
