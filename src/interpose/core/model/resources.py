"""What a container or pod is given: CPU time, CPUs, memory.

Field names and meanings are those of the CRI message, where zero and empty mean "not set". A value is never changed:
`overlay` makes a new one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Final

INT64: Final = range(-(1 << 63), 1 << 63)  # what a number of CRI can be
_EMPTY: Mapping[str, str] = MappingProxyType({})


def empty_map() -> Mapping[str, str]:
    """The empty map that all records share; it cannot be changed."""
    return _EMPTY


@dataclass(frozen=True, slots=True, kw_only=True)
class LinuxResources:
    """Resources of Linux. Huge page limits are (page size, bytes) in the order they were given."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit_in_bytes: int = 0
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    hugepage_limits: tuple[tuple[str, int], ...] = ()
    unified: Mapping[str, str] = field(default_factory=empty_map)
    memory_swap_limit_in_bytes: int = 0

    def overlay(self, patch: "LinuxResources") -> "LinuxResources":
        """These resources after an update, as runtimes do it: what the patch does not set stays.

        Huge pages and unified merge by key.
        """
        changed: dict[str, Any] = {name: value for name in FIELDS if (value := getattr(patch, name))}
        if "unified" in changed:
            changed["unified"] = {**self.unified, **patch.unified}
        if "hugepage_limits" in changed:
            changed["hugepage_limits"] = tuple((dict(self.hugepage_limits) | dict(patch.hugepage_limits)).items())
        return replace(self, **changed) if changed else self

    def differing(self, other: "LinuxResources") -> tuple[str, ...]:
        """Names of the fields in which two values differ."""
        return tuple(name for name in FIELDS if getattr(self, name) != getattr(other, name))


FIELDS: tuple[str, ...] = tuple(item.name for item in fields(LinuxResources))
NO_RESOURCES = LinuxResources()
# Numbers and texts; the others have keys.
SCALARS: tuple[str, ...] = tuple(name for name in FIELDS if isinstance(getattr(NO_RESOURCES, name), int | str))
