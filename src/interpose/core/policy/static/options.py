"""Options of the policies static and static-plus."""

from dataclasses import dataclass, fields
from typing import Final

_FORBIDDEN: Final = (
    ("distribute_cpus_across_cores", "full_pcpus_only"),
    ("distribute_cpus_across_cores", "distribute_cpus_across_numa"),
    ("distribute_cpus_across_cores", "prefer_align_cpus_by_uncorecache"),
    ("prefer_align_cpus_by_uncorecache", "distribute_cpus_across_numa"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticOptions:
    """Options of the policy static.

    Those after the first two are the kubelet's, with its names in files: full-pcpus-only and so on. `lift_quota` is
    its feature gate DisableCPUQuotaWithExclusiveCPUs.
    """

    relaxed_isolation: bool = False  # RelaxedIsolation: isolated CPUs first, whoever asks
    pin_memory: bool = False  # PinMemory: memory nodes next to CPUs of one's own
    lift_quota: bool = True  # no CFS quota with CPUs of one's own
    full_pcpus_only: bool = False
    strict_cpu_reservation: bool = False
    prefer_align_cpus_by_uncorecache: bool = False
    distribute_cpus_across_numa: bool = False
    align_by_socket: bool = False
    distribute_cpus_across_cores: bool = False


def contradictions(options: StaticOptions) -> list[str]:
    """Every two options that cannot both be true, by their names in files."""
    on = {item.name for item in fields(options) if getattr(options, item.name)}
    return [f"{_key(name)} and {_key(other)} cannot both be true" for name, other in _FORBIDDEN if {name, other} <= on]


def _key(name: str) -> str:
    return name.replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPlusOptions:
    """Options of the policy static-plus."""

    pin_memory: bool = False  # PinMemory
    lift_quota: bool = True  # DisableCPUQuotaWithExclusiveCPUs
