"""What the resource manager works with: one value, checked as a whole before anything of it takes effect."""

from dataclasses import dataclass
from typing import Any

from interpose.core.model.cpuset import CpuSet


@dataclass(frozen=True, slots=True, kw_only=True)
class Configuration:
    """A policy and everything it is made of but the machine."""

    policy: str  # a name, no alias
    available: CpuSet | None = None
    reserved: CpuSet | int | None = None  # CPUs, or thousandths of one
    options: Any = None  # of this policy, typed and complete
    origin: str = ""  # where it comes from, for people
    notes: tuple[str, ...] = ()  # parts of its document that something else overrides
    stands_in: tuple[
        str, ...
    ] = ()  # why another one should be in force and cannot; containers keep what that gave them
