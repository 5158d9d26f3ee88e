"""Sets of CPUs or memory nodes, as the kernel writes them: "0-3,8".

A set is a value. Invariant: what `str` writes, `CpuSet.parse` reads back to the same set, and two equal sets are the
same text.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from types import MappingProxyType
from typing import Final

from interpose.core.model.text import quoted

# Kernels are built for at most this many CPUs; a larger number is a mistake, and must not become a large set.
MAX_CPUS: Final = 8192
# The longest text of a set, "0-1,3-4,6-7" and so on, fits in; whatever is longer says the same again and again.
MAX_TEXT: Final = 32 * 1024
# So do ranges that together have several times the numbers there are. Refused before anything is made of them.
_MAX_LISTED: Final = 4 * MAX_CPUS

# One element: a number, a range, or the kernel's "the first A of every B numbers of the range".
_ELEMENT = re.compile(r"(\d{1,6})(?:-(\d{1,6})(?::(\d{1,6})/(\d{1,6}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True, repr=False)
class CpuSet:
    """Numbers from 0 to 8191, as the bits of one number: joining the sets of a whole machine is one operation."""

    mask: int = 0

    def __post_init__(self) -> None:
        if self.mask < 0 or self.mask.bit_length() > MAX_CPUS:
            raise ValueError(f"CPU numbers must be from 0 to {MAX_CPUS - 1}")

    @classmethod
    def of(cls, numbers: Iterable[int]) -> "CpuSet":
        """The set of these numbers."""
        mask = 0
        for number in numbers:
            if not 0 <= number < MAX_CPUS:
                raise ValueError(f"CPU numbers must be from 0 to {MAX_CPUS - 1}, found {number}")
            mask |= 1 << number
        return cls(mask)

    @classmethod
    def parse(cls, text: str) -> "CpuSet":
        """Read a kernel list; empty text is the empty set. ValueError that names the text."""
        mask = 0
        for numbers in _ranges(text):
            mask |= _bits(numbers)
        return cls(mask)

    @classmethod
    def union(cls, sets: "Iterable[CpuSet]") -> "CpuSet":
        """The union of any number of sets."""
        mask = 0
        for cpus in sets:
            mask |= cpus.mask
        return cls(mask)

    def __str__(self) -> str:
        return _listed(self.mask)

    def __repr__(self) -> str:
        return f"CpuSet.parse({str(self)!r})"

    def __or__(self, other: "CpuSet") -> "CpuSet":
        return CpuSet(self.mask | other.mask)

    def __and__(self, other: "CpuSet") -> "CpuSet":
        return CpuSet(self.mask & other.mask)

    def __sub__(self, other: "CpuSet") -> "CpuSet":
        return CpuSet(self.mask & ~other.mask)

    def __le__(self, other: "CpuSet") -> bool:
        return not self.mask & ~other.mask

    def __lt__(self, other: "CpuSet") -> bool:
        return self.mask != other.mask and self <= other

    def __ge__(self, other: "CpuSet") -> bool:
        return other <= self

    def __gt__(self, other: "CpuSet") -> bool:
        return other < self

    def __contains__(self, number: object) -> bool:
        return isinstance(number, int) and 0 <= number < MAX_CPUS and bool(self.mask >> number & 1)

    def __iter__(self) -> Iterator[int]:
        rest = self.mask
        while rest:
            lowest = rest & -rest
            yield lowest.bit_length() - 1
            rest ^= lowest

    def __len__(self) -> int:
        return self.mask.bit_count()

    def __bool__(self) -> bool:
        return self.mask != 0


EMPTY: Final = CpuSet()


def _ranges(text: str) -> Iterator[range]:
    """The numbers of a list, element by element."""
    if len(text) > MAX_TEXT:
        raise ValueError(f"{quoted(text)} is not a list of CPUs: it has {len(text)} characters, more than {MAX_TEXT}")
    if not text.strip():
        return
    listed = 0
    for element in text.split(","):
        match = _ELEMENT.fullmatch(element.strip())
        if match is None:
            raise ValueError(f"{quoted(text)} is not a list of CPUs: {quoted(element)} is neither a number nor a range")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first:
            raise ValueError(f"{quoted(text)} is not a list of CPUs: {quoted(element)} ends before it begins")
        if last >= MAX_CPUS:
            raise ValueError(f"{quoted(text)} is not a list of CPUs: {last} is above {MAX_CPUS - 1}")
        listed += last + 1 - first
        if listed > _MAX_LISTED:
            raise ValueError(f"{quoted(text)} is not a list of CPUs: it lists more than {_MAX_LISTED} of them")
        if match[3] is None:
            yield range(first, last + 1)
            continue
        used, size = int(match[3]), int(match[4])
        if not 0 < used <= size:
            raise ValueError(f"{quoted(text)} is not a list of CPUs: {quoted(element)} takes {used} of every {size}")
        # Few long ranges, whichever way round that is.
        if used * size <= last + 1 - first:
            yield from (range(first + offset, last + 1, size) for offset in range(used))
        else:
            yield from (range(start, min(start + used, last + 1)) for start in range(first, last + 1, size))


@lru_cache(maxsize=1024)  # many containers share few sets, and each is written down again and again
def _listed(mask: int) -> str:
    ordered = list(CpuSet(mask))
    breaks = [(last, first) for last, first in pairwise(ordered) if first - last > 1]
    firsts = [*ordered[:1], *(first for _, first in breaks)]
    lasts = [*(last for last, _ in breaks), *ordered[-1:]]
    return ",".join(
        str(first) if first == last else f"{first}-{last}" for first, last in zip(firsts, lasts, strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class NumaCpus:
    """The CPUs of one NUMA node that are online."""

    socket: int
    node: int
    cpus: CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeletCpus:
    """CPUs by the state file of the kubelet's CPU manager."""

    policy: str = ""  # none, static, or empty if unknown
    shared: CpuSet = EMPTY  # what it has not given to a container alone; its reserved CPUs are in it
    assigned: Mapping[str, Mapping[str, CpuSet]] = field(
        default_factory=lambda: MappingProxyType({})
    )  # uid -> container


def _bits(numbers: range) -> int:
    """The mask of a range."""
    if numbers.step == 1:
        return ((1 << len(numbers)) - 1) << numbers.start
    return sum(1 << number for number in numbers)


def name_cpus(cpus: CpuSet) -> str:
    """CPUs in a sentence: CPU 3, CPUs 0-3."""
    return f"CPU {cpus}" if len(cpus) == 1 else f"CPUs {cpus}"
