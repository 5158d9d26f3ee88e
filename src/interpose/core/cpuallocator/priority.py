"""Which CPUs are faster than others of their package, and the order in which they are taken.

Classes are derived from what a core was built for, else from base frequencies. The energy preference and speed select
settings of some processors would tell more; a topology does not have them.
"""

from collections.abc import Mapping, Sequence
from enum import StrEnum

from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.topology import CoreKind, Cpu, Topology


class CpuPriority(StrEnum):
    """A class of CPUs; as a preference, the class to take from first."""

    HIGH = "high"
    NORMAL = "normal"
    LOW = "low"
    NONE = "none"  # as a preference: any; no CPU is in it


CLASSES = (CpuPriority.HIGH, CpuPriority.NORMAL, CpuPriority.LOW)

# What is taken in place of the preferred class: less than that first, and more than that last.
ORDER: Mapping[CpuPriority, tuple[CpuPriority, ...]] = {
    CpuPriority.HIGH: (CpuPriority.HIGH, CpuPriority.NORMAL, CpuPriority.LOW),
    CpuPriority.NORMAL: (CpuPriority.NORMAL, CpuPriority.LOW, CpuPriority.HIGH),
    CpuPriority.LOW: (CpuPriority.LOW, CpuPriority.NORMAL, CpuPriority.HIGH),
    CpuPriority.NONE: (),
}


def priority_classes(topology: Topology) -> Mapping[CpuPriority, CpuSet]:
    """The CPUs of each class, compared within their package: where all are alike, all are normal."""
    packages: dict[int, list[Cpu]] = {}
    for cpu in topology.cpus:
        packages.setdefault(cpu.package, []).append(cpu)
    found: dict[CpuPriority, list[int]] = {kind: [] for kind in CLASSES}
    for cpus in packages.values():
        better = _better(cpus)
        for cpu in cpus:
            kind = CpuPriority.NORMAL
            if better:
                kind = CpuPriority.HIGH if cpu.id in better else CpuPriority.LOW
            found[kind].append(cpu.id)
    return {kind: CpuSet.of(cpus) for kind, cpus in found.items()}


def _better(cpus: Sequence[Cpu]) -> frozenset[int]:
    """Those of a package that are faster than its slowest ones; empty if that is unknown."""
    if len({cpu.kind for cpu in cpus}) > 1:
        return frozenset(cpu.id for cpu in cpus if cpu.kind is CoreKind.PERFORMANCE)
    slowest = min(cpu.base_khz for cpu in cpus)
    # A CPU of unknown frequency cannot be compared, nor can the others with it.
    return frozenset(cpu.id for cpu in cpus if cpu.base_khz > slowest) if slowest else frozenset()


def preference(prefer: CpuPriority, sizes: Sequence[int], count: int) -> tuple[int, ...]:
    """How well CPUs serve a preference that is not NONE: the smaller, the better.

    `sizes`: how many there are of the classes high, normal, low. As many as wanted of the preferred class and few more
    is best; too few are the better the more; then the more of lower classes the better, and the fewer of higher ones.
    """
    place = CLASSES.index(prefer)
    size = sizes[place]
    fit = (0, size) if size >= count else (1, -size)
    return (*fit, *(-size for size in sizes[place + 1 :]), *sizes[:place])
