"""What static and static-plus start with: every mistake has a message that says what to do, unplugged CPUs do not."""

from itertools import islice

import pytest

from interpose.core.model.cpuset import EMPTY, CpuSet
from interpose.core.policy.api import Setup
from interpose.core.policy.static.options import StaticOptions
from interpose.core.policy.static.partition import CpuPartition, all_memory, check_options, divide
from interpose.core.topology.topology import Cpu, MemoryKind, NumaNode, Topology
from interpose.errors import ConfigError


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


# CPUs 6 and 7 are offline, 5 is isolated.
MACHINE = Topology(
    cpus=tuple(Cpu(id=number, core=number) for number in range(6)),
    nodes=(NumaNode(id=0, cpus=cpus("0-5"), memory_bytes=1, distances={0: 10}),),
    offline=cpus("6-7"),
    isolated=cpus("5"),
)


def first(free: CpuSet, count: int) -> CpuSet:
    return CpuSet.of(islice(free, count))


def divided(available: str | None, reserved: CpuSet | int | None, *, strict: bool = False) -> CpuPartition:
    said = None if available is None else cpus(available)
    return divide(Setup(topology=MACHINE, available=said, reserved=reserved), first, strict=strict)


@pytest.mark.parametrize(
    ("available", "reserved", "parts"),
    [
        (None, cpus("0-1"), ("0-4", "0-1", "5")),
        (None, 1, ("0-4", "0", "5")),
        (None, 1000, ("0-4", "0", "5")),
        (None, 1001, ("0-4", "0-1", "5")),
        (None, 5000, ("0-4", "0-4", "5")),
        ("2-7", 1000, ("2-4", "2", "5")),
        ("2-4,7", cpus("4,7"), ("2-4", "4", "")),
    ],
)
def test_the_machine_is_divided(available: str | None, reserved: CpuSet | int, parts: tuple[str, str, str]) -> None:
    """Amounts are rounded up to CPUs; what is offline is left out; isolated CPUs count only if they are available."""
    ordinary, kept, isolated = map(cpus, parts)
    assert divided(available, reserved) == CpuPartition(ordinary=ordinary, reserved=kept, isolated=isolated)


@pytest.mark.parametrize(
    ("available", "reserved", "problem"),
    [
        (None, None, "reserved resources: this policy needs CPUs for the system"),
        (None, 0, "give an amount such as cpu=1 or CPUs such as cpu=cpuset:0-1"),
        (None, EMPTY, "reserved resources: this policy needs CPUs for the system"),
        (None, -1000, "reserved resources: -1000m CPUs cannot be reserved of 0-4, which are 5"),
        (None, 5001, "reserved resources: 5001m CPUs cannot be reserved of 0-4, which are 5"),
        (None, cpus("1,8-9"), "reserved resources: CPUs 8-9 of 1,8-9 do not exist on this machine, which has 0-7"),
        (None, cpus("6-7"), "reserved resources: all of CPUs 6-7 are offline"),
        (None, cpus("4-5"), "reserved resources: CPUs 5 of 4-5 are isolated, the system does not run on them"),
        ("2-4", cpus("1-2"), "reserved resources: CPUs 1 of 1-2 are not among the available ones, 2-4"),
        ("0-8", 1000, "available resources: CPUs 8 of 0-8 do not exist on this machine, which has 0-7"),
        ("7", 1000, "available resources: all of CPUs 7 are offline"),
        ("", 1000, "available resources: the list of CPUs is empty"),
        ("5", 1000, "available resources: all of CPUs 5 are isolated, none is left for the system"),
    ],
)
def test_what_cannot_be_divided_is_refused_by_name(
    available: str | None, reserved: CpuSet | int | None, problem: str
) -> None:
    """With what was said and what there is."""
    with pytest.raises(ConfigError) as caught:
        divided(available, reserved)
    assert problem in str(caught.value)


def test_a_strict_reservation_must_leave_something() -> None:
    """Else those that share CPUs had none."""
    assert divided("0-2", cpus("0-1"), strict=True).ordinary == cpus("0-2")
    with pytest.raises(ConfigError, match="with strict-cpu-reservation one at least must be left"):
        divided("0-2", cpus("0-2"), strict=True)


def test_options_that_contradict_each_other_are_named_in_pairs() -> None:
    """All pairs at once."""
    check_options(StaticOptions(full_pcpus_only=True, distribute_cpus_across_numa=True, align_by_socket=True))
    with pytest.raises(ConfigError) as caught:
        check_options(
            StaticOptions(
                full_pcpus_only=True,
                distribute_cpus_across_cores=True,
                distribute_cpus_across_numa=True,
                prefer_align_cpus_by_uncorecache=True,
            )
        )
    assert caught.value.problems == [
        f"policy.static.CPUManagerPolicyOptions: {one} and {other} cannot both be true"
        for one, other in (
            ("distribute-cpus-across-cores", "full-pcpus-only"),
            ("distribute-cpus-across-cores", "distribute-cpus-across-numa"),
            ("distribute-cpus-across-cores", "prefer-align-cpus-by-uncorecache"),
            ("prefer-align-cpus-by-uncorecache", "distribute-cpus-across-numa"),
        )
    ]


def test_all_memory_is_every_node_that_has_some() -> None:
    """Every kind of memory counts for that."""
    kinds = ((MemoryKind.DRAM, 1), (MemoryKind.PMEM, 1), (MemoryKind.NONE, 0), (MemoryKind.DRAM, 0))
    nodes = tuple(
        NumaNode(id=number, memory=kind, memory_bytes=size, distances={}) for number, (kind, size) in enumerate(kinds)
    )
    assert all_memory(Topology(cpus=(), nodes=nodes)) == cpus("0-1")
