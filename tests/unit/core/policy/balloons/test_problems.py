"""What is wrong with options of balloons on any machine, and what of them does nothing."""

import pytest

from interpose.core.policy.balloons.options import (
    BalloonsOptions,
    BalloonType,
    ComponentCreation,
    CoreType,
    LoadClass,
    LoadLevel,
    ShareLevel,
)
from interpose.core.policy.balloons.problems import option_notes, option_problems

LEAF = BalloonType(name="leaf")


def pair(**about: object) -> tuple[BalloonType, ...]:
    """A leaf and a composite of it."""
    return LEAF, BalloonType(name="pair", components=("leaf", "leaf"), **about)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("types", "problem"),
    [
        ((BalloonType(name=""),), "balloonTypes: name: '' is no name of a type"),
        ((BalloonType(name="a[0]"),), "balloonTypes: name: 'a[0]' is no name of a type"),
        ((LEAF, LEAF), "balloonTypes: name: 'leaf' is defined 2 times"),
        ((BalloonType(name="a", min_cpus=3, max_cpus=2),), "type 'a': minCPUs: 3 is more than maxCPUs: 2"),
        ((BalloonType(name="a", min_cpus=1, max_cpus=-1),), "type 'a': minCPUs: 1 is more than maxCPUs: -1"),
        ((BalloonType(name="a", min_balloons=3, max_balloons=2),), "minBalloons: 3 is more than maxBalloons: 2"),
        ((BalloonType(name="reserved", min_balloons=2),), "minBalloons: 2 cannot be, there is one balloon"),
        ((BalloonType(name="reserved", max_balloons=2),), "maxBalloons: 2 cannot be, there is one balloon"),
        ((BalloonType(name="a", namespaces=("[",)),), "type 'a': namespaces: pattern '['"),
        ((BalloonType(name="a", close_to_devices=("eth0",)),), "preferCloseToDevices: 'eth0' is neither an absolute"),
        (
            (BalloonType(name="a", component_creation=ComponentCreation.ALL),),
            "componentCreation: all without components",
        ),
        (pair(cpu_class="fast"), "type 'pair': cpuClass: fast has no meaning for a type with components"),
        (pair(spread_on_cores=False), "preferSpreadOnPhysicalCores: false has no meaning"),
        (pair(balance=True), "allocatorTopologyBalancing: true has no meaning"),
        (pair(close_to_devices=("/sys/x",)), "preferCloseToDevices: /sys/x has no meaning"),
        (pair(prefer_isolated=True), "preferIsolCpus: true has no meaning"),
        (pair(core_type=CoreType.EFFICIENT), "preferCoreType: efficient has no meaning"),
        (
            (BalloonType(name="a", components=("b",)),),
            "type 'a': components: balloonType: 'b' is not defined",
        ),
        (
            (BalloonType(name="a", components=("b",)), BalloonType(name="b", components=("a",))),
            "balloonTypes: components: 'a' has 'b' has 'a'",
        ),
        ((BalloonType(name="a", loads=("avx",)),), "type 'a': loads: 'avx' is not in loadClasses"),
        ((BalloonType(name="a", scheduling_class="rt"),), "schedulingClass: 'rt' is not in schedulingClasses"),
    ],
)
def test_a_type_that_cannot_be(types: tuple[BalloonType, ...], problem: str) -> None:
    """The problem names type, key and value."""
    (found,) = option_problems(BalloonsOptions(types=types))
    assert problem in found


def test_types_that_can_be() -> None:
    """Nothing is wrong with limits that are equal, or with a component that two types have."""
    types = (
        *pair(component_creation=ComponentCreation.ALL),
        BalloonType(name="other", components=("leaf", "pair")),
        BalloonType(name="closed", max_cpus=-1),
        BalloonType(name="fixed", min_cpus=2, max_cpus=2, min_balloons=1, max_balloons=1),
    )
    assert option_problems(BalloonsOptions(types=types)) == []


def test_load_classes_have_names_of_their_own() -> None:
    """One without a name, and one that is there twice."""
    twice = LoadClass(name="avx", level=LoadLevel.CORE)
    assert option_problems(BalloonsOptions(load_classes=(LoadClass(name="", level=LoadLevel.CORE), twice, twice))) == [
        "loadClasses: name is missing",
        "loadClasses: name: 'avx' is defined 2 times",
    ]


def test_reserved_namespaces_are_patterns() -> None:
    """What is no pattern is named."""
    (found,) = option_problems(BalloonsOptions(reserved_namespaces=("[",)))
    assert found.startswith("reservedPoolNamespaces: pattern '['")


@pytest.mark.parametrize(
    ("kind", "note"),
    [
        (BalloonType(name="a", cpu_class="fast"), "balloon type a: cpuClass: fast has no effect, classes of CPUs are"),
        (BalloonType(name="a", cpu_class="fast"), "balloon type a: cpuClass: 'fast' is not in cpuClasses"),
        (BalloonType(name="a", irq_claim=("12", "*nvme*")), "irqClaim: 12, *nvme* has no effect, interrupts are not"),
        (BalloonType(name="a", irq_mode="sink"), "irqMode: sink has no effect"),
        (BalloonType(name="a", show_containers=True), "showContainersInNrt: true has no effect"),
        (
            BalloonType(name="a", prefer_isolated=True, share_idle=ShareLevel.NUMA),
            "preferIsolCpus with shareIdleCPUsInSame: threads do not move",
        ),
        (
            BalloonType(name="a", close_to_devices=("podresourceapi:gpu",)),
            "preferCloseToDevices: podresourceapi:gpu has no effect: which devices a container has is known",
        ),
        (
            BalloonType(name="a", close_to_devices=("podresourceapi:gpu",), prefer_new=True),
            "podresourceapi:gpu without preferNewBalloons and preferSpreadingPods",
        ),
        (
            BalloonType(name="a", close_to_devices=("/sys/class/net/eth0",)),
            "preferCloseToDevices: /sys/class/net/eth0 has no effect: no such device is here",
        ),
    ],
)
def test_what_does_nothing_is_told(kind: BalloonType, note: str) -> None:
    """Accepted, with a remark that names type, key and value."""
    assert any(note in found for found in option_notes(BalloonsOptions(types=(kind,))))


def test_options_for_controllers_are_told() -> None:
    """All those that nothing acts on."""
    options = BalloonsOptions(
        idle_cpu_class="slow",
        cpu_classes=("slow", "fast"),
        turbo_domain="system",
        scheduling_classes=("rt",),
        controllable_interrupts=("*",),
        show_containers=True,
        types=(BalloonType(name="a", scheduling_class="rt", cpu_class="fast"),),
    )
    assert [note.partition(" has no effect")[0] for note in option_notes(options)] == [
        "idleCPUClass: slow",
        "cpuClasses: slow, fast",
        "turboDomain: system",
        "schedulingClasses: rt",
        "controllableInterrupts: *",
        "showContainersInNrt: true",
        "balloon type a: cpuClass: fast",
        "balloon type a: schedulingClass: rt",
    ]


def test_what_works_is_no_remark() -> None:
    """A device of the kubelet's, in balloons of its own, has one remark only; plain options have none."""
    kind = BalloonType(name="a", close_to_devices=("podresourceapi:gpu",), prefer_new=True, spread_pods=True)
    assert len(list(option_notes(BalloonsOptions(types=(kind,))))) == 1
    assert list(option_notes(BalloonsOptions(types=(LEAF,)))) == []
