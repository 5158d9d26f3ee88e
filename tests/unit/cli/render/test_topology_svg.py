"""The drawing of a machine: well-formed, nothing on top of anything else, everything named."""

from dataclasses import replace
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from interpose.cli.render.machine import owners_of
from interpose.cli.render.topology_svg import PAGE, SvgShape, layout, svg_text
from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.topology import Topology
from tests.support.policy.machines import machine

SVG = "{http://www.w3.org/2000/svg}"


def inside(inner: SvgShape, outer: SvgShape) -> bool:
    """Whether one is within the other."""
    return (
        outer.x <= inner.x
        and outer.y <= inner.y
        and inner.x + inner.width <= outer.x + outer.width
        and inner.y + inner.height <= outer.y + outer.height
    )


def apart(one: SvgShape, other: SvgShape) -> bool:
    """Whether two have no point in common but their edges."""
    return (
        one.x + one.width <= other.x
        or other.x + other.width <= one.x
        or one.y + one.height <= other.y
        or other.y + other.height <= one.y
    )


@pytest.mark.parametrize("name", ["tiny", "n4c16", "chiplets", "hybrid", "big"])
def test_everything_has_a_place_of_its_own(name: str) -> None:
    """CPUs are in cores, parts in parts, and nothing overlaps."""
    topology = machine(name)
    shapes = layout(topology)
    by_kind = {kind: [shape for shape in shapes if shape.kind == kind] for kind in ("part", "core", "cpu")}
    assert sorted(shape.cpu for shape in by_kind["cpu"]) == list(topology.online)
    for kind in ("cpu", "core"):
        assert all(apart(*pair) for pair in combinations(by_kind[kind], 2))
    for cpu in by_kind["cpu"]:
        assert sum(inside(cpu, core) for core in by_kind["core"]) == 1
    for core in by_kind["core"]:
        assert any(inside(core, part) for part in by_kind["part"])
    for pair in combinations(by_kind["part"], 2):
        assert apart(*pair) or inside(pair[1], pair[0])
    assert max(shape.x + shape.width for shape in shapes) <= PAGE


def texts(topology: Topology, assignments: list[dict[str, object]] | None = None) -> list[str]:
    """All texts of the drawing."""
    root = ET.fromstring(svg_text(topology, None if assignments is None else owners_of(assignments)))
    return [element.text or "" for element in root.iter() if element.tag in (f"{SVG}text", f"{SVG}title")]


def test_a_drawing_says_what_it_shows() -> None:
    """Title, parts, CPUs, legend."""
    topology = machine("1 socket x 4 cores; memory 4Gi; efficiency 2; isolated 1; offline 3")
    found = texts(replace(topology, name="<m>"))
    assert "<m>" in found
    assert "package 0, NUMA node 0 (4 GiB)" in found
    assert "CPU 1: package 0, NUMA node 0, core 1, isolated" in found
    assert found[-3:] == ["efficiency core", "isolated: 1", "offline: 3"]


def test_a_machine_needs_no_name() -> None:
    """Then it is a topology."""
    assert texts(replace(machine("laptop"), name=""))[1] == "Topology"


def test_assigned_cpus_have_letters_and_names() -> None:
    """Also when one looks at a single CPU."""
    found = texts(
        machine("n4c16"),
        [{"container": "a/b&c", "exclusive": "2-3", "cpus": "2-3"}, {"container": "d", "cpus": "0-1"}],
    )
    assert "2A" in found
    assert "A  a/b&c: 2-3" in found
    assert "CPU 2: package 0, NUMA node 0, core 2, a/b&c" in found
    assert "CPU 0: package 0, NUMA node 0, core 0, shared" in found
    assert "shared by 1 container" in found
    assert "shared" not in " ".join(texts(machine("n4c16"), []))


def test_long_legends_go_on_in_the_next_line() -> None:
    """So that the page does not grow to the right."""
    topology = machine("big")
    odd = ",".join(str(cpu) for cpu in range(0, 256, 2))
    of_owner = texts(topology, [{"container": "x", "exclusive": odd}])
    of_isolated = texts(replace(topology, isolated=CpuSet.parse(odd)))
    for found in (of_owner, of_isolated):
        assert max(map(len, found)) <= PAGE // 10
        assert "254" in found[-1].split(",")
