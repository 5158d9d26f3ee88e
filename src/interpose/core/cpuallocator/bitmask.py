"""CPU sets as plain numbers: what the inner loops of allocation count with.

Everything here works on the masks of `CpuSet`; the caller puts the result back into one.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

from interpose.core.topology.topology import Topology

_Made = TypeVar("_Made")


def lowest_bits(mask: int, count: int) -> int:
    """The lowest bits, so many of them; all if there are not more."""
    if mask.bit_count() <= count:
        return mask
    found = 0
    for _ in range(count):
        bit = mask & -mask
        found |= bit
        mask ^= bit
    return found


def lowest_index(mask: int) -> int:
    """The number of the lowest bit."""
    return (mask & -mask).bit_length() - 1


def iterate_bits(mask: int) -> Iterator[int]:
    """Every bit as a mask of its own, lowest first."""
    while mask:
        bit = mask & -mask
        yield bit
        mask ^= bit


def compute_once(topology: Topology, make: Callable[[Topology], _Made]) -> _Made:
    """The result of `make` for a topology, computed once for each topology.

    It is cached where the topology keeps the sets it computed itself, and goes when the topology goes.
    """
    made = vars(topology)
    name = f"{make.__module__}.{make.__qualname__}"
    if name not in made:
        made[name] = make(topology)
    found: _Made = made[name]
    return found
