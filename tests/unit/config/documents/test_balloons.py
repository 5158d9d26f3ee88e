"""The options of the policy balloons in documents of nri-plugins and of cri-resmgr."""

from typing import Any

import pytest

from interpose.config.documents.fields import Report
from interpose.config.documents.policy_options import OPTIONS, option_values, read_options
from interpose.config.documents.yaml import parse_document
from interpose.core.cpuallocator.priority import CpuPriority
from interpose.core.policy.balloons.options import (
    BalloonsOptions,
    BalloonType,
    ComponentCreation,
    CoreType,
    LoadClass,
    LoadLevel,
    ShareLevel,
)
from interpose.core.policy.expressions import Expression, Operator
from interpose.core.topology.topology import MemoryKind
from interpose.errors import ConfigError

NEWER = """\
pinCPU: true
pinMemory: false
idleCPUClass: slow
reservedPoolNamespaces: [sys-*]
allocatorTopologyBalancing: true
preferSpreadOnPhysicalCores: true
showContainersInNrt: true
turboDomain: system
controllableInterrupts: ['*eth*']
preserve: {matchExpressions: [{key: name, operator: In, values: [a, b]}]}
loadClasses: [{name: avx, level: core, overloadsLevelInBalloon: true}, {name: stream, level: l2cache}]
cpuClasses: [{name: slow, maxFreq: 1GHz}]
schedulingClasses: [{name: rt, policy: fifo, priority: 1}]
balloonTypes:
- name: one
  namespaces: [n*]
  groupBy: ${pod/labels/x}
  matchExpressions: [{key: pod/labels/x, operator: Exists}]
  minCPUs: 1
  maxCPUs: 4
  minBalloons: 1
  maxBalloons: 2
  memoryTypes: [DRAM, hbm]
  pinMemory: true
  allocatorPriority: low
  preferSpreadOnPhysicalCores: false
  allocatorTopologyBalancing: false
  hideHyperthreads: true
  cpuClass: slow
  loads: [avx]
  preferSpreadingPods: true
  preferPerNamespaceBalloon: true
  preferNewBalloons: true
  shareIdleCPUsInSame: l2cache
  preferCloseToDevices: [/sys/class/net/eth0, 'podresourceapi:gpu']
  preferIsolCpus: true
  preferCoreType: efficient
  schedulingClass: rt
  showContainersInNrt: true
  irqClaim: [12, '*nvme*']
  irqMode: isolate
- {name: two, shareIdleCPUsInSame: '', componentCreation: balance-balloons, components: [{balloonType: one}]}
"""
OLDER = """\
PinCPU: false
ReservedPoolNamespaces: [sys-*]
BalloonTypes:
- {Name: one, MinCPUs: 1, MaxCPUs: 4, AllocatorPriority: 2, CpuClass: slow, ShareIdleCPUsInSame: numa}
"""


def read(text: str) -> Any:
    """The options of a document."""
    report = Report("file f")
    found = read_options("balloons", parse_document(text, "file f"), "policy.balloons", report)
    report.settle()
    return found


def test_all_keys_of_nri_plugins() -> None:
    """Each becomes its field."""
    assert read(NEWER) == BalloonsOptions(
        pin_memory=False,
        idle_cpu_class="slow",
        reserved_namespaces=("sys-*",),
        balance=True,
        spread_on_cores=True,
        show_containers=True,
        turbo_domain="system",
        controllable_interrupts=("*eth*",),
        preserve=(Expression("name", Operator.IN, ("a", "b")),),
        load_classes=(
            LoadClass(name="avx", level=LoadLevel.CORE, overloads_in_balloon=True),
            LoadClass(name="stream", level=LoadLevel.L2_CACHE),
        ),
        cpu_classes=("slow",),
        scheduling_classes=("rt",),
        types=(
            BalloonType(
                name="one",
                namespaces=("n*",),
                group_by="${pod/labels/x}",
                match_expressions=(Expression("pod/labels/x", Operator.EXISTS),),
                min_cpus=1,
                max_cpus=4,
                min_balloons=1,
                max_balloons=2,
                memory_types=frozenset({MemoryKind.DRAM, MemoryKind.HBM}),
                pin_memory=True,
                priority=CpuPriority.LOW,
                spread_on_cores=False,
                balance=False,
                hide_hyperthreads=True,
                cpu_class="slow",
                loads=("avx",),
                spread_pods=True,
                per_namespace=True,
                prefer_new=True,
                share_idle=ShareLevel.L2_CACHE,
                close_to_devices=("/sys/class/net/eth0", "podresourceapi:gpu"),
                prefer_isolated=True,
                core_type=CoreType.EFFICIENT,
                scheduling_class="rt",
                show_containers=True,
                irq_claim=("12", "*nvme*"),
                irq_mode="isolate",
            ),
            BalloonType(name="two", components=("one",), component_creation=ComponentCreation.BALANCE),
        ),
    )


def test_keys_of_cri_resmgr() -> None:
    """The same in another case, and priorities by number."""
    assert read(OLDER) == BalloonsOptions(
        pin_cpu=False,
        reserved_namespaces=("sys-*",),
        types=(
            BalloonType(
                name="one",
                min_cpus=1,
                max_cpus=4,
                priority=CpuPriority.LOW,
                cpu_class="slow",
                share_idle=ShareLevel.NUMA,
            ),
        ),
    )


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("balloonTypes: [{minCPUs: 1}]", "policy.balloons.balloonTypes[0].name: is missing"),
        ("balloonTypes: [{name: a, maxCPUs: -2}]", "balloonTypes[0].maxCPUs: expected a number from -1 to 65536"),
        (
            "balloonTypes: [{name: a, memoryTypes: [DRAM, RAM]}]",
            "memoryTypes[1]: expected DRAM, HBM or PMEM",
        ),
        ("balloonTypes: [{name: a, memoryTypes: DRAM}]", "memoryTypes: expected a list such as [DRAM, HBM]"),
        ("balloonTypes: [{name: a, irqClaim: 12}]", "irqClaim: expected a list such as [12, '*nvme*']"),
        ("balloonTypes: [{name: a, irqClaim: [1.5]}]", "irqClaim[0]: expected a number or a glob"),
        ("balloonTypes: [{name: a, irqMode: none}]", "irqMode: expected sink or isolate, found 'none'"),
        ("balloonTypes: [{name: a, shareIdleCPUsInSame: socket}]", "shareIdleCPUsInSame: expected system or package"),
        ("balloonTypes: [{name: a, components: [{type: b}]}]", "components[0].type: is not a known key"),
        ("loadClasses: [{name: a}]", "loadClasses[0].level: is missing"),
        ("loadClasses: [{level: core}]", "loadClasses[0].name: is missing"),
        ("schedulingClasses: [{policy: fifo}]", "schedulingClasses[0].name: is missing"),
        (
            "preserve: {matchExpressions: [{key: name, operator: Equals}]}",
            "preserve.matchExpressions[0]: operator Equals takes one value, found 0",
        ),
        (
            "balloonTypes: [{name: a, minCPUs: 3, maxCPUs: 2}]",
            "policy.balloons: balloonTypes: type 'a': minCPUs: 3 is more than maxCPUs: 2",
        ),
    ],
)
def test_what_cannot_be(text: str, problem: str) -> None:
    """With line, key and value."""
    with pytest.raises(ConfigError) as caught:
        read(text)
    assert any(problem in found and found.startswith("file f line 1: ") for found in caught.value.problems)


def test_options_are_shown() -> None:
    """Of types what is not at its default."""
    shown = dict(option_values(read(NEWER)))
    assert shown["pinMemory"] == "false"
    assert shown["preserve.matchExpressions"] == "name In a, b"
    assert shown["loadClasses.avx"] == "core, within balloons too"
    assert shown["loadClasses.stream"] == "l2cache"
    assert shown["cpuClasses"] == "slow"
    assert "memoryTypes: dram,hbm, pinMemory: true, allocatorPriority: low" in shown["balloonTypes.one"]
    assert shown["balloonTypes.two"] == "componentCreation: balance-balloons, components: one"


def test_kinds_have_forms() -> None:
    """For editors: lists of words and of words or numbers."""
    keys = OPTIONS["balloons"].form()["patternProperties"]
    assert any("array" in str(form) for form in keys.values())
