"""What always holds of views: they fit, they lose no CPU, and they do not depend on the terminal."""

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from interpose.cli.render.machine import MachinePart, owners_of, parts_of
from interpose.cli.render.text import strided, visible_width, wrapped
from interpose.cli.render.topology_picture import picture
from interpose.cli.render.topology_svg import layout
from interpose.cli.render.topology_tree import tree_text
from interpose.core.model.cpuset import CpuSet
from interpose.core.model.text import cut_middle
from interpose.core.topology.synthetic import parse_text
from interpose.core.topology.topology import Topology

LEAST = 24  # columns; below that a title may be longer than a line


@st.composite
def machines(draw: st.DrawFn) -> Topology:
    """Machines of all shapes, some of them odd: caches and nodes that do not fit their packages."""
    packages, nodes, cores, threads = (draw(st.integers(1, most)) for most in (4, 3, 6, 2))
    layout_ = draw(st.sampled_from(["", "; interleaved"]))
    topology = replace(
        parse_text(f"{packages} sockets x {nodes} numa x {cores} cores x {threads} threads{layout_}"), name=""
    )
    caches = draw(st.integers(0, 7))
    moved = tuple(
        replace(cpu, l3=cpu.core // caches * caches if caches else -1, package=draw(st.sampled_from([cpu.package, 0])))
        for cpu in topology.cpus
    )
    return replace(topology, cpus=moved)


def leaves(parts: tuple[MachinePart, ...]) -> list[int]:
    """The CPUs of all innermost parts."""
    return [cpu for part in parts for cpu in (leaves(part.parts) if part.parts else part.cpus)]


@given(machines())
def test_parts_have_every_cpu_once(topology: Topology) -> None:
    """However odd the machine is."""
    assert sorted(leaves(parts_of(topology))) == list(topology.online)
    assert sorted(shape.cpu for shape in layout(topology) if shape.kind == "cpu") == list(topology.online)


@given(machines(), st.integers(LEAST, 200), st.sets(st.integers(0, 143)))
def test_pictures_fit_and_colours_add_nothing(topology: Topology, width: int, owned: set[int]) -> None:
    """Any width, with and without owners."""
    owners = owners_of([{"container": "a/b/c", "exclusive": str(CpuSet.of(owned) & topology.online)}])
    text = picture(topology, width, owners=owners)
    boxes = text.partition("\n\n")[2].partition("\n\n")[0]
    assert max(map(len, boxes.splitlines())) <= width
    assert re.sub("\x1b\\[[0-9;]*m", "", picture(topology, width, owners=owners, colour=True)) == text


@given(machines())
def test_trees_name_every_part(topology: Topology) -> None:
    """One line each."""
    text = tree_text(topology, 300)
    assert all(f"NUMA node {node.id}" in text for node in topology.nodes)


@given(st.sets(st.integers(0, 600)))
def test_strides_are_read_back(numbers: set[int]) -> None:
    """To the same CPUs."""
    assert CpuSet.parse(strided(CpuSet.of(numbers))) == CpuSet.of(numbers)


@given(st.text(alphabet="abc,"), st.integers(3, 20))
def test_breaking_lines_loses_nothing(text: str, width: int) -> None:
    """And cutting never makes longer than asked for."""
    assert "".join(wrapped(text, width)) == text
    assert visible_width(cut_middle(text, width)) <= max(width, 3)
