"""How many CPUs to take of which NUMA nodes so that they are spread evenly: the kubelet's way, in numbers only.

For as few nodes as possible: all sets of so many nodes are tried in order. Each node of a set gives the same share; the
rest comes in groups from some of them, round after round. The set after which the free CPUs of all nodes differ least
(standard deviation, to three decimals) is taken, the first one of equals.

The work is bounded: after MOST_TRIES sets and ways to take the rest, the best so far counts. With up to eight
nodes, which is all that kubelets support, this many are never needed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

MOST_TRIES = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What nodes give, by their places in the list of nodes."""

    nodes: tuple[int, ...]
    even: int  # so many CPUs each
    rest: int  # so many more in all,
    extra: tuple[int, ...]  # a group from each of these in turn


@dataclass(slots=True, kw_only=True)
class Balance:
    """One search."""

    free: Sequence[int]  # CPUs of each node
    count: int
    group: int = 1  # CPUs are given in groups of so many; `count` is a multiple of it
    sockets: Sequence[int] | None = None  # of each node: sets within a socket are better than others; None: no matter
    tries: int = 0
    _scores: dict[int, int] = field(default_factory=dict, init=False)

    def search(self, fewest: int, most: int) -> Shares | None:
        """The best way with the least number of nodes in this range; None if there is none."""
        for size in range(fewest, most + 1):
            best: tuple[tuple[bool, int], Shares] | None = None
            for nodes in combinations(range(len(self.free)), size):
                self.tries += 1
                if self.tries > MOST_TRIES or (best is not None and best[0] == (False, 0)):
                    break
                apart = self.sockets is not None and len({self.sockets[node] for node in nodes}) > 1
                worst = None if best is None or best[0][0] > apart else -1 if best[0][0] < apart else best[0][1]
                found = self._shares(nodes, worst)
                if found is not None:
                    best = (apart, found[0]), found[1]
            if best is not None:
                return best[1]
        return None

    def _shares(self, nodes: tuple[int, ...], worst: int | None) -> tuple[int, Shares] | None:
        """The best way with these nodes and its score; None if there is none with a score below `worst`."""
        if sum(self.free[node] // self.group for node in nodes) * self.group < self.count:
            return None
        least = min(self.free[node] for node in nodes)
        even = self.count // len(nodes) // self.group * self.group
        if self.sockets is not None:
            even = min(even, least // self.group * self.group)
        if least < even:
            return None
        left = list(self.free)
        for node in nodes:
            left[node] -= even
        rest = self.count - even * len(nodes)
        able = [node for node in nodes if left[node] >= self.group]
        bound = self._score(self._lowest(left, able, rest))
        if worst is not None and bound >= worst:
            return None
        if not rest:
            return bound, Shares(nodes=nodes, even=even, rest=0, extra=())
        best = worst
        chosen: tuple[int, ...] | None = None
        # The first way, from all of them, is always one.
        for subset in (subset for size in range(len(able), 0, -1) for subset in combinations(able, size)):
            self.tries += 1
            squares = self._after(left, subset, rest)
            if squares is not None and (best is None or self._score(squares) < best):
                best, chosen = self._score(squares), subset
            if best == bound or self.tries > MOST_TRIES:
                break
        if best is None or chosen is None:
            return None
        return best, Shares(nodes=nodes, even=even, rest=rest, extra=chosen)

    def _after(self, left: Sequence[int], subset: Sequence[int], rest: int) -> int | None:
        """The sum of squares of what is left when these nodes gave the rest; None if they have not enough."""
        if sum(left[node] // self.group for node in subset) * self.group < rest:
            return None
        after = list(left)
        groups = rest // self.group
        while groups:
            giving = [node for node in subset if after[node] >= self.group]
            # Whole rounds as long as none of them runs dry; then what is not enough for a round.
            rounds = min(groups // len(giving), min(after[node] for node in giving) // self.group)
            for node in giving if rounds else giving[:groups]:
                after[node] -= max(rounds, 1) * self.group
            groups -= rounds * len(giving) if rounds else groups
        return sum(number * number for number in after)

    def _lowest(self, left: Sequence[int], able: Sequence[int], rest: int) -> int:
        """No way to take the rest leaves a smaller sum of squares: always from where most is left.

        Only worked out for a rest of few groups, which is the rule. Otherwise 0.
        """
        groups = rest // self.group
        if groups > len(able):
            return 0
        after = list(left)
        for _ in range(groups):
            after[max(able, key=after.__getitem__)] -= self.group
        return sum(number * number for number in after)

    def _score(self, squares: int) -> int:
        """The standard deviation in thousandths. The sum is the same for all, so the sum of squares says it all."""
        if squares not in self._scores:
            size = len(self.free)
            total = sum(self.free) - self.count
            mean = _thousandths(total / size) / 1000
            variance = max(0.0, squares - 2 * mean * total + size * mean * mean) / size
            self._scores[squares] = _thousandths(math.sqrt(variance))
        return self._scores[squares]


def _thousandths(number: float) -> int:
    return math.floor(number * 1000 + 0.5)
