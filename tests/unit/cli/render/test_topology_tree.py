"""The tree of a machine."""

from dataclasses import replace

import pytest

from interpose.cli.render.topology_tree import tree_text
from tests.support.policy.machines import machine


def test_a_tree_has_parts_distances_and_remarks() -> None:
    """Threads of cores in the leaves."""
    topology = machine("2 sockets x 2 numa x 2 cores x 2 threads; memory 4Gi; isolated 3")
    assert tree_text(replace(topology, name="m")).splitlines() == [
        "m: 2 packages, 4 NUMA nodes, 8 cores, 16 CPUs, 16 GiB",
        "",
        "PART               HAS    CORES  CPUS   THREADS OF CORES",
        "├─ package 0              4      0-7",
        "│  ├─ NUMA node 0  4 GiB  2      0-3    0+1 2+3",
        "│  └─ NUMA node 1  4 GiB  2      4-7    4+5 6+7",
        "└─ package 1              4      8-15",
        "   ├─ NUMA node 2  4 GiB  2      8-11   8+9 10+11",
        "   └─ NUMA node 3  4 GiB  2      12-15  12+13 14+15",
        "",
        "Distances of NUMA nodes (to itself: 10)",
        "  NUMA node 0  12 to node 1; 21 to nodes 2-3",
        "  NUMA node 1  12 to node 0; 21 to nodes 2-3",
        "  NUMA node 2  12 to node 3; 21 to nodes 0-1",
        "  NUMA node 3  12 to node 2; 21 to nodes 0-1",
        "",
        "CPUs isolated: 3",
    ]


def test_small_machines_have_small_trees() -> None:
    """No threads to tell apart, nothing to be far from, no name."""
    assert tree_text(replace(machine("laptop"), name="")).splitlines()[2:] == [
        "PART                       HAS    CORES  CPUS",
        "└─ package 0, NUMA node 0  4 GiB  2      0-1",
    ]


def test_many_cores_are_not_spelled_out() -> None:
    """The first two and the last show the pattern."""
    text = tree_text(machine("big"))
    assert "16      0-15,128-143     0+128 1+129 … 15+143" in text.replace("     0-15", "      0-15")
    assert len(text.splitlines()) < 40


def test_numbers_that_alternate_are_written_with_strides() -> None:
    """As on servers that number their packages in turn; what that means is said."""
    lines = tree_text(machine("server")).splitlines()
    assert any(line.endswith("14     0-108:1/4  0+56 4+60 … 52+108") for line in lines)
    assert "0-108:1/4 is every 4th CPU from 0 to 108." in lines


@pytest.mark.parametrize("name", ["tiny", "n4c16", "chiplets", "hybrid", "big", "server"])
def test_no_line_is_too_long(name: str) -> None:
    """Also on large machines."""
    assert max(map(len, tree_text(machine(name)).splitlines())) <= 100
