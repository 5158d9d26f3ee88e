"""A balloon: CPUs, and the containers that share them. Balloons are values: replaced, never changed.

A composite is made of parts, one for each of its components; every other balloon has one part. What its containers
request is divided equally among the parts, and each part has the CPUs of its own type.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeVar

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.balloons.options import NONE_FIT, UNLIMITED, BalloonType, ComponentCreation
from interpose.core.policy.request import Request

_Count = TypeVar("_Count")


def _nothing() -> Mapping[str, _Count]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class BalloonPart:
    """The part of a balloon whose CPUs are those of one type."""

    kind: BalloonType
    share: int = 1  # it has one of so many equal parts of what is requested
    least: int = 0  # CPUs
    most: int | None = None
    cpus: CpuSet = EMPTY

    def size_for(self, milli: int) -> int | None:
        """How many CPUs it has when so much is requested of the balloon; None if it cannot have so many."""
        size = max(self.least, -(-milli // (1000 * self.share)), 1)
        return None if self.most is not None and size > self.most else size


@dataclass(frozen=True, slots=True)
class PodUse:
    """What the containers of a pod use of a balloon."""

    milli: int = 0  # what they request, in thousandths of a CPU
    containers: int = 0
    counted: int = 0  # what is counted of it: never more than the pod as a whole asks for


@dataclass(frozen=True, slots=True, kw_only=True)
class Balloon:
    """A balloon with what its containers use of it, by their pods, namespaces and groups."""

    name: str  # TYPE[INDEX]
    kind: BalloonType
    index: int
    parts: tuple[BalloonPart, ...]
    picked: tuple[str, ...] = ()  # components that were chosen among several, in the order in which they were
    contains: tuple[str, ...] = ()  # every type that it is made of, as often as it is, its own among them
    cpus: CpuSet = EMPTY
    milli: int = 0  # counted of all pods
    containers: int = 0
    pods: Mapping[str, PodUse] = field(default_factory=_nothing)
    namespaces: Mapping[str, int] = field(default_factory=_nothing)
    groups: Mapping[str, int] = field(default_factory=_nothing)

    @property
    def least(self) -> int:
        """The CPUs that it has without containers."""
        return sum(part.least for part in self.parts)

    def counted_of(self, pod_id: str) -> int | None:
        """What is counted of a pod, if that is not all that its containers here request."""
        use = self.pods[pod_id]
        return None if use.counted == use.milli else use.counted

    def sizes_for(self, milli: int) -> list[int] | None:
        """CPUs of each part when so much is requested; None if it cannot grow to that."""
        sizes = [size for part in self.parts if (size := part.size_for(milli)) is not None]
        return sizes if len(sizes) == len(self.parts) else None

    def most_milli(self, free: int) -> int:
        """What can be requested of it at most, with so many free CPUs to grow by."""
        limits = []
        for part in self.parts:
            size = len(part.cpus) + free // len(self.parts)
            limits.append((size if part.most is None else min(size, part.most)) * part.share)
        return 1000 * min(limits)

    def with_cpus(self, cpus: list[CpuSet]) -> "Balloon":
        """The same with other CPUs of its parts."""
        parts = tuple(replace(part, cpus=own) for part, own in zip(self.parts, cpus, strict=True))
        return replace(self, parts=parts, cpus=CpuSet.union(cpus))

    def with_container(self, request: Request, group: str | None, counted: int) -> "Balloon":
        """The same with a container more; `counted` is what counts of its pod here then."""
        use = self.pods.get(request.key.pod_id, PodUse())
        return self._changed(request, group, 1, PodUse(use.milli + request.milli, use.containers + 1, counted))

    def without_container(self, request: Request, group: str | None, counted: int) -> "Balloon":
        """The same with a container less."""
        use = self.pods[request.key.pod_id]
        return self._changed(request, group, -1, PodUse(use.milli - request.milli, use.containers - 1, counted))

    def _changed(self, request: Request, group: str | None, number: int, use: PodUse) -> "Balloon":
        pod = request.key.pod_id
        before = self.pods.get(pod, PodUse())
        pods = {**self.pods, pod: use}
        if not use.containers:
            del pods[pod]
        return replace(
            self,
            milli=self.milli - before.counted + use.counted,
            containers=self.containers + number,
            pods=pods,
            namespaces=_counted(self.namespaces, request.namespace, number),
            groups=_counted(self.groups, group, number),
        )


def _counted(counts: Mapping[str, int], name: str | None, number: int) -> Mapping[str, int]:
    if name is None:
        return counts
    found = {**counts, name: counts.get(name, 0) + number}
    if not found[name]:
        del found[name]
    return found


# -- what balloons of a type are made of

Pick = Callable[[BalloonType], str]  # the component of a type that has one of several


def make_balloon(types: Mapping[str, BalloonType], kind: BalloonType, index: int, pick: Pick) -> Balloon:
    """A balloon without CPUs and containers."""
    picked: list[str] = []
    contains: list[str] = []

    def pick_one(composite: BalloonType) -> str:
        picked.append(pick(composite))
        return picked[-1]

    parts = tuple(_parts(types, kind, 1, (0, None), pick_one, contains))
    return Balloon(
        name=f"{kind.name}[{index}]",
        kind=kind,
        index=index,
        parts=parts,
        picked=tuple(picked),
        contains=tuple(contains),
    )


def _parts(
    types: Mapping[str, BalloonType],
    kind: BalloonType,
    share: int,
    limits: tuple[int, int | None],
    pick: Pick,
    contains: list[str],
) -> Iterator[BalloonPart]:
    """The parts, each within the limits of all types that it is a part of."""
    contains.append(kind.name)
    least, most = max(limits[0], kind.min_cpus), limits[1]
    if kind.max_cpus != UNLIMITED:
        own = 0 if kind.max_cpus == NONE_FIT else kind.max_cpus
        most = own if most is None else min(own, most)
    if not kind.components:
        yield BalloonPart(kind=kind, share=share, least=least, most=most)
        return
    balanced = kind.component_creation is ComponentCreation.BALANCE
    names = (pick(kind),) if balanced else kind.components
    number = len(names)
    below = -(-least // number), None if most is None else most // number
    for name in names:
        yield from _parts(types, types[name], share * number, below, pick, contains)
