"""What finding memory nodes costs: 500 requests, on machines that are half full and nearly full.

Requests come until there are 500, then one after the other is allocated anew with another amount, in an order of chance
that is the same in every run. They want one node or two that are neighbours, and have the priorities of the three
classes of pods in equal parts. Every call is timed by itself, by CPU time. The table goes to stdout.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Final

from interpose.core.memoryallocator.allocator import MemoryAllocator
from interpose.core.memoryallocator.request import MemoryPriority, MemoryRequest, NotEnoughMemoryError
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.request import Key
from tests.support.policy.machines import machine

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interpose.core.topology.topology import Topology

# The first has four nodes with CPUs and two of persistent memory.
MACHINES: Final = ("server", "4 sockets x 2 numa x 16 cores; memory 64Gi", "8 sockets x 2 numa x 8 cores; memory 64Gi")
FILLS: Final = (50, 97)  # percent of the memory that all requests together want
REQUESTS: Final = 500
TURNS: Final = 2000
P99_LIMIT: Final = 0.001  # seconds
SEED: Final = 1
CLASSES: Final = (MemoryPriority.BEST_EFFORT, MemoryPriority.BURSTABLE, MemoryPriority.GUARANTEED)


@dataclass(kw_only=True)
class Found:
    """Seconds of each call, how many others were moved by them, and how many were refused."""

    calls: list[float] = field(default_factory=list)
    moved: int = 0
    refused: int = 0

    def at(self, part: float) -> float:
        """The time that this part of all calls did not exceed."""
        return sorted(self.calls)[min(len(self.calls) - 1, int(part * len(self.calls)))]


def measure(topology: Topology, fill: int, requests: int, turns: int) -> Found:
    """Time the calls after all requests have come."""
    random = Random(SEED)
    allocator = MemoryAllocator(topology)
    near = [node.id for node in topology.nodes if node.cpus]
    mean = allocator.capacity(CpuSet.of(node.id for node in topology.nodes)) * fill // 100 // requests
    found = Found()
    for turn in range(requests + turns):
        node = random.choice(near)
        request = MemoryRequest(
            key=Key("pod", str(turn if turn < requests else random.randrange(requests))),
            nodes=CpuSet.of({node, random.choice((node, node ^ 1))}),
            amount=random.randrange(2 * mean),
            priority=random.choice(CLASSES),
        )
        began = time.thread_time()
        try:
            moved = len(allocator.allocate(request).moved)
        except NotEnoughMemoryError:
            moved = 0
            found.refused += 1
        if turn >= requests:
            found.calls.append(time.thread_time() - began)
            found.moved += moved
    return found


def as_text(found: Sequence[tuple[str, int, Found]]) -> str:
    """A table of machines."""
    titles = ("nodes", "full %", "calls", "moved", "refused", "p50 us", "p99 us", "max us")
    lines = ["".join(f"{title:>8}" for title in titles) + "  target"]
    for nodes, fill, times in found:
        p50, p99, most = (f"{seconds * 1e6:.0f}" for seconds in (times.at(0.5), times.at(0.99), max(times.calls)))
        verdict = f"p99 <= {P99_LIMIT * 1e3:.0f} ms {'met' if times.at(0.99) <= P99_LIMIT else 'MISSED'}"
        cells = (nodes, fill, len(times.calls), times.moved, times.refused, p50, p99, most)
        lines.append("".join(f"{cell:>8}" for cell in cells) + f"  {verdict}")
    return "\n".join(lines)


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench/memory_zones.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--requests", type=int, default=REQUESTS, help=f"on the machine ({REQUESTS})")
    parser.add_argument("--turns", type=int, default=TURNS, help=f"that are allocated anew ({TURNS})")
    args = parser.parse_args(argv)
    found = []
    for name in MACHINES:
        topology = machine(name)
        found += [
            (str(len(topology.nodes)), fill, measure(topology, fill, args.requests, args.turns)) for fill in FILLS
        ]
    print(as_text(found))
    return 0 if all(times.at(0.99) <= P99_LIMIT for _, _, times in found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
