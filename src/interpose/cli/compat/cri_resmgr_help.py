"""What cri-resmgr prints instead of running: its flags, the policies, the keys of policy documents. Pure."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Final

from interpose.cli.compat.cri_resmgr_flags import FLAGS, flag_lines
from interpose.cli.compat.cri_resmgr_line import SOURCES
from interpose.core.policy.names import POLICIES

PROGRAM: Final = "cri-resmgr"

# Keys of policy documents by module.
MODULES: Final[Mapping[str, Mapping[str, str]]] = MappingProxyType(
    {
        "policy": {
            "Active": "the policy: " + ", ".join(policy.name for policy in POLICIES),
            "ReservedResources": "CPU: CPUs for the system and for Kubernetes (1, 750m, cpuset:0-1, cgroup:DIR)",
            "AvailableResources": "CPU: CPUs that may be given out (cpuset:1-7, cgroup:DIR)",
        },
        "policy.none": {},
        "policy.static": {
            "RelaxedIsolation": "isolated CPUs first, whoever asks (false)",
            "PinMemory": "memory nodes next to CPUs of one's own (false)",
            "DisableCPUQuotaWithExclusiveCPUs": "no CFS quota with CPUs of one's own, as kubelets since 1.33 (true)",
            "CPUManagerPolicyOptions": "options of the kubelet's CPU manager, such as full-pcpus-only: true",
            "Rdt": "has no effect",
        },
        "policy.static-plus": {
            "PinMemory": "memory nodes next to CPUs of one's own (false)",
            "DisableCPUQuotaWithExclusiveCPUs": "no CFS quota with CPUs of one's own, as kubelets since 1.33 (true)",
        },
        "policy.static-pools": {
            "pools": "NAME: {exclusive: true, cpuLists: [{Cpuset: 8-9, Socket: 1}]}",
            "ConfFilePath": "file with pools, if there are none here",
            "ConfDirPath": "directory with pools as CMK makes it, if there is no file either (/etc/cmk)",
            "LabelNode": "label the node for CMK (false)",
            "TaintNode": "taint the node for CMK (false)",
        },
        "policy.topology-aware": {
            "PinCPU": "containers run on the CPUs of their pool only (true)",
            "PinMemory": "memory nodes of the pool (true)",
            "PreferIsolatedCPUs": "isolated CPUs for containers that ask for one (true)",
            "PreferSharedCPUs": "CPUs of one's own on request only (false)",
            "ColocatePods": "containers of a pod near each other (false)",
            "ColocateNamespaces": "containers of a namespace near each other (false)",
            "ReservedPoolNamespaces": "namespaces on the reserved CPUs, besides kube-system: [monitoring, infra-*]",
            "DefaultCPUPriority": "of CPUs of one's own: high, normal, low or none (none)",
            "UnlimitedBurstable": "level of Burstable containers without CPU limit, system to l3cache (package)",
            "DisableCPUQuotaWithExclusiveCPUs": "no CFS quota with CPUs of one's own, as kubelets since 1.33 (true)",
            **dict.fromkeys(
                (
                    "SchedulingClasses",
                    "NamespaceSchedulingClasses",
                    "PodQoSSchedulingClasses",
                    "CPUClasses",
                    "SharedPoolCPUClass",
                    "ReservedPoolCPUClass",
                    "DefaultExclusiveCPUClass",
                    "ControllableInterrupts",
                ),
                "has no effect",
            ),
        },
        "policy.podpools": {
            "PinCPU": "containers run on the CPUs of their pool only (true)",
            "PinMemory": "memory nodes next to the CPUs of the pool (true)",
            "Pools": "[{Name: dual, CPU: 2, MaxPods: 3, Instances: 50 %, FillOrder: Packed}]",
        },
        "policy.dynamic-pools": {
            "PinCPU": "containers run on the CPUs of their pool only (true)",
            "PinMemory": "memory nodes next to the CPUs of the pool (true)",
            "ReservedPoolNamespaces": "namespaces on the reserved CPUs, besides kube-system: [monitoring, infra-*]",
            "IdleCPUClass": "has no effect",
            "DynamicPoolTypes": "[{Name: batch, Namespaces: [batch-*], AllocatorPriority: 2}]",
        },
        "policy.balloons": {
            "pinCPU": "containers run on the CPUs of their balloon only (true)",
            "pinMemory": "memory nodes next to the CPUs of the balloon (true)",
            "reservedPoolNamespaces": "namespaces of balloon reserved, besides kube-system: [monitoring, infra-*]",
            "allocatorTopologyBalancing": "balloons keep away from each other (false)",
            "preferSpreadOnPhysicalCores": "CPUs of a balloon are on cores of their own (false)",
            "DisableCPUQuotaWithExclusiveCPUs": "no CFS quota for one that is alone in its balloon (true)",
            "preserve": "{matchExpressions: [{key: namespace, operator: Equals, values: [legacy]}]}",
            "loadClasses": "[{name: avx, level: core}]",
            "balloonTypes": "[{Name: team, Namespaces: [team-*], MinCPUs: 2, MaxCPUs: 8}]",
            **dict.fromkeys(
                (
                    "idleCPUClass",
                    "cpuClasses",
                    "turboDomain",
                    "schedulingClasses",
                    "controllableInterrupts",
                    "showContainersInNrt",
                ),
                "has no effect",
            ),
        },
        "policy.external": {
            "EntryPoint": "name of an entry point of an installed package, in the group interpose.policies",
            "Options": "keys that the policy of the package defines",
        },
    }
)


def help_text() -> str:
    lines = [
        f"Usage: {PROGRAM} [flags]",
        f"       {PROGRAM} [flags] help | config-help [module ...]",
        "",
        "Stands between the kubelet and the container runtime and gives CPUs to containers. This is `interpose relay`",
        "with other flags, and without hook servers. Flags are written -flag value, -flag=value, --flag value or",
        "--flag=value. Everything else can be set by INTERPOSE_* environment variables, which `interpose relay --help`",
        "lists. `config-help` explains policy documents.",
        "",
        "Flags:",
        *flag_lines(FLAGS),
    ]
    return "\n".join(lines)


def policies_text(dashes: int) -> str:
    """The policies, in the form of the first releases (one dash) or of later ones (two)."""
    head, bullet = ("The available policies are:", "") if dashes == 1 else ("Available policies:", "* ")
    rows = [f"  {bullet}{policy.name}: {_describe(policy.description, policy.aliases)}" for policy in POLICIES]
    return "\n".join([head, *rows])


def loggers_text() -> str:
    """The sources of the log, for --logger-debug."""
    rows = [f"  {name}: {', '.join(parts)}" for name, parts in SOURCES.items()]
    return "\n".join(["The available loggers are:", *rows])


def modules_text(names: Sequence[str]) -> str:
    """The keys of these modules of policy documents, all without a name; ValueError names one that is not known."""
    if strange := [name for name in names if name not in MODULES]:
        raise ValueError(f"{strange[0]!r} is not a module of the configuration: {', '.join(MODULES)}")
    lines = []
    for module in names or MODULES:
        lines.append(f"{module}:")
        lines += [f"  {key}: {about}" for key, about in MODULES[module].items()] or ["  (no keys)"]
    return "\n".join(lines)


def _describe(description: str, aliases: Sequence[str]) -> str:
    return f"{description} (also called {', '.join(aliases)})" if aliases else description
