"""The memory nodes of a machine as masks: sizes, kinds and distances.

Only nodes with memory are in it. A mask may have bits of other nodes (a container was bound to a node that is gone):
these have no memory, and nothing is near to them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from interpose.core.cpuallocator.bitmask import iterate_bits
from interpose.core.topology.parse import MAX_DISTANCE
from interpose.core.topology.topology import MemoryKind, Topology


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryNodes:
    """Memory nodes, each as the bit of its number."""

    capacities: Mapping[int, int]  # bit -> bytes
    kinds: Mapping[MemoryKind, int]  # kind -> the nodes of it; kinds that the machine has not are missing
    normal: int  # the nodes whose memory is not all movable
    every: int
    ordinary: frozenset[MemoryKind]  # the kinds for whoever names none
    rings: Mapping[
        int, tuple[tuple[int, int], ...]
    ]  # bit of any node -> (distance, nodes so far away), near ones first

    @classmethod
    def of(cls, topology: Topology) -> "MemoryNodes":
        """The nodes of a machine."""
        found = [node for node in topology.nodes if node.memory_bytes and node.memory is not MemoryKind.NONE]
        every = sum(1 << node.id for node in found)
        kinds: dict[MemoryKind, int] = {}
        for node in found:
            kinds[node.memory] = kinds.get(node.memory, 0) | 1 << node.id
        rings: dict[int, tuple[tuple[int, int], ...]] = {}
        for node in topology.nodes:
            ring: dict[int, int] = {}
            for other in found:
                distance = node.distances.get(other.id, MAX_DISTANCE)
                ring[distance] = ring.get(distance, 0) | 1 << other.id
            rings[1 << node.id] = tuple(sorted(ring.items()))
        return cls(
            capacities={1 << node.id: node.memory_bytes for node in found},
            kinds=kinds,
            normal=sum(1 << node.id for node in found if not node.movable) or every,  # the kernel is somewhere
            every=every,
            ordinary=frozenset((MemoryKind.DRAM,) if MemoryKind.DRAM in kinds else kinds),
            rings=rings,
        )

    @property
    def known(self) -> int:
        """All nodes of the machine, with memory or without."""
        return sum(self.rings)

    def capacity(self, zone: int) -> int:
        """The bytes that these nodes have together."""
        return sum(self.capacities.get(bit, 0) for bit in iterate_bits(zone))

    def kinds_in(self, zone: int) -> frozenset[MemoryKind]:
        """The kinds of memory that these nodes have."""
        return frozenset(kind for kind, nodes in self.kinds.items() if nodes & zone)

    def of_kinds(self, kinds: Iterable[MemoryKind]) -> int:
        """All nodes of these kinds."""
        found = 0
        for kind in kinds:
            found |= self.kinds.get(kind, 0)
        return found

    def closest(self, zone: int, among: int) -> int:
        """Those of the others that are nearest to any node of the zone, all that are equally near; 0 if there is none.

        To a zone of which no node exists all are equally near.
        """
        among &= self.every & ~zone
        rings = [self.rings[bit] for bit in iterate_bits(zone) if bit in self.rings]
        if not among or not rings:
            return among
        hits = [next((distance, nodes & among) for distance, nodes in ring if nodes & among) for ring in rings]
        least = min(distance for distance, _ in hits)
        near = 0
        for distance, nodes in hits:
            if distance == least:
                near |= nodes
        return near
