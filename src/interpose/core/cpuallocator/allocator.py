"""Which CPUs to take: near to each other, whole cores, and where the least is left over.

The machine is a tree of groups (`tree`). The search goes in three steps:

1. *Home*: the groups of the narrowest level of which a single one can give all CPUs. The one with the least cost is
   taken, see `cost.Cost`: first what is needed inside of it in caches and the like, then distance, then cores split,
   then how much is left over in it and around it.
2. *Narrowing*: inside of the home, level by level, the fewest groups that together can give all CPUs; of several such
   sets the one with the least cost. So CPUs are in the fewest packages that are possible, in those in the fewest NUMA
   nodes, and so on.
3. *Filling*: whole idle cores of what remains first, then cores in use already. A core of which only a part is taken is
   *split*; a split core that was idle before is *broken*. In this order few of both are wanted. `split_cores` counts
   without taking, for comparing candidates; `fill` takes.

All sets of groups are compared if there are at most MOST_SETS; if there are more, the largest groups are taken and only
the last one is chosen by cost. The work is bounded by that, and the same CPUs give the same result, in whatever order
they came.

A preferred priority comes after packages and NUMA nodes, and before everything narrower: steps 1 and 2 are done for
these levels, then CPUs of other classes are left out as far as there are enough without them, and all starts again with
what remains.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, combinations
from math import comb

from interpose.core.cpuallocator.bitmask import compute_once, lowest_bits
from interpose.core.cpuallocator.cost import Candidate, Cost
from interpose.core.cpuallocator.kubelet import NotEnoughCpusError
from interpose.core.cpuallocator.priority import CLASSES, ORDER, CpuPriority, preference, priority_classes
from interpose.core.cpuallocator.tree import CpuTree, TreeLevel
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.topology.topology import Topology


def split_cores(cores: Mapping[tuple[int, int], int], count: int) -> tuple[int, int]:
    """Cores split and broken when so many CPUs are taken here.

    `cores`: how many there are with so many free CPUs of so many.
    """
    idle = {size: number for (free, size), number in cores.items() if free == size}
    used = {free: 0 for free, size in cores if 0 < free < size}
    for (free, size), number in cores.items():
        if 0 < free < size:
            used[free] += number
    for size in sorted(idle, reverse=True):
        whole = min(idle[size], count // size)
        idle[size] -= whole
        count -= whole * size
    if not count:
        return 0, 0
    if max(used, default=0) >= count:
        return 1, 0
    if any(idle.values()):
        return 1, 1
    split = 0
    for free in sorted(used, reverse=True):
        some = min(used[free], -(-count // free))
        split += some
        count = max(0, count - some * free)
    return split, 0


def count_groups_needed(sizes: Sequence[int], count: int) -> int:
    """How many groups of these sizes, largest first, have `count` CPUs together; all of them have enough."""
    return next(number for number, total in enumerate(accumulate(sizes), start=1) if total >= count)


def fill(cores: Sequence[int], pool: int, must: int, count: int) -> int:
    """Take CPUs of the pool, those in `must` among them; `cores` are all cores with CPUs in the pool, in order.

    The order: siblings of what must be taken; idle cores while they fit, the largest first; then the core in use that
    fits what is missing best; if none has so much, part of an idle one, the smallest that will do; if there is none,
    cores in use, those with the most first.
    """
    taken = must
    for core in cores:
        if core & must:
            taken |= lowest_bits(core & pool & ~taken, count - taken.bit_count())
    open_cores = [core for core in cores if not core & must]
    idle = sorted((core for core in open_cores if not core & ~pool), key=lambda core: -core.bit_count())
    spare = []
    for core in idle:
        if core.bit_count() <= count - taken.bit_count():
            taken |= core
        else:
            spare.append(core)
    used = [core & pool for core in open_cores if core & ~pool]
    while need := count - taken.bit_count():
        fitting = [part for part in used if part.bit_count() >= need] or [
            part for part in spare if part.bit_count() >= need
        ]
        if fitting:
            taken |= lowest_bits(min(fitting, key=int.bit_count), need)
        else:
            most = max(used, key=int.bit_count)
            used.remove(most)
            taken |= most
    return taken


MOST_SETS = 70  # as many as there are sets of four of eight
MOST_CANDIDATES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuSelection:
    """CPUs that were taken, and the candidates there were, best first."""

    cpus: CpuSet = EMPTY
    candidates: tuple[Candidate, ...] = ()


def take(
    topology: Topology,
    available: CpuSet,
    count: int,
    *,
    keep: CpuSet = EMPTY,
    prefer: CpuPriority = CpuPriority.NONE,
) -> CpuSelection:
    """Take `count` of the available CPUs; NotEnoughCpusError if there are not so many that are online.

    `keep`: CPUs that are held already and shall stay; they count only if they are available too. They are all in the
    result, or, if fewer CPUs are wanted than these, the result is a part of them.
    """
    pool = available & topology.online
    if count > len(pool):
        raise NotEnoughCpusError(f"cpuset {pool} does not have {count} CPUs")
    if count <= 0:
        return CpuSelection()
    must = keep & pool
    if len(must) >= count:
        pool, must = must, EMPTY
    search = _Search(compute_once(topology, CpuTree.of), pool.mask, must.mask, count)
    if prefer is not CpuPriority.NONE:
        search.restrict([compute_once(topology, priority_classes)[kind].mask for kind in CLASSES], prefer)
    search.run(outer_only=False)
    return CpuSelection(cpus=CpuSet(search.fill_cores()), candidates=tuple(search.candidates))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Option:
    """A set of groups of one level that could be taken."""

    cost: Cost
    mask: int  # its free CPUs


class _Search:
    """A search for CPUs: the pool shrinks until it is what is taken."""

    def __init__(self, tree: CpuTree, pool: int, must: int, count: int) -> None:
        self._tree = tree
        self._pool = pool
        self._must = must
        self._count = count
        self._classes: Sequence[int] = ()
        self._prefer = CpuPriority.NONE
        self._outer_only = False
        self._sizes: list[list[int]] = []  # [level][group]: CPUs in the pool, when the run began
        self._cores: list[tuple[int, int]] = []  # (free, all) of each core
        self._counts: dict[tuple[int, int], Counter[tuple[int, int]]] = {}  # (level, group): the same, counted
        self.candidates: list[Candidate] = []

    def restrict(self, classes: Sequence[int], prefer: CpuPriority) -> None:
        """Leave out CPUs of other classes than the preferred one, as far as there are enough without them."""
        if sum(1 for mask in classes if mask & self._pool) < 2:
            return
        self._classes, self._prefer = classes, prefer
        self.run(outer_only=True)
        self._classes = ()
        parts = (self._pool & classes[CLASSES.index(kind)] for kind in ORDER[prefer])
        part = next(parts)
        while (self._must | part).bit_count() < self._count:
            self._must |= part
            part = next(parts)
        self._pool = self._must | part

    def run(self, *, outer_only: bool) -> None:
        """Find a home and narrow it."""
        self._outer_only = outer_only
        levels = self._tree.levels
        self._sizes = [[(group & self._pool).bit_count() for group in level.groups] for level in levels]
        self._cores = [(free, mask.bit_count()) for free, mask in zip(self._sizes[-1], levels[-1].groups, strict=True)]
        self._counts = {}
        number = self._choose_home([at for at, level in enumerate(levels) if level.outer or not outer_only])
        for inner in range(number + 1, len(levels) - 1):
            if levels[inner].outer or not outer_only:
                self._narrow(inner)

    def fill_cores(self) -> int:
        """The CPUs. Groups are used up in turn, the smallest first: what is left over is in one piece."""
        *wider, cores = self._tree.levels
        sizes = [[(group & self._pool).bit_count() for group in level.groups] for level in reversed(wider)]
        places = [place for place, core in enumerate(cores.groups) if core & self._pool]
        places.sort(
            key=lambda core: [(size[at], at) for size, at in zip(sizes, cores.parents[core], strict=True)][::-1]
        )
        return fill([cores.groups[place] for place in places], self._pool, self._must, self._count)

    # -- step 1

    def _choose_home(self, numbers: Sequence[int]) -> int:
        """Shrink the pool to one group of the narrowest level that has such; the level."""
        # There is one at the latest when it is the whole machine.
        number, homes = next((number, homes) for number in reversed(numbers) if (homes := self._find_homes(number)))
        self._choose(number, homes)
        return number

    def _find_homes(self, number: int) -> list[tuple[int, ...]]:
        groups = self._tree.levels[number].groups
        sizes = self._sizes[number]
        homes = [place for place, size in enumerate(sizes) if size >= self._count and not self._must & ~groups[place]]
        if number == len(self._sizes) - 1 and not self._classes:
            homes = self._best_cores(homes)
        return [(place,) for place in homes]

    def _best_cores(self, cores: Sequence[int]) -> list[int]:
        """There can be hundreds. The best of them by what decides between single cores, in the order of the cost."""
        parents = self._tree.levels[-1].parents
        around = self._sizes[-2::-1]

        def rough(core: int) -> tuple[bool, bool, int]:
            free, size = self._cores[core]
            return free != size or free != self._count, free == size, free

        best = min((rough(core) for core in cores), default=None)
        cores = [core for core in cores if rough(core) == best]
        return sorted(cores, key=lambda core: [size[at] for size, at in zip(around, parents[core], strict=True)])[
            :MOST_CANDIDATES
        ]

    # -- step 2

    def _narrow(self, number: int) -> None:
        """Shrink the pool to the fewest groups of a level that have enough."""
        level = self._tree.levels[number]
        sizes = {place: (group & self._pool).bit_count() for place, group in enumerate(level.groups)}
        held = tuple(place for place, group in enumerate(level.groups) if group & self._must)
        need = self._count - sum(sizes[place] for place in held)
        if need <= 0:
            self._choose(number, [held])
            return
        rest = sorted((place for place in sizes if sizes[place] and place not in held), key=lambda at: (-sizes[at], at))
        more = count_groups_needed([sizes[place] for place in rest], need)
        if comb(len(rest), more) <= MOST_SETS:
            sets = [
                tuple(sorted((*held, *chosen)))
                for chosen in combinations(rest, more)
                if sum(sizes[place] for place in chosen) >= need
            ]
        else:
            fixed = (*held, *rest[: more - 1])
            need -= sum(sizes[place] for place in rest[: more - 1])
            sets = [tuple(sorted((*fixed, place))) for place in rest[more - 1 :] if sizes[place] >= need]
        self._choose(number, sets)

    # -- both

    def _choose(self, number: int, sets: Sequence[tuple[int, ...]]) -> None:
        """Shrink the pool to the set with the least cost."""
        level = self._tree.levels[number]
        if len(sets) == 1 and self.candidates:
            self._pool &= sum(level.groups[place] for place in sets[0])
            return
        options = sorted((self._option(number, places) for places in sets), key=lambda option: option.cost)
        self._pool = options[0].mask
        if len(self.candidates) < 2:
            self.candidates = list(self._describe_options(level, number, options))

    def _option(self, number: int, places: tuple[int, ...]) -> _Option:
        level = self._tree.levels[number]
        whole = sum(level.groups[place] for place in places)
        mask = whole & self._pool
        free = mask.bit_count()
        split, broken = split_cores(self._count_cores(number, places), self._count)
        # What is around several groups is the same for all sets of them.
        parents = level.parents[places[0]] if len(places) == 1 else ()
        around = zip(parents, reversed(self._sizes[:number]), strict=False)
        nodes = {node for place in places for node in level.nodes[place]}
        classes = [(mask & kind).bit_count() for kind in self._classes]
        return _Option(
            cost=Cost(
                misfit=int(not self._outer_only and (mask != whole or free != self._count)),
                spans=tuple(self._spans(number, places)),
                classes=preference(self._prefer, classes, self._count) if classes else (),
                distance=self._tree.mean_distance(nodes) if len(nodes) > 1 else 0,
                split=split,
                broken=broken,
                left=(free - self._count, *(outer[at] - self._count for at, outer in around)),
                places=places,
            ),
            mask=mask,
        )

    def _count_cores(self, number: int, places: Iterable[int]) -> dict[tuple[int, int], int]:
        """How many cores of these groups have so many free CPUs of so many."""
        counted: dict[tuple[int, int], int] = {}
        for place in places:
            if (number, place) not in self._counts:
                inside = self._tree.inside[number][place][-1]
                self._counts[number, place] = Counter([self._cores[core] for core in inside])
            for kind, cores in self._counts[number, place].items():
                counted[kind] = counted.get(kind, 0) + cores
        return counted

    def _inner(self, number: int) -> range:
        """The levels that count for spans: narrower than this one and wider than cores."""
        levels = self._tree.levels
        last = sum(level.outer for level in levels) if self._outer_only else len(levels) - 1
        return range(number + 1, min(last, len(levels) - 1))

    def _spans(self, number: int, places: Iterable[int]) -> Iterable[int]:
        for inner in self._inner(number):
            sizes = self._sizes[inner]
            found = sorted(
                (sizes[at] for place in places for at in self._tree.inside[number][place][inner - number]),
                reverse=True,
            )
            yield count_groups_needed(found, self._count)

    def _describe_options(self, level: TreeLevel, number: int, options: Sequence[_Option]) -> Iterable[Candidate]:
        names = tuple(self._tree.levels[inner].plural for inner in self._inner(number))
        best = options[0]
        for option in options[:MOST_CANDIDATES]:
            chosen = option is best
            yield Candidate(
                name=level.name(option.cost.places),
                cpus=CpuSet(option.mask),
                score=option.cost.text(names),
                chosen=chosen,
                reason=f"the best of {len(options)}" if chosen else option.cost.explain_difference(best.cost, names),
            )
