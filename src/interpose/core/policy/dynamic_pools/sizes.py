"""How many CPUs each pool has: at least what its containers request, and all CPUs together.

Sizes are by name of the pool, pool shared first. The sum of all sizes is `total`, which is at least the sum of all
needs.
"""

from collections.abc import Mapping
from typing import Final

_BUSY: Final = 0.9  # the part of its CPUs that a pool uses when it has too few


def sizes_after_change(needs: Mapping[str, int], sizes: Mapping[str, int], total: int) -> dict[str, int]:
    """The sizes nearest to those that there are.

    What a pool lacks comes from the first pool while that has more than it needs, then from the one with most to spare.
    """
    found = {name: max(sizes[name], need) for name, need in needs.items()}
    first, *others = found
    excess = sum(found.values()) - total
    if excess < 0:
        found[first] -= excess
    while excess > 0:
        spare = {name: found[name] - needs[name] for name in found}
        giver = first if spare[first] else max(others, key=spare.__getitem__)
        number = min(excess, spare[giver]) if giver == first else 1
        found[giver] -= number
        excess -= number
    return found


def sizes_by_load(needs: Mapping[str, int], weights: Mapping[str, int], total: int) -> dict[str, int]:
    """What is needed, and of all other CPUs a share by weight; what rounding leaves goes to the heaviest pool."""
    free, whole = total - sum(needs.values()), sum(weights.values())
    found = {name: need + (free * weights[name] // whole if whole else 0) for name, need in needs.items()}
    found[max(weights, key=weights.__getitem__)] += total - sum(found.values())
    return found


def is_worth_moving(before: Mapping[str, int], after: Mapping[str, int], loads: Mapping[str, float]) -> bool:
    """Whether pools shall follow their loads: a single CPU moves only to a pool that uses nearly all it has.

    Loads are never the same twice, and each move is an update of all containers of two pools.
    """
    growing = {name: after[name] - before[name] for name in before if after[name] > before[name]}
    return sum(growing.values()) > 1 or any(loads[name] >= _BUSY * before[name] for name in growing)
