"""How much memory a NUMA node has left.

Left is what is free and what the kernel frees when somebody needs it: pages of files and caches of its own. That is the
kernel's own estimate for a whole machine without the small part it keeps for itself; for a node it does not give one.
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from interpose.core.model.cpuset import CpuSet

_LINE: Final = re.compile(r"([A-Za-z]+(?:\([a-z]+\))?):\s+([0-9]{1,15}) kB", re.ASCII)
_HUGE: Final = re.compile(r"hugepages-([0-9]{1,9})kB", re.ASCII)
_COUNT: Final = re.compile(r"[0-9]{1,12}", re.ASCII)
_LEFT: Final = ("MemFree", "Active(file)", "Inactive(file)", "SReclaimable")
# A node is short with less than a twentieth of its memory, but 4 GiB are enough of any: it is looked at every second,
# and hardly a program fills so much in that time.
_SHARE: Final = 20
_ENOUGH: Final = 4 << 30


class NodeMemory(NamedTuple):
    """The memory of a node in bytes."""

    total: int  # without huge pages
    left: int

    @property
    def is_short(self) -> bool:
        """Whether the node may be full before it is looked at again."""
        return self.left < min(self.total // _SHARE, _ENOUGH)


def parse_node_memory(text: str, huge_pages: Mapping[str, str] = MappingProxyType({})) -> NodeMemory | None:
    """The memory of a node by its file `meminfo`; None if that does not say how much is free, or there is none.

    `huge_pages` are how many there are, by the name of their folder, such as hugepages-2048kB. Their memory is set
    aside and does not count: a node that is nearly all huge pages is not short for that.
    """
    values = {match[1]: int(match[2]) * 1024 for match in _LINE.finditer(text)}
    total = values.get("MemTotal", 0) - sum(_huge_bytes(name, number) for name, number in huge_pages.items())
    if total <= 0 or "MemFree" not in values:
        return None
    return NodeMemory(total, sum(values.get(name, 0) for name in _LEFT))


def _huge_bytes(name: str, number: str) -> int:
    size, count = _HUGE.fullmatch(name), _COUNT.fullmatch(number.strip())
    return int(size[1]) * 1024 * int(count[0]) if size and count else 0


def starves(zone: CpuSet, nodes: Mapping[int, NodeMemory]) -> bool:
    """Whether all nodes of a zone are short while another one is not. A node of which nothing is known is not short."""
    return all(node in nodes and nodes[node].is_short for node in zone) and has_room_elsewhere(zone, nodes)


def has_room_elsewhere(zone: CpuSet, nodes: Mapping[int, NodeMemory]) -> bool:
    """Whether a node that is not in the zone is known not to be short."""
    return any(not memory.is_short for node, memory in nodes.items() if node not in zone)
