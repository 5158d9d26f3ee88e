"""Which CPUs of the cores at hand: whole idle cores first, then cores that others use already.

A core of which only a part is taken is *split*: somebody else gets, or has, the rest of it. A split core that was idle
before is *broken*. In this order few of both are wanted. `split_cores` counts without taking, for comparing places;
`fill` takes.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate

from interpose.core.cpuallocator.bitmask import lowest


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


def least(sizes: Sequence[int], count: int) -> int:
    """How many of these, which begin with the largest, are needed for so many CPUs; they have enough."""
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
            taken |= lowest(core & pool & ~taken, count - taken.bit_count())
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
            taken |= lowest(min(fitting, key=int.bit_count), need)
        else:
            most = max(used, key=int.bit_count)
            used.remove(most)
            taken |= most
    return taken
