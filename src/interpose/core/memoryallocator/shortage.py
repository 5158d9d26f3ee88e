"""Whether everybody's memory fits, given that each may take it from some nodes only.

Zones overlap, so that the free memory of a node is nobody's in particular: what a container may take from two nodes is
in the way of others in one of them only if it does not fit into the other. So the amounts are distributed over the
nodes as a flow in a network, from zones to nodes. What cannot be distributed is missing, and then there is a set of
nodes all of whose memory is needed by those that may use nothing else: the bottleneck. Without one there is room for
everybody, and the other way round.
"""

from collections.abc import Mapping
from typing import NamedTuple

from interpose.core.cpuallocator.bitmask import iterate_bits


class MemoryShortage(NamedTuple):
    """The bytes that are missing, and the nodes that would have to have them."""

    missing: int
    nodes: int


def find_shortage(
    capacities: Mapping[int, int], demand: Mapping[int, int], zone: int, amount: int
) -> MemoryShortage | None:
    """The shortage that an amount in a zone meets, after the demand of others (bytes by zone); None if it fits.

    Capacities are by node, as a bit; there is nothing in nodes without. A shortage of others, elsewhere, is not one of
    this amount.
    """
    present = sum(capacities)
    network = _Network(capacities)
    for other in sorted(_connected(demand, zone), key=lambda mask: (mask.bit_count(), mask)):
        network.route(other & present, demand[other])
    missing, nodes = network.route(zone & present, amount)
    return MemoryShortage(missing, nodes) if missing else None


def _connected(demand: Mapping[int, int], zone: int) -> list[int]:
    """The zones that overlap with this one, or with one that does, and so on."""
    found: list[int] = []
    rest = list(demand)
    before = 0
    while zone != before:
        before = zone
        apart: list[int] = []
        for other in rest:
            if other & zone:
                zone |= other
                found.append(other)
            else:
                apart.append(other)
        rest = apart
    return found


class _Network:
    """Amounts distributed over nodes. What was routed once stays routed, if need be to other nodes of its zone."""

    def __init__(self, capacities: Mapping[int, int]) -> None:
        self._free = dict(capacities)
        self._users: dict[int, dict[int, int]] = {bit: {} for bit in capacities}  # node -> zone -> bytes

    def route(self, zone: int, amount: int) -> tuple[int, int]:
        """Distribute an amount over the nodes of a zone.

        Returned is the rest for which there is no room, and then the bottleneck: nodes without free memory whose users
        could use none of any other node.
        """
        for bit in iterate_bits(zone):
            if part := min(amount, self._free[bit]):
                self._give(bit, zone, part)
                amount -= part
        while amount:
            parents, last = self._reach(zone)
            if not last:
                return amount, sum(parents)
            amount -= self._push(zone, parents, last, amount)
        return 0, 0

    def _give(self, bit: int, zone: int, amount: int) -> None:
        users = self._users[bit]
        users[zone] = users.get(zone, 0) + amount
        self._free[bit] -= amount

    def _reach(self, zone: int) -> tuple[dict[int, tuple[int, int]], int]:
        """The nodes that have free memory if others go to other nodes, up to the first that has some itself; 0 if none.

        Each node comes with the one before and the zone that could leave that one for it; the first ones with zeros.
        """
        parents = dict.fromkeys(iterate_bits(zone), (0, 0))
        queue = list(parents)
        for bit in queue:
            if self._free[bit]:
                return parents, bit
            for user in self._users[bit]:
                for other in iterate_bits(user):
                    if other not in parents:
                        parents[other] = (bit, user)
                        queue.append(other)
        return parents, 0

    def _push(self, zone: int, parents: Mapping[int, tuple[int, int]], last: int, amount: int) -> int:
        """Make room by moving the zones of a path one node further each; the bytes that were routed."""
        steps = [(last, *parents[last])]
        while steps[-1][1]:
            steps.append((steps[-1][1], *parents[steps[-1][1]]))
        *moves, (first, _, _) = steps
        amount = min(amount, self._free[last], *(self._users[bit][user] for _, bit, user in moves))
        for to, bit, user in moves:
            self._give(to, user, amount)
            self._free[bit] += amount
            self._users[bit][user] -= amount
            if not self._users[bit][user]:
                del self._users[bit][user]
        self._give(first, zone, amount)
        return amount
