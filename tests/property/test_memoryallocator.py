"""Laws of memory zones: nobody is promised what others have, nothing is lost, and a refusal changes nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from interpose.core.memoryallocator.allocator import MemoryAllocator
from interpose.core.memoryallocator.request import MemoryPriority, MemoryRequest, NotEnoughMemoryError
from interpose.core.memoryallocator.shortage import find_shortage
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.request import Key
from interpose.core.topology.topology import MemoryKind, Topology
from tests.support.policy.machines import machine

GIB = 1 << 30


def _movable(topology: Topology, node: int) -> Topology:
    nodes = tuple(replace(found, movable=found.id == node) for found in topology.nodes)
    return replace(topology, nodes=nodes)


MACHINES = {
    "server": machine("server"),
    "server with movable memory": _movable(machine("server"), 4),
    "n4c16": machine("n4c16"),
    "laptop": machine("laptop"),
    "2 sockets x 2 numa x 1 core; memory 1Gi": machine("2 sockets x 2 numa x 1 core; memory 1Gi"),
}
KEYS = [Key("pod", name) for name in "abcdefghij"]
masks = st.integers(1, 31)


def deficit(capacities: Mapping[int, int], demand: Mapping[int, int]) -> int:
    """What is missing at least, by looking at every set of nodes."""
    sets = range(1 << len(capacities))
    return max(
        sum(amount for zone, amount in demand.items() if not zone & ~nodes)
        - sum(size for bit, size in capacities.items() if bit & nodes)
        for nodes in sets
    )


@given(st.lists(st.integers(0, 9), min_size=5, max_size=5), st.dictionaries(masks, st.integers(1, 9)), masks)
def test_what_is_missing_is_what_counting_every_set_of_nodes_says(
    sizes: list[int], demand: dict[int, int], zone: int
) -> None:
    """A new amount is short of what it adds to what was missing before; its bottleneck is really one."""
    capacities = {1 << number: size for number, size in enumerate(sizes)}
    amount = 7
    together = {**demand, zone: demand.get(zone, 0) + amount}
    shortage = find_shortage(capacities, demand, zone, amount)
    added = deficit(capacities, together) - deficit(capacities, demand)
    assert (shortage.missing if shortage else 0) == added
    if shortage:
        assert not zone & ~shortage.nodes
        inside = sum(part for other, part in together.items() if not other & ~shortage.nodes)
        assert inside - sum(size for bit, size in capacities.items() if bit & shortage.nodes) >= added


def subsets(nodes: CpuSet) -> Iterator[CpuSet]:
    """All sets of nodes but the empty one."""
    numbers = list(nodes)
    for size in range(1, len(numbers) + 1):
        yield from map(CpuSet.of, combinations(numbers, size))


class MemoryMachine(RuleBasedStateMachine):
    """An allocator and what was asked of it."""

    @initialize(name=st.sampled_from(sorted(MACHINES)))
    def start(self, name: str) -> None:
        """A machine without requests."""
        self.topology = MACHINES[name]
        self.allocator = MemoryAllocator(self.topology)
        self.requests: dict[Key, MemoryRequest] = {}
        self.plain = True  # nobody was restored, nobody is strict or may not move
        self.fits = True  # nobody was restored
        self.every = CpuSet.of(node.id for node in self.topology.nodes)
        self.total = self.allocator.capacity(self.every)

    def zones(self) -> dict[Key, CpuSet]:
        """Everybody's zone."""
        return {key: zone for key in KEYS if (zone := self.allocator.zone(key)) is not None}

    @rule(
        key=st.sampled_from(KEYS),
        node=st.integers(0, 5),
        other=st.integers(0, 5),
        kinds=st.frozensets(st.sampled_from([MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM])),
        share=st.integers(0, 50),
        priority=st.sampled_from(MemoryPriority),
        strict=st.booleans(),
    )
    def allocate(
        self,
        key: Key,
        node: int,
        other: int,
        kinds: frozenset[MemoryKind],
        share: int,
        priority: MemoryPriority,
        strict: bool,
    ) -> None:
        """The offer is kept, zones of others only grow, and a refusal changes nothing."""
        count = len(self.every)
        request = MemoryRequest(
            key=key,
            nodes=CpuSet.of({node % count, other % count}),
            kinds=kinds,
            amount=self.total * share // 100,
            priority=priority,
            strict=strict and share % 2 == 0,
        )
        before = self.zones()
        wanted = sum(found.amount for name, found in self.requests.items() if name != key) + request.amount
        plain = self.plain and not request.strict and priority <= MemoryPriority.PRESERVED
        try:
            offer = self.allocator.offer(request)
        except NotEnoughMemoryError:
            assert not plain or wanted > self.total
            self._refuse(request)
            assert self.zones() == before
            return
        assert self.zones() == before
        change = self.allocator.allocate(request)
        self.requests[key] = request
        self.plain = plain
        after = self.zones()
        assert change.zone == offer.zone == after[key]
        assert {name: zone for name, zone in after.items() if name != key and before[name] != zone} == change.moved
        assert all(before[name] < zone for name, zone in change.moved.items())
        assert all(self.requests[name].priority <= MemoryPriority.PRESERVED for name in change.moved)
        kinds_in = {found.memory for found in self.topology.nodes if found.id in change.zone}
        assert offer.kinds == kinds_in
        assert not request.strict or not kinds or kinds_in == kinds
        assert any(found.id in change.zone and not found.movable for found in self.topology.nodes)

    def _refuse(self, request: MemoryRequest) -> None:
        try:
            self.allocator.allocate(request)
        except NotEnoughMemoryError as error:
            assert str(error).isprintable()  # noqa: PT017
        else:
            raise AssertionError("what was not offered was given")

    @rule(key=st.sampled_from(KEYS), zone=st.integers(0, 127), share=st.integers(0, 60))
    def restore(self, key: Key, zone: int, share: int) -> None:
        """As it is, whatever it is."""
        request = MemoryRequest(
            key=key,
            nodes=CpuSet(zone),
            amount=self.total * share // 100,
            priority=MemoryPriority.GUARANTEED,
        )
        self.allocator.restore(request, CpuSet(zone))
        self.requests[key] = request
        self.plain = self.fits = False
        assert self.allocator.zone(key) == (CpuSet(zone) or self.every)

    @rule(key=st.sampled_from(KEYS), kinds=st.frozensets(st.sampled_from(MemoryKind)), nodes=st.integers(0, 63))
    def widen(self, key: Key, kinds: frozenset[MemoryKind], nodes: int) -> None:
        """Nothing is taken away and nobody else is touched."""
        before = self.zones()
        if key not in before:
            return
        change = self.allocator.widen(key, kinds, CpuSet(nodes))
        assert change.zone >= before[key] | CpuSet(nodes) & self.every
        assert self.zones() == {**before, key: change.zone}

    @rule(key=st.sampled_from(KEYS))
    def release(self, key: Key) -> None:
        """Once more or not at all is the same."""
        others = {name: zone for name, zone in self.zones().items() if name != key}
        self.allocator.release(key)
        self.requests.pop(key, None)
        assert self.zones() == others
        if not others:
            self.plain = self.fits = True

    @invariant()
    def amounts_are_what_was_asked_for(self) -> None:
        """Nothing is lost, and without a request nothing is used."""
        if not hasattr(self, "allocator"):
            return
        zones = self.zones()
        assert zones.keys() == self.requests.keys()
        known = [key for key, zone in zones.items() if zone & self.every]
        assert self.allocator.used(self.every) == sum(self.requests[key].amount for key in known)
        assert not self.fits or all(self.allocator.free(nodes) >= 0 for nodes in subsets(self.every))


TestMemoryAllocator = MemoryMachine.TestCase


@given(
    st.lists(
        st.builds(
            MemoryRequest,
            key=st.sampled_from(KEYS),
            nodes=st.integers(1, 63).map(CpuSet),
            amount=st.integers(0, 60 * GIB),
            priority=st.sampled_from(MemoryPriority),
            kinds=st.frozensets(st.sampled_from(MemoryKind)),
        )
    )
)
def test_the_same_calls_have_the_same_results(requests: list[MemoryRequest]) -> None:
    """For two allocators of one machine, and the kinds in another order."""

    def outcomes(allocator: MemoryAllocator, backwards: bool) -> Iterator[object]:
        for request in requests:
            kinds = frozenset(sorted(request.kinds, reverse=backwards))
            try:
                yield allocator.allocate(replace(request, kinds=kinds))
            except NotEnoughMemoryError as error:
                yield str(error)

    topology = MACHINES["server"]
    assert list(outcomes(MemoryAllocator(topology), False)) == list(outcomes(MemoryAllocator(topology), True))
