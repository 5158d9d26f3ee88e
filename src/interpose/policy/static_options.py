"""Options of the policies static and static-plus."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticOptions:
    """Of static. Those after the first two are the kubelet's, with its names in files: full-pcpus-only and so on."""

    relaxed_isolation: bool = False  # RelaxedIsolation: isolated CPUs first, whoever asks
    pin_memory: bool = False  # PinMemory: memory nodes next to CPUs of one's own
    full_pcpus_only: bool = False
    strict_cpu_reservation: bool = False
    prefer_align_cpus_by_uncorecache: bool = False
    distribute_cpus_across_numa: bool = False
    align_by_socket: bool = False
    distribute_cpus_across_cores: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPlusOptions:
    """Of static-plus."""

    pin_memory: bool = False  # PinMemory
