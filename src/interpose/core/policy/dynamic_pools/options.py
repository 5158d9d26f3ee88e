"""Options of the policy dynamic-pools, and what is wrong with them on any machine."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.model.text import quoted

RESERVED: Final = "reserved"  # pods of the system, on the reserved CPUs
SHARED: Final = "shared"  # containers of no other pool


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicPoolType:
    """A pool as configured; it has CPUs as long as it has containers."""

    name: str
    namespaces: tuple[str, ...] = ()  # Namespaces, of its containers; globs
    priority: CpuPriority = CpuPriority.HIGH  # AllocatorPriority: which CPUs it would rather have
    cpu_class: str = ""  # CpuClass


@dataclass(frozen=True, slots=True, kw_only=True)
class DynamicPoolsOptions:
    """Options of the policy dynamic-pools."""

    pin_cpu: bool = True  # PinCPU
    pin_memory: bool = True  # PinMemory
    reserved_namespaces: tuple[str, ...] = ()  # ReservedPoolNamespaces; globs
    types: tuple[DynamicPoolType, ...] = ()  # DynamicPoolTypes


def type_problems(types: Iterable[DynamicPoolType]) -> list[str]:
    """What is wrong with pools whatever machine they are for."""
    found = []
    for name, number in Counter(pool.name for pool in types).items():
        if not name or not name.isprintable():
            found.append(f"{quoted(name)} is no name of a pool")
        if number > 1:
            found.append(f"pool {quoted(name)} is defined {number} times")
    return found
