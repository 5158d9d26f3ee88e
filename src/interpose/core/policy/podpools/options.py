"""Options of the policy podpools, and what is wrong with them on any machine."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from interpose.core.model.text import quoted

RESERVED: Final = "reserved"  # pods of the system, on the reserved CPUs
DEFAULT: Final = "default"  # pods that name no pool, and those that find theirs full
BUILT_IN: Final = (RESERVED, DEFAULT)
UNLIMITED: Final = 0  # as MaxPods
NO_PODS: Final = -1  # as MaxPods

ONE_ONLY: Final = "there is one instance of this pool, Instances cannot change that"
UNREACHABLE: Final = "FillOrder Packed without MaxPods: all pods would go to the first instance"


class FillOrder(StrEnum):
    """Which instance of a pool the next pod goes to."""

    BALANCED = "Balanced"  # the one with the fewest pods
    PACKED = "Packed"  # the one with the most pods that has room
    FIRST_FREE = "FirstFree"  # the first one that has room


class InstanceUnit(StrEnum):
    """What the instances of a pool are counted in."""

    INSTANCES = ""
    CPUS = "CPUs"  # of all instances together
    PERCENT = "%"  # of the CPUs that are not reserved


@dataclass(frozen=True, slots=True, kw_only=True)
class InstanceAmount:
    """How many instances a pool has."""

    number: int = 1
    unit: InstanceUnit = InstanceUnit.INSTANCES

    def __str__(self) -> str:
        return f"{self.number} {self.unit}".strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPool:
    """A pool as configured: so many instances with so many CPUs each."""

    name: str
    cpus: int | None = None  # CPU, of one instance; None: not said
    max_pods: int = UNLIMITED  # MaxPods, of one instance
    instances: InstanceAmount | None = None  # Instances; None: one
    fill_order: FillOrder = FillOrder.BALANCED  # FillOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPoolsOptions:
    """Options of the policy podpools."""

    pin_cpu: bool = True  # PinCPU
    pin_memory: bool = True  # PinMemory
    pools: tuple[PodPool, ...] = ()  # Pools, in the order in which they get their CPUs


def pool_problems(pools: Iterable[PodPool]) -> list[str]:
    """What is wrong with pools whatever machine they are for."""
    found: list[str] = []
    for name, number in Counter(pool.name for pool in pools).items():
        if not name or not name.isprintable():
            found.append(f"{quoted(name)} is no name of a pool")
        if number > 1:
            found.append(f"pool {quoted(name)} is defined {number} times")
    for pool in pools:
        where = f"pool {quoted(pool.name)}: "
        amount = pool.instances or InstanceAmount()
        several = amount.unit is InstanceUnit.INSTANCES and amount.number != 1
        if pool.name in BUILT_IN and several:
            found.append(f"{where}{ONE_ONLY}")
        if pool.name not in BUILT_IN and pool.cpus is None:
            found.append(f"{where}CPU is missing: how many CPUs has an instance?")
        if pool.cpus is not None and pool.cpus < 1:
            found.append(f"{where}CPU: {pool.cpus} is no number of CPUs")
        if pool.name not in BUILT_IN and several and is_unreachable(pool):
            found.append(f"{where}{UNREACHABLE}")
    return found


def is_unreachable(pool: PodPool) -> bool:
    """Whether no pod ever goes to the second instance of a pool."""
    return pool.fill_order is FillOrder.PACKED and pool.max_pods == UNLIMITED
