"""What a container wants of its pool: CPUs of its own or a share, of which kind, and which memory.

It follows from the class of its pod, its CPU request, annotations and options, and from little that changes while the
container lives: the same container wants the same after a restart. An annotation that cannot be read is a ValueError
that names it, never a missing one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final

from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.cgroup import KubeQos
from interpose.core.policy.annotations import PolicyAnnotation, find_annotation, prefers_isolated
from interpose.core.policy.expressions import matches_glob
from interpose.core.policy.request import Request
from interpose.core.policy.topology_aware.options import PoolLevel, TopologyAwareOptions
from interpose.core.policy.topology_aware.yaml_values import read_yaml
from interpose.core.topology.topology import MemoryKind

SYSTEM_NAMESPACE: Final = "kube-system"
MAX_COLD_START: Final = 3600  # seconds
# Annotations about what other programs set; here they are only pointed out.
UNUSED_ANNOTATIONS: Final = ("cpu-class", "scheduling-class", "irq-affinity", "rdtclass", "blockioclass")

_USUAL_KINDS: Final = frozenset((MemoryKind.DRAM, MemoryKind.PMEM))
_MIXED: Final = "mixed"  # every kind of memory
_DEFAULT: Final = "default"  # the priority that the options say
_DURATION_UNITS: Final[Mapping[str, float]] = MappingProxyType({"ms": 0.001, "s": 1, "m": 60, "h": 3600})


class CpuOffer(StrEnum):
    """The supply that a container has its CPUs of."""

    NORMAL = "normal"
    RESERVED = "reserved"
    PRESERVED = "preserved"  # none: its CPUs are left alone


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuWish:
    """The CPUs that a container wants."""

    offer: CpuOffer = CpuOffer.NORMAL
    full: int = 0  # CPUs of its own
    part: int = 0  # thousandths of shared CPUs
    rest: int = 0  # thousandths that are booked with it, as its pod asks for more than its containers
    why: str  # why it is so, in a few words
    isolate: bool = False  # rather isolated CPUs
    isolated_only: bool = False

    @property
    def milli(self) -> int:
        """What it uses of the shared CPUs of its pool: with none of its own a thousandth at least."""
        booked = self.part + self.rest
        return booked if self.full else max(1, booked)

    @property
    def own(self) -> int:
        """All that it asks for itself, in thousandths of a CPU."""
        return 1000 * self.full + self.part

    @property
    def shares(self) -> bool:
        """Whether it runs on shared CPUs."""
        return not self.full or bool(self.part)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryWish:
    """The memory that a container wants."""

    kinds: frozenset[MemoryKind] = frozenset()
    preserved: bool = False  # its memory nodes are left alone
    cold_start: float = 0  # seconds without DRAM


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerWish:
    """All that a container wants."""

    cpu: CpuWish
    memory: MemoryWish = MemoryWish()
    priority: CpuPriority = CpuPriority.NONE
    hide_siblings: bool = False  # one thread of each core only
    level: PoolLevel | None = None  # of a Burstable container without CPU limit
    limit: int | None = None  # CPU limit of a Burstable container
    strict_hints: bool = False
    by_hints: bool = False  # CPUs of its own near each of its devices


class WishReader:
    """Reads what containers want; `kinds` is the memory of the machine."""

    def __init__(self, options: TopologyAwareOptions, kinds: frozenset[MemoryKind]) -> None:
        self._options = options
        self._kinds = kinds

    def read(self, request: Request, own_left: int = 0) -> ContainerWish:
        """What a container wants; ValueError if one of its annotations cannot be used.

        `own_left`: how many CPUs of their own the containers of its pod may have yet, if the pod says what it needs as
        a whole.
        """
        cpu = self._cpus(request, own_left)
        burstable = cpu.offer is CpuOffer.NORMAL and request.qos is KubeQos.BURSTABLE
        limit = request.amounts.limit_milli if burstable else None
        memory = self._memory(request)
        return ContainerWish(
            cpu=cpu,
            memory=memory,
            priority=self._priority(request) if cpu.full else CpuPriority.NONE,
            hide_siblings=_flag(request, "hide-hyperthreads"),
            level=self._level(request) if burstable and limit is None else None,
            limit=limit,
            strict_hints=_flag(request, "strict.topologyhints"),
            by_hints=_flag(request, "pick-resources-by-hints"),
        )

    # -- CPUs

    def _cpus(self, request: Request, own_left: int) -> CpuWish:
        milli = request.milli
        preserve, reserved = _find(request, "cpu.preserve"), _find(request, "prefer-reserved-cpus")
        if preserve is not None and preserve.flag():
            return CpuWish(offer=CpuOffer.PRESERVED, why=f"annotation {preserve.key}")
        if reserved is not None and reserved.flag():
            return CpuWish(offer=CpuOffer.RESERVED, part=milli, why=f"annotation {reserved.key}")
        if reserved is None and (pattern := self._system_pattern(request.namespace)):
            one_of = "" if pattern == request.namespace else f" is one of {pattern}"
            return CpuWish(offer=CpuOffer.RESERVED, part=milli, why=f"namespace {request.namespace}{one_of}")
        if not milli:
            return CpuWish(why="it asks for no CPU")
        if request.qos is not KubeQos.GUARANTEED:
            return CpuWish(part=milli, why=f"its pod is {request.qos}")
        full, part = divmod(milli, 1000)
        if not full:
            return CpuWish(part=milli, why="it asks for less than one CPU")
        return self._own_cpus(request, full, part, own_left)

    def _own_cpus(self, request: Request, full: int, part: int, own_left: int) -> CpuWish:
        """What a Guaranteed container wants that asks for whole CPUs and perhaps for a part of one."""
        isolate, isolated_said, isolated_only = self._isolated(request)
        found = _find(request, "prefer-shared-cpus")
        share = bool(self._options.prefer_shared) if found is None else found.flag()
        # A part and several CPUs: shared, unless an annotation says otherwise.
        if share or (full > 1 and part and found is None):
            why = "not a whole number of CPUs" if not share else "the options prefer shared CPUs"
            return CpuWish(part=request.milli, why=why if found is None else f"annotation {found.key}")
        if why := _explain_pod_limit(request, full, part, own_left):
            return CpuWish(part=request.milli, why=why)
        wanted = isolated_only or (isolate and (full == 1 or isolated_said))
        return CpuWish(full=full, part=part, why="Guaranteed", isolate=wanted, isolated_only=isolated_only)

    def _system_pattern(self, namespace: str) -> str:
        patterns = (SYSTEM_NAMESPACE, *self._options.reserved_namespaces)
        return next((pattern for pattern in patterns if matches_glob(pattern, namespace)), "")

    def _isolated(self, request: Request) -> tuple[bool, bool, bool]:
        """Whether it would rather have isolated CPUs, whether its pod says so, and whether it wants no others."""
        required, preferred = _find(request, "require-isolated-cpus"), _find(request, "prefer-isolated-cpus")
        if required is not None and (preferred is None or required.scope >= preferred.scope):
            return required.flag(), True, required.flag()
        said = prefers_isolated(request) if preferred is None else preferred.flag()  # the former reads older spellings
        return (self._options.prefer_isolated, False, False) if said is None else (said, True, False)

    def _priority(self, request: Request) -> CpuPriority:
        found = _find(request, "prefer-cpu-priority")
        word = _DEFAULT if found is None else found.choice((*(kind.value for kind in CpuPriority), _DEFAULT))
        return self._options.cpu_priority if word == _DEFAULT else CpuPriority(word)

    def _level(self, request: Request) -> PoolLevel:
        found = _find(request, "unlimited-burstable")
        if found is None:
            return self._options.unlimited_burstable
        return PoolLevel(found.choice(level.value for level in PoolLevel))

    # -- memory

    def _memory(self, request: Request) -> MemoryWish:
        found, usual = _find(request, "memory-type"), _USUAL_KINDS & self._kinds
        kinds = usual
        if found is not None:
            words = found.choices((*(kind.value for kind in MemoryKind if kind is not MemoryKind.NONE), _MIXED))
            named = MemoryKind if _MIXED in words else map(MemoryKind, words)
            kinds = frozenset(named) & self._kinds or usual
        cold = _find(request, "cold-start")
        seconds = 0.0 if cold is None else _cold_start(cold)
        return MemoryWish(
            kinds=kinds,
            preserved=_flag(request, "memory.preserve"),
            cold_start=seconds if kinds >= _USUAL_KINDS else 0,
        )


def _find(request: Request, name: str) -> PolicyAnnotation | None:
    return find_annotation(request, name) if request.pod_annotations else None


def _flag(request: Request, name: str) -> bool:
    found = _find(request, name)
    return found is not None and found.flag()


def find_unused(request: Request) -> list[str]:
    """Annotations that hold for a container and have no effect here."""
    found = (_find(request, name) for name in UNUSED_ANNOTATIONS)
    return [annotation.key for annotation in found if annotation is not None]


def _explain_pod_limit(request: Request, full: int, part: int, own_left: int) -> str:
    """Why a container of a pod that says what it needs as a whole has no CPUs of its own; empty if it may."""
    if request.pod_amounts is None:
        return ""
    if part or request.amounts.limit_milli != request.milli:
        return "its pod asks for CPUs as a whole"
    return "" if full <= own_left else f"its pod as a whole may have {own_left} more CPUs of its own"


def _cold_start(found: PolicyAnnotation) -> float:
    """The duration in seconds; ValueError unless it is more than nothing and at most an hour."""
    values = read_yaml(found.text, f"annotation {found.key}")
    text = values.get("duration") if isinstance(values, Mapping) and set(values) == {"duration"} else None
    if not isinstance(text, str):
        raise found.error("is not of the form {duration: 60s}")
    number = text.rstrip("msh")
    unit = _DURATION_UNITS.get(text[len(number) :])
    if unit is None or not number.replace(".", "", 1).isdecimal():
        raise found.error("has no duration such as 60s")
    if not 0 < float(number) * unit <= MAX_COLD_START:
        raise found.error(f"has no duration above 0 and up to {MAX_COLD_START} seconds")
    return float(number) * unit
