"""The picture of a machine."""

import re
from dataclasses import replace

import pytest

from interpose.cli.render.machine import owners_of
from interpose.cli.render.text import visible_width
from interpose.cli.render.topology_picture import picture
from interpose.core.topology.topology import MemoryKind, NumaNode
from tests.support.policy.machines import machine

ASSIGNED = [
    {"container": "default/web/nginx", "exclusive": "2-3", "cpus": "2-3"},
    {"container": "default/log/agent", "exclusive": "", "cpus": "0-1,4-15"},
]


def test_boxes_are_in_boxes() -> None:
    """Cores between bars, threads of a core together; isolated CPUs have a star."""
    topology = machine("2 sockets x 2 numa x 2 cores x 2 threads; memory 4Gi; isolated 3; offline 5")
    assert picture(replace(topology, name="m"), 60).splitlines() == [
        "m: 2 packages, 4 NUMA nodes, 8 cores, 15 CPUs, 16 GiB",
        "",
        "╭─ package 0 ───────────────────────────────────────╮",
        "│ ╭─ NUMA node 0 (4 GiB) ╮ ╭─ NUMA node 1 (4 GiB) ╮ │",
        "│ │  0   1 │ 2   3*      │ │  4     │ 6   7       │ │",
        "│ ╰──────────────────────╯ ╰──────────────────────╯ │",
        "╰───────────────────────────────────────────────────╯",
        "╭─ package 1 ───────────────────────────────────────╮",
        "│ ╭─ NUMA node 2 (4 GiB) ╮ ╭─ NUMA node 3 (4 GiB) ╮ │",
        "│ │  8   9 │10  11       │ │ 12  13 │14  15       │ │",
        "│ ╰──────────────────────╯ ╰──────────────────────╯ │",
        "╰───────────────────────────────────────────────────╯",
        "",
        "* isolated: 3",
        "offline: 5",
    ]


def test_a_narrow_terminal_gets_rows() -> None:
    """Without boxes, with every CPU."""
    topology = machine("1 socket x 2 numa x 2 cores x 2 threads; memory 4Gi")
    memory = NumaNode(id=2, memory_bytes=1 << 30, memory=MemoryKind.HBM, distances={2: 10})
    text = picture(replace(topology, name="", nodes=(*topology.nodes, memory)), 18, titled=False)
    assert text.splitlines() == [
        "package 0",
        "  NUMA node 0 (4",
        "  GiB)",
        "    0  1  2  3",
        "  NUMA node 1 (4",
        "  GiB)",
        "    4  5  6  7",
        "NUMA node 2 (1 GiB",
        "HBM, no CPUs)",
    ]


def test_assigned_cpus_have_the_letter_of_their_container() -> None:
    """And shared ones a dot; the legend names them."""
    lines = picture(machine("n4c16"), 100, owners=owners_of(ASSIGNED)).splitlines()
    assert any(" 0·  1·│ 2A  3A " in line for line in lines)
    assert lines[-2:] == ["A default/web/nginx: 2-3", "· shared by 1 container"]


def test_nothing_assigned_is_said() -> None:
    """Rather than an empty legend."""
    assert picture(machine("laptop"), 80, owners=owners_of([])).endswith("no container has CPUs assigned")


def test_long_titles_in_the_legend_go_on_in_the_next_line() -> None:
    """As every text."""
    owners = owners_of([{"container": "namespace/pod/name", "exclusive": "0-1"}])
    assert picture(machine("laptop"), 18, owners=owners).splitlines()[-2:] == ["A namespace/pod/name:", "  0-1"]


def test_colours_change_nothing_but_colours() -> None:
    """Who sees none of them reads the same."""
    topology = machine("1 socket x 4 cores; efficiency 2-3; isolated 1")
    for owners in (None, owners_of(ASSIGNED[:1])):
        coloured = picture(topology, 80, colour=True, owners=owners)
        assert "\x1b[" in coloured
        assert re.sub("\x1b\\[[0-9;]*m", "", coloured) == picture(topology, 80, owners=owners)


def test_efficiency_cores_are_marked() -> None:
    """With their sign in the legend."""
    text = picture(machine("hybrid"), 100)
    assert "8°│ 9°" in text
    assert text.endswith("° efficiency core")


@pytest.mark.parametrize("width", [30, 60, 80, 100, 200])
@pytest.mark.parametrize("name", ["tiny", "n4c16", "chiplets", "hybrid", "big"])
def test_pictures_fit_and_have_every_cpu_once(name: str, width: int) -> None:
    """Whatever the terminal."""
    topology = machine(name)
    text = picture(topology, width, titled=False)
    assert max(map(visible_width, text.splitlines())) <= width
    cells = re.sub(r"(package|NUMA node|die|L3) ?[0-9]*|\([^)]*\)", "", text.partition("\n\n")[0])
    assert sorted(int(number) for number in re.findall(r"\d+", cells)) == sorted(topology.online)
