"""What is asked of the memory allocator, and what it answers."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.request import Key
from interpose.core.topology.topology import MemoryKind


class NotEnoughMemoryError(ValueError):
    """More memory is wanted than there is where it may be."""


class MemoryPriority(IntEnum):
    """The rank of a request: when memory is short, lower ones make room for higher ones."""

    BEST_EFFORT = 0
    BURSTABLE = 1 << 10
    GUARANTEED = 1 << 14
    PRESERVED = (1 << 15) - 2  # its nodes are somebody else's choice: changed only when nothing else helps
    RESERVATION = (1 << 15) - 1  # never changed


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """An amount of memory that is wanted near some nodes.

    Without kinds it is those of the nodes. A kind that the machine does not have is ignored, unless the request is
    `strict`: then it gets the kinds it names or nothing, now and later.
    """

    key: Key
    nodes: CpuSet
    kinds: frozenset[MemoryKind] = frozenset()
    amount: int = 0  # bytes
    priority: MemoryPriority
    strict: bool = False

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError(f"an amount of memory is not negative, found {self.amount}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryOffer:
    """The nodes that a request would have now, and their kinds."""

    zone: CpuSet
    kinds: frozenset[MemoryKind]


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryChange:
    """The nodes that a request has now, and the new nodes of others that made room for it."""

    zone: CpuSet
    moved: Mapping[Key, CpuSet]
