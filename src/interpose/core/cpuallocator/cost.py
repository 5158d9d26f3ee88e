"""The cost of a candidate set of CPUs, and the candidate as decisions record it.

Costs are compared field by field, the first that differs decides; smaller is better.
"""

from dataclasses import dataclass
from typing import NamedTuple

from interpose.core.model.cpuset import EMPTY, CpuSet


class Cost(NamedTuple):
    """The cost of a set of groups; fields in order of importance."""

    misfit: int = 0  # 0: it is idle and has just as many CPUs as are wanted
    spans: tuple[int, ...] = ()  # how many groups of each narrower level are needed at least, the widest level first
    classes: tuple[int, ...] = ()  # how well it serves the preferred priority
    distance: int = 0  # between the NUMA nodes of it, if there are several
    split: int = 0  # cores that will be shared with others
    broken: int = 0  # those of them that are idle now
    left: tuple[int, ...] = ()  # CPUs that stay free in it, and in each of the wider groups around it
    places: tuple[int, ...] = ()  # of its groups among all of the level: no two are the same

    def text(self, levels: tuple[str, ...]) -> str:
        """The cost as text for people; `levels` are the names for `spans`."""
        parts = [f"{name} {size}" for size, name in zip(self.spans, levels, strict=True)]
        if self.distance:
            parts.append(f"distance {self.distance / 100:g}")
        parts += [f"split cores {self.split}", f"CPUs left {'/'.join(map(str, self.left))}"]
        return ", ".join(parts)

    def explain_difference(self, best: "Cost", levels: tuple[str, ...]) -> str:
        """One sentence on why the candidate with the cost `best` was taken instead."""
        field = next(name for name in self._fields if getattr(self, name) != getattr(best, name))
        if field == "spans":
            at = next(at for at, (mine, other) in enumerate(zip(self.spans, best.spans, strict=True)) if mine != other)
            return f"needs {self.spans[at]} {levels[at]}, not {best.spans[at]}"
        return _DIFFERENCES[field]


_DIFFERENCES = {
    "misfit": "the one taken was idle and has just the size",
    "classes": "its CPUs are less of the wished priority",
    "distance": "its NUMA nodes are farther from each other",
    "split": "more cores would be shared with others",
    "broken": "an idle core would be broken up",
    "left": "more CPUs would be left over in it or around it",
    "places": "just as good, but its CPUs have higher numbers",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A set of CPUs that a decision could have taken."""

    name: str  # "NUMA node 1", "isolated CPUs", "pool shared"
    cpus: CpuSet = EMPTY
    score: str = ""  # comparable at a glance, best first in the list
    chosen: bool = False
    reason: str = ""  # why it was taken or passed over
