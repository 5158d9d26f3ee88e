"""Laws of machines: whatever is read, the parts fit together; whatever is not, is refused in one line."""

import json

from hypothesis import given
from hypothesis import strategies as st

from interpose.config.documents.topology import read_topology_document
from interpose.config.documents.yaml import parse_document
from interpose.core.topology.document import topology_document
from interpose.core.topology.parse import CPUS, NODES, parse_sysfs
from interpose.core.topology.synthetic import Block, MachineLayout, build, parse_text
from interpose.core.topology.topology import MemoryKind, Topology

small = st.integers(1, 3)
blocks = st.lists(
    st.builds(
        Block,
        packages=small,
        dies=small,
        nodes=small,
        cores=st.integers(0, 3),
        threads=small,
        memory_bytes=st.integers(0, 1 << 40),
        memory=st.sampled_from([MemoryKind.DRAM, MemoryKind.PMEM, MemoryKind.HBM]),
    ),
    min_size=1,
    max_size=3,
).filter(lambda found: any(block.cores for block in found))
lists = st.sampled_from(["", "0", "1", "2", "0-1", "1-2", "0-3", "2-3", "0,2", "1,3", "7", "(null)"])
numbers = st.sampled_from(["", "0", "1", "2", "-1", "9000", "77777"])
garbage = st.text(max_size=8)


def fits(topology: Topology) -> None:
    """Every CPU is in one part of each kind, and a core or cache is named by its lowest CPU."""
    assert [cpu.id for cpu in topology.cpus] == list(topology.online)
    assert not topology.online & topology.offline
    assert topology.isolated <= topology.online
    for groups in (topology.cores, topology.l2_groups, topology.l3_groups):
        assert all(next(iter(cpus)) == first for first, cpus in groups.items())
    ids = [node.id for node in topology.nodes]
    assert ids == sorted(set(ids))
    assert {node.id: node.cpus for node in topology.nodes if node.cpus} == topology.numa
    assert all(list(node.distances) == ids for node in topology.nodes)
    assert all(cache.cpus and cache.cpus <= topology.online for cache in topology.caches)


def comes_back(topology: Topology) -> None:
    """Its document is read to the same machine."""
    text = json.dumps(topology_document(topology))
    assert read_topology_document(parse_document(text, "x", json_only=True), "x") == topology


@given(blocks, st.booleans(), st.integers(0, 4))
def test_machines_of_equal_parts_fit_and_come_back(made: list[Block], interleaved: bool, l3_cores: int) -> None:
    """With either way of numbering."""
    threads = max(block.threads for block in made)
    even = [Block(cores=block.cores, nodes=block.nodes, threads=threads) for block in made] if interleaved else made
    topology = build(even, MachineLayout(interleaved=interleaved, l3_cores=l3_cores))
    fits(topology)
    comes_back(topology)


@st.composite
def sysfs(draw: st.DrawFn) -> dict[str, str]:
    """Files of up to four CPUs and three nodes that need not agree with each other; some are missing."""
    paths = {f"{CPUS}/{name}": lists for name in ("online", "present", "isolated")}
    paths |= {f"{NODES}/{name}": lists for name in ("has_memory", "has_normal_memory")}
    for cpu in range(4):
        folder = f"{CPUS}/cpu{cpu}"
        paths |= {f"{folder}/topology/{name}": numbers for name in ("physical_package_id", "die_id", "core_id")}
        paths |= {f"{folder}/topology/thread_siblings_list": lists, f"{folder}/online": numbers}
        paths |= {f"{folder}/cache/index{index}/level": numbers for index in (2, 3)}
        paths |= {f"{folder}/cache/index{index}/shared_cpu_list": lists for index in (2, 3)}
        paths |= {f"{folder}/node{node}": st.just("") for node in (0, 5)}
    for node in range(3):
        paths |= {f"{NODES}/node{node}/cpulist": lists, f"{NODES}/node{node}/distance": garbage}
        paths |= {f"{NODES}/node{node}/meminfo": st.sampled_from(["", "Node 0 MemTotal: 7 kB", "MemTotal: 0 kB"])}
    chosen = draw(st.sets(st.sampled_from(sorted(paths))))
    return {path: draw(paths[path]) for path in sorted(chosen) if not path.endswith("distance") or draw(st.booleans())}


@given(sysfs())
def test_files_that_contradict_each_other_make_a_machine_that_fits_or_none(files: dict[str, str]) -> None:
    """Never one whose parts do not fit, and every refusal is one short line."""
    try:
        topology = parse_sysfs(files)
    except ValueError as error:
        assert str(error).isprintable()  # noqa: PT017
        assert len(str(error)) < 1000  # noqa: PT017
    else:
        fits(topology)
        comes_back(topology)


words = st.lists(
    st.sampled_from(
        [
            "2 sockets",
            "3 cores",
            " x ",
            "x",
            "2t",
            "2p",
            ";",
            " isolated 1",
            " offline ",
            "0-2",
            "l3 2 cores",
            "memory 1",
        ]
    )
    | garbage,
    max_size=8,
).map("".join)


@given(words)
def test_any_words_are_a_machine_that_fits_or_a_short_refusal(text: str) -> None:
    """Nothing else happens."""
    try:
        topology = parse_text(text)
    except ValueError as error:
        assert str(error).isprintable()  # noqa: PT017
        assert len(str(error)) < 1000  # noqa: PT017
    else:
        fits(topology)
        comes_back(topology)
