"""`interpose policies`: the policies, the options of each, and which one a relay here uses."""

import json
from typing import Any, Final, NamedTuple

import click

from interpose.cli.common.admin_client import admin_option, ask_optional
from interpose.cli.render.policy_status import policies_text
from interpose.cli.render.text import group
from interpose.core.policy.names import POLICIES
from interpose.core.policy.static_pools.options import PoolsOptions

_KUBELET: Final = "CPUManagerPolicyOptions."


class PolicyOption(NamedTuple):
    """A key of a policy in a policy document."""

    name: str
    default: str
    meaning: str


_PIN_MEMORY: Final = PolicyOption("PinMemory", "false", "memory nodes next to CPUs of one's own")
_QUOTA: Final = PolicyOption(
    "DisableCPUQuotaWithExclusiveCPUs", "true", "no CFS quota with CPUs of one's own, as kubelets since 1.33"
)
OPTIONS: Final[dict[str, tuple[PolicyOption, ...]]] = {
    "none": (),
    "static": (
        PolicyOption("RelaxedIsolation", "false", "isolated CPUs first, whoever asks"),
        _PIN_MEMORY,
        _QUOTA,
        PolicyOption(f"{_KUBELET}full-pcpus-only", "false", "whole cores only"),
        PolicyOption(f"{_KUBELET}strict-cpu-reservation", "false", "reserved CPUs are not shared"),
        PolicyOption(f"{_KUBELET}prefer-align-cpus-by-uncorecache", "false", "few caches"),
        PolicyOption(f"{_KUBELET}distribute-cpus-across-numa", "false", "evenly over NUMA nodes"),
        PolicyOption(f"{_KUBELET}align-by-socket", "false", "hints are about packages"),
        PolicyOption(f"{_KUBELET}distribute-cpus-across-cores", "false", "one CPU per core"),
    ),
    "static-plus": (_PIN_MEMORY, _QUOTA),
    "static-pools": (
        PolicyOption("pools", "", "pools with their lists of CPUs"),
        PolicyOption("ConfFilePath", "", "file with the pools, if none are given here"),
        PolicyOption("ConfDirPath", PoolsOptions().conf_dir, "directory tree of CMK, if there is no file either"),
        PolicyOption("LabelNode", "false", "label the node"),
        PolicyOption("TaintNode", "false", "taint the node"),
    ),
    "topology-aware": (
        PolicyOption("PinCPU", "true", "containers run on the CPUs of their pool only"),
        PolicyOption("PinMemory", "true", "memory nodes of the pool"),
        PolicyOption("PreferIsolatedCPUs", "true", "isolated CPUs for containers that ask for one"),
        PolicyOption("PreferSharedCPUs", "false", "CPUs of one's own on request only"),
        PolicyOption("ColocatePods", "false", "containers of a pod near each other"),
        PolicyOption("ColocateNamespaces", "false", "containers of a namespace near each other"),
        PolicyOption("ReservedPoolNamespaces", "", "namespaces on the reserved CPUs, besides kube-system"),
        PolicyOption("DefaultCPUPriority", "none", "of CPUs of one's own: high, normal, low"),
        PolicyOption("UnlimitedBurstable", "package", "level of Burstable containers without CPU limit"),
        _QUOTA,
    ),
    "podpools": (
        PolicyOption("PinCPU", "true", "containers run on the CPUs of their pool only"),
        PolicyOption("PinMemory", "true", "memory nodes next to the CPUs of the pool"),
        PolicyOption("Pools", "", "pools: Name, CPU, MaxPods, Instances, FillOrder"),
    ),
    "dynamic-pools": (
        PolicyOption("PinCPU", "true", "containers run on the CPUs of their pool only"),
        PolicyOption("PinMemory", "true", "memory nodes next to the CPUs of the pool"),
        PolicyOption("ReservedPoolNamespaces", "", "namespaces on the reserved CPUs, besides kube-system"),
        PolicyOption("DynamicPoolTypes", "", "pools: Name, Namespaces, AllocatorPriority"),
    ),
    "balloons": (
        PolicyOption("pinCPU", "true", "containers run on the CPUs of their balloon only"),
        PolicyOption("pinMemory", "true", "memory nodes next to the CPUs of the balloon"),
        PolicyOption("reservedPoolNamespaces", "", "namespaces of balloon reserved, besides kube-system"),
        PolicyOption("allocatorTopologyBalancing", "false", "balloons keep away from each other"),
        PolicyOption("preferSpreadOnPhysicalCores", "false", "CPUs of a balloon are on cores of their own"),
        _QUOTA,
        PolicyOption("preserve.matchExpressions", "", "expressions: containers that are left alone"),
        PolicyOption("loadClasses", "", "loads that get in each other's way: name, level"),
        PolicyOption("balloonTypes", "", "types of balloons: name, minCPUs, maxCPUs, namespaces and more"),
        PolicyOption("idleCPUClass", "", "no effect: classes of CPUs are not acted on"),
        PolicyOption("cpuClasses", "", "no effect: classes of CPUs are not acted on"),
        PolicyOption("turboDomain", "", "no effect: classes of CPUs are not acted on"),
        PolicyOption("schedulingClasses", "", "no effect: scheduling classes are not acted on"),
        PolicyOption("controllableInterrupts", "", "no effect: interrupts are not acted on"),
        PolicyOption("showContainersInNrt", "false", "no effect: NodeResourceTopology objects are not written"),
    ),
    "external": (
        PolicyOption("EntryPoint", "", "name of an entry point in the group interpose.policies"),
        PolicyOption("Options", "", "keys that the policy itself defines"),
    ),
}


@click.command("policies")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@admin_option
def policies(output: str, admin: str) -> None:
    """List the resource policies and their options; mark the one that is active, if a relay runs here."""
    active = _active(admin)
    listed = [
        {
            "name": policy.name,
            "aliases": list(policy.aliases),
            "description": policy.description,
            "options": [option._asdict() for option in OPTIONS[policy.name]],
            "active": None if active is None else active == policy.name,
        }
        for policy in POLICIES
    ]
    click.echo(json.dumps(listed, indent=2) if output == "json" else policies_text(listed, active))


def _active(admin: str) -> str | None:
    """The policy of the relay; None if there is no relay: the list is good without."""
    try:
        answer: Any = ask_optional(admin, "/v1/policy")
    except click.ClickException:
        return None
    name = group(answer).get("policy")
    return name if isinstance(name, str) else None
