"""All balloons of a machine, and which CPUs each has.

A balloon with containers has the CPUs that its type and its containers need, and keeps them while that is so. Those
without containers that are kept because of `minBalloons` have no claim to particular CPUs: they stand where they stood
at the start, or next to it where somebody else is by now. So where everything is follows from options and from the
balloons with containers alone, and is the same after a restart. Invariants: no CPU is in two balloons; there is always
room for what the empty ones must have; reserved CPUs that were given by number are in the balloon `reserved` only.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.balloons.balloon import Balloon, make_balloon
from interpose.core.policy.balloons.cpu_choice import CpuChooser
from interpose.core.policy.balloons.options import RESERVED, UNLIMITED, BalloonsOptions, BalloonType, LoadLevel
from interpose.core.topology.topology import Topology
from interpose.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class BalloonCpus:
    """The CPUs that balloons may have. Isolated ones are among the ordinary ones."""

    ordinary: CpuSet  # of all types
    reserved: CpuSet  # of the balloon `reserved` only


class BalloonSet:
    """Balloons by type and index. `options` have all types, the built-in ones too."""

    def __init__(self, topology: Topology, options: BalloonsOptions, cpus: BalloonCpus) -> None:
        self.kinds: Mapping[str, BalloonType] = {kind.name: kind for kind in options.types}
        self._cpus = cpus
        self._chooser = CpuChooser(topology, options, cpus.reserved)
        self._levels = {load.name: load.level for load in options.load_classes}
        self._loads = any(kind.loads for kind in options.types)
        self._occupied: dict[str, dict[int, Balloon]] = {name: {} for name in self.kinds}
        self._empty: dict[str, Balloon] = {}
        self._initial: dict[str, list[Balloon]] = {}  # by type
        self._changed: dict[str, tuple[str, int]] = {}  # type and number by name
        self._taken = EMPTY  # CPUs of balloons with containers
        self._kept = EMPTY  # of those without
        self._needed = 0  # how many ordinary CPUs those without must have
        self._make_initial()

    # -- questions

    @property
    def idle(self) -> CpuSet:
        """CPUs of no balloon."""
        return (self._cpus.ordinary | self._cpus.reserved) - self._taken - self._kept

    def usable(self, kind: BalloonType) -> CpuSet:
        """The CPUs that balloons of a type may have."""
        return self._cpus.ordinary | self._cpus.reserved if kind.name == RESERVED else self._cpus.ordinary

    def acceptable(self, kind: BalloonType, cpus: CpuSet) -> CpuSet:
        """Those of some CPUs that balloons of a type may have while there are others."""
        return self._chooser.acceptable(kind, cpus)

    def all(self) -> Iterator[Balloon]:
        """All balloons, type by type in their order."""
        for kind in self.kinds.values():
            yield from self.of_type(kind)

    def of_type(self, kind: BalloonType) -> list[Balloon]:
        """All balloons of a type, in the order of their numbers."""
        found = list(self._occupied[kind.name].values())
        names = (f"{kind.name}[{index}]" for index in range(kind.min_balloons))
        found += [self._empty[name] for name in names if name in self._empty]
        return sorted(found, key=lambda balloon: balloon.index)

    def occupied(self, kind: BalloonType, index: int) -> Balloon:
        """The balloon of a type with this number, which has containers."""
        return self._occupied[kind.name][index]

    def find(self, kind: BalloonType, index: int) -> Balloon | None:
        """The balloon of a type with this number; None if there is none."""
        return self._occupied[kind.name].get(index) or self._empty.get(f"{kind.name}[{index}]")

    def may_create(self, kind: BalloonType) -> bool:
        """Whether one more balloon of a type may have containers."""
        return kind.max_balloons == UNLIMITED or len(self._occupied[kind.name]) < kind.max_balloons

    def make_new(self, kind: BalloonType) -> Balloon | None:
        """A balloon that could be created, with the lowest number that is free; None if there are as many as may be."""
        there = {balloon.index for balloon in self.of_type(kind)}
        if kind.max_balloons != UNLIMITED and len(there) >= kind.max_balloons:
            return None
        index = next(number for number in range(len(there) + 1) if number not in there)
        return make_balloon(self.kinds, kind, index, self._pick_component)

    def spare(self, balloon: Balloon) -> int:
        """How many CPUs a balloon can grow by; one without containers starts from nothing."""
        return len(self.usable(balloon.kind) - self._taken) - self._needed + self._relief(balloon)

    def missing(self, balloon: Balloon, sizes: Sequence[int]) -> int:
        """How many CPUs too few there are for these sizes of its parts; 0 if there are enough."""
        return max(0, sum(sizes) - (len(balloon.cpus) if balloon.containers else 0) - self.spare(balloon))

    def fits(self, balloon: Balloon, milli: int) -> bool:
        """Whether a balloon can have the CPUs for so much."""
        sizes = balloon.sizes_for(milli)
        return sizes is not None and not self.missing(balloon, sizes)

    # -- changes

    def put(self, balloon: Balloon, sizes: Sequence[int], near: Sequence[CpuSet] = ()) -> Balloon:
        """Store a balloon with containers, with so many CPUs in its parts, of which there are enough.

        Parts that grow would rather have the CPUs in `near`, one set for each. Returns it with its CPUs.
        """
        before = self._occupied[balloon.kind.name].get(balloon.index)
        others = self._taken if before is None else self._taken - before.cpus
        hard = self.usable(balloon.kind) - others - balloon.cpus
        soft = hard - CpuSet.union(other.cpus for other in self._empty.values() if other.name != balloon.name)
        grown = self._resize(balloon, sizes, near, (soft, hard))
        self._occupied[balloon.kind.name][balloon.index] = grown
        self._taken = others | grown.cpus
        self._note(grown)
        self._settle()
        return grown

    def remove(self, balloon: Balloon) -> None:
        """Forget a balloon whose last container is gone; it is kept empty if there must be so many."""
        del self._occupied[balloon.kind.name][balloon.index]
        self._taken -= balloon.cpus
        self._note(balloon)
        self._settle()

    def list_changed(self) -> dict[str, Balloon | None]:
        """Balloons that are not as they were at the last call, by name; None for those that are gone."""
        changed, self._changed = self._changed, {}
        return {name: self.find(self.kinds[kind], index) for name, (kind, index) in changed.items()}

    # -- empty balloons

    def _make_initial(self) -> None:
        """The balloons that there are without containers: those of preferred priorities first."""
        order = list(CpuPriority)
        problems = []
        kept = [kind for kind in self.kinds.values() if kind.min_balloons]
        for kind in sorted(kept, key=lambda kind: order.index(kind.priority)):
            for index in range(kind.min_balloons):
                balloon = make_balloon(self.kinds, kind, index, self._pick_component)
                free = self.usable(kind) - self._kept
                if balloon.least > len(free):
                    problems.append(
                        f"balloonTypes: type {kind.name}: minBalloons: {kind.min_balloons} of {balloon.least} CPUs "
                        f"cannot be, {len(free)} CPUs are left for number {index}"
                    )
                    break
                placed = self._resize(balloon, [part.least for part in balloon.parts], (), (free, free))
                self._empty[placed.name] = placed
                self._kept |= placed.cpus
        if problems:
            raise ConfigError([f"policy.balloons.{problem}" for problem in problems])
        for balloon in self._empty.values():
            self._initial.setdefault(balloon.kind.name, []).append(balloon)
            self._note(balloon)
        self._needed = sum(map(self._need, self._empty.values()))

    def _settle(self) -> None:
        """Place the empty balloons: each where it was at the start, as far as nobody else is there."""
        wanted = self._list_kept()
        if list(self._empty.values()) == wanted and not self._kept & self._taken:
            return
        claimed = EMPTY
        found = []
        for balloon in wanted:
            parts = [part.cpus - self._taken - claimed for part in balloon.parts]
            claimed |= CpuSet.union(parts)
            found.append((balloon, parts))
        before, self._empty = self._empty, {}
        for balloon, parts in found:
            placed = balloon
            if CpuSet.union(parts) != balloon.cpus:
                room = self.usable(balloon.kind) - self._taken - claimed
                least = [part.least for part in balloon.parts]
                placed = self._resize(balloon.with_cpus(parts), least, (), (room, room))
                claimed |= placed.cpus
            self._empty[placed.name] = placed
        self._kept = claimed
        self._needed = sum(map(self._need, wanted))
        for name, balloon in {**before, **self._empty}.items():
            if before.get(name) is not self._empty.get(name):
                self._note(balloon)

    def _list_kept(self) -> list[Balloon]:
        """The empty balloons that there must be, as they were at the start: those with the lowest free numbers."""
        found = []
        for name, balloons in self._initial.items():
            occupied = self._occupied[name]
            there = [balloon for balloon in balloons if balloon.index not in occupied]
            found += there[: max(0, len(balloons) - len(occupied))]
        return found

    def _need(self, balloon: Balloon) -> int:
        """How many ordinary CPUs an empty balloon must have."""
        own = len(self._cpus.reserved) if balloon.kind.name == RESERVED else 0
        return max(0, balloon.least - own)

    def _relief(self, balloon: Balloon) -> int:
        """How many CPUs fewer the empty balloons must have when this one has containers."""
        if balloon.index in self._occupied[balloon.kind.name]:
            return 0
        same = [other for other in self._initial.get(balloon.kind.name, ()) if other.name in self._empty]
        gone = self._empty.get(balloon.name) or (same[-1] if same else None)
        return 0 if gone is None else self._need(gone)

    def _note(self, balloon: Balloon) -> None:
        self._changed[balloon.name] = balloon.kind.name, balloon.index

    # -- CPUs

    def _resize(
        self, balloon: Balloon, sizes: Sequence[int], near: Sequence[CpuSet], free: tuple[CpuSet, CpuSet]
    ) -> Balloon:
        """The balloon with so many CPUs in its parts.

        `free`: CPUs that are to be had, and those that are to be had if these are not enough; none of its own.
        """
        found = []
        given = EMPTY
        wanted = tuple(near) or (EMPTY,) * len(sizes)
        loaded = self._loaded(balloon) if self._loads else {}
        for part, size in zip(balloon.parts, sizes, strict=True):
            own = part.cpus
            if size < len(own):
                own -= CpuSet(self._chooser.shrink(part.kind, free[0].mask, own.mask, len(own) - size))
                given |= part.cpus - own
            found.append(own)
        soft, hard = (cpus | given for cpus in free)
        for number, (part, size) in enumerate(zip(balloon.parts, sizes, strict=True)):
            if (count := size - len(found[number])) <= 0:
                continue
            close = wanted[number]
            if balloon.kind.name == RESERVED:
                close |= self._cpus.reserved
            room = soft | (close & hard)
            room = room if len(room) >= count else hard
            taken = CpuSet(self._chooser.grow(part.kind, room.mask, found[number].mask, count, close.mask, loaded))
            found[number] |= taken
            soft, hard = soft - taken, hard - taken
        return balloon.with_cpus(found)

    def _loaded(self, besides: Balloon) -> dict[LoadLevel, int]:
        """The CPUs of other balloons that have a load, by its level."""
        found: dict[LoadLevel, int] = {}
        for balloon in self.all():
            for part in balloon.parts if balloon.name != besides.name else ():
                for load in part.kind.loads:
                    found[self._levels[load]] = found.get(self._levels[load], 0) | part.cpus.mask
        return found

    def _pick_component(self, kind: BalloonType) -> str:
        """The component of which there are the fewest balloons, those in other balloons counted too."""
        counts = dict.fromkeys(kind.components, 0)
        for balloon in self.all():
            for name in balloon.contains:
                if name in counts:
                    counts[name] += 1
        return min(kind.components, key=counts.__getitem__)
