"""The text of resources.sh: what a container was given, by the names that other resource managers use."""

from dataclasses import replace

from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.decision import Assignment, Grant
from interpose.core.topology.topology import MemoryKind, NumaNode
from interpose.resmgr.exports.resources_text import resources_text
from tests.support.policy.machines import machine

ISOLATED = machine("2p2n2c2t; isolated 8-10")  # four NUMA nodes, 0-15


def cpus(text: str) -> CpuSet:
    return CpuSet.parse(text)


def test_cpus_are_told_by_who_else_has_them() -> None:
    """Isolated ones are not among the exclusive ones; memory that was not limited is all there is."""
    grant = Grant(exclusive=cpus("2-3,8"), pools=("shared",))
    assert resources_text(grant, Assignment(cpus=cpus("2-3,8,12-15")), ISOLATED) == (
        'ALL_MEMS="0-3"\nDRAM_MEMS="0-3"\nEXCLUSIVE_CPUS="2-3"\nISOLATED_CPUS="8"\nSHARED_CPUS="12-15"\n'
    )


def test_what_is_empty_is_left_out() -> None:
    """A container that shares, and one about whose CPUs nothing was decided; a container without a grant shares."""
    assert resources_text(Grant(pools=("x",)), Assignment(cpus=cpus("0-1"), mems=cpus("1")), ISOLATED) == (
        'ALL_MEMS="1"\nDRAM_MEMS="1"\nSHARED_CPUS="0-1"\n'
    )
    assert resources_text(None, Assignment(cpus=cpus("0-1"), mems=cpus("1")), ISOLATED) == (
        'ALL_MEMS="1"\nDRAM_MEMS="1"\nSHARED_CPUS="0-1"\n'
    )
    assert resources_text(Grant(pinned=False), Assignment(), ISOLATED) == 'ALL_MEMS="0-3"\nDRAM_MEMS="0-3"\n'


def test_memory_is_told_by_its_kind() -> None:
    """Nodes without memory are not among them."""
    kinds = (MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM, MemoryKind.NONE)
    nodes = tuple(
        NumaNode(id=number, memory=kind, memory_bytes=0 if kind is MemoryKind.NONE else 1, distances={})
        for number, kind in enumerate(kinds)
    )
    text = resources_text(None, Assignment(), replace(ISOLATED, nodes=nodes))
    assert text == 'ALL_MEMS="0-2"\nDRAM_MEMS="0"\nHBM_MEMS="2"\nPMEM_MEMS="1"\n'
