"""Machines out of files, with all that real ones leave out."""

from collections.abc import Mapping

import pytest

from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.parse import CPUS, NODES, parse_sysfs
from interpose.core.topology.topology import NO_CACHE, CoreKind, MemoryKind, Topology
from tests.support.policy.machines import COPIES, machine


def sysfs(cpus: Mapping[int, tuple[int, int, str]], **more: str) -> dict[str, str]:
    """CPUs by number: package, core id, siblings; files of CPUs by name as cpu3__online="0"."""
    found = {f"{CPUS}/online": str(CpuSet.of(cpus)) + "\n"}
    for cpu, (package, core, siblings) in cpus.items():
        folder = f"{CPUS}/cpu{cpu}/topology"
        found[f"{folder}/physical_package_id"] = f"{package}\n"
        found[f"{folder}/core_id"] = f"{core}\n"
        found[f"{folder}/thread_siblings_list"] = f"{siblings}\n"
    return found | {f"{CPUS}/{name.replace('__', '/')}": text for name, text in more.items()}


TWO_CORES = {0: (0, 0, "0,2"), 1: (0, 1, "1,3"), 2: (0, 0, "0,2"), 3: (0, 1, "1,3")}


def cores(topology: Topology) -> dict[int, str]:
    return {core: str(cpus) for core, cpus in topology.cores.items()}


@pytest.mark.parametrize(
    ("name", "cpus", "packages", "nodes", "others"),
    [
        ("2-socket-4-node-40-core", 80, 2, 4, {}),
        ("desktop", 20, 1, 1, {}),
        ("server", 112, 2, 4, {4: MemoryKind.PMEM, 5: MemoryKind.PMEM}),
    ],
)
def test_copies_of_real_machines(
    name: str, cpus: int, packages: int, nodes: int, others: Mapping[int, MemoryKind]
) -> None:
    """CPUs, packages, nodes with CPUs, and nodes with memory alone."""
    found = machine(name)
    assert (len(found.cpus), len(found.packages), len(found.numa)) == (cpus, packages, nodes)
    assert {node.id: node.memory for node in found.nodes if not node.cpus} == others
    assert all(node.memory is MemoryKind.DRAM and node.memory_bytes for node in found.nodes if node.cpus)
    assert (found.threads_per_core, len(found.l3_groups)) == (2, packages)


def test_the_parts_of_a_real_machine() -> None:
    """As its own tools show them."""
    found = machine("2-socket-4-node-40-core")
    assert {package: str(cpus) for package, cpus in found.packages.items()} == {0: "0-19,40-59", 1: "20-39,60-79"}
    assert str(found.numa[1]) == "3-4,7-9,13-14,17-19,43-44,47-49,53-54,57-59"
    assert str(found.core_of(59)) == "19,59"
    assert str(machine("server").isolated) == "4-7,60-63"


@pytest.mark.parametrize("name", COPIES)
def test_cores_and_caches_are_named_by_their_lowest_cpu(name: str) -> None:
    """On every real machine."""
    found = machine(name)
    for groups in (found.cores, found.l2_groups, found.l3_groups):
        assert all(min(cpus) == first for first, cpus in groups.items())


def test_a_core_is_named_by_its_lowest_cpu_that_is_online() -> None:
    """Of the others only the numbers are known."""
    files = sysfs(TWO_CORES, cpu0__online="0", isolated="0-1\n")
    found = parse_sysfs(files, "half")
    assert cores(found) == {1: "1,3", 2: "2"}
    assert (str(found.online), str(found.offline), str(found.isolated)) == ("1-3", "0", "1")
    assert found.name == "half"


def test_cpus_that_could_be_plugged_in_are_not_there() -> None:
    """Only those present are offline; one without a folder is present, too."""
    found = parse_sysfs({f"{CPUS}/online": "0-1", f"{CPUS}/present": "0-3", f"{CPUS}/possible": "0-255"})
    assert (str(found.online), str(found.offline)) == ("0-1", "2-3")


def test_without_a_list_the_folders_say_which_cpus_are_online() -> None:
    """And the file in the folder, if there is one."""
    files = sysfs(TWO_CORES, cpu3__online="0", cpu2__online="1")
    del files[f"{CPUS}/online"]
    assert str(parse_sysfs(files).online) == "0-2"


@pytest.mark.parametrize(
    ("files", "problem"),
    [
        ({}, f"there are no CPUs in {CPUS}"),
        ({f"{CPUS}/online": "\n"}, f"file {CPUS}/online: there is no CPU online"),
        ({f"{CPUS}/online": "all"}, f"file {CPUS}/online: 'all' is not a list of CPUs"),
        ({f"{CPUS}/online": "0", f"{CPUS}/isolated": "?"}, f"file {CPUS}/isolated: '\\?' is not a list"),
        (sysfs(TWO_CORES, cpu1__topology__die_id="left"), f"file {CPUS}/cpu1/topology/die_id: .* found 'left'"),
        (sysfs(TWO_CORES, cpu1__topology__physical_package_id="x"), "cpu1/topology/physical_package_id: .* found 'x'"),
        (sysfs(TWO_CORES, cpu1__topology__core_id="x"), "cpu1/topology/core_id: .* found 'x'"),
        (sysfs(TWO_CORES, cpu1__topology__thread_siblings_list="1-"), "thread_siblings_list: '1-' is not a list"),
        (sysfs(TWO_CORES, cpu1__cache__index0__level="L1"), "cpu1/cache/index0/level: .* found 'L1'"),
        ({f"{CPUS}/online": "0", "devices/cpu_core/cpus": "P"}, "file devices/cpu_core/cpus: 'P' is not a list"),
        (
            {f"{CPUS}/online": "0", f"{NODES}/node0/cpulist": "none"},
            f"file {NODES}/node0/cpulist: 'none' is not a list",
        ),
    ],
)
def test_what_matters_and_is_garbage_is_refused(files: Mapping[str, str], problem: str) -> None:
    """With path and text."""
    with pytest.raises(ValueError, match=problem):
        parse_sysfs(files)


def test_what_does_not_matter_may_be_garbage() -> None:
    """Frequencies, the size and the type of a cache."""
    files = sysfs(
        TWO_CORES,
        cpu0__cpufreq__base_frequency="<unsupported>",
        cpu0__cpufreq__cpuinfo_max_freq="3700000",
        cpu0__cache__index3__level="3",
        cpu0__cache__index3__size="big",
        cpu0__cache__index3__type="Magic",
        cpu0__cache__index3__shared_cpu_list="0-3",
    )
    found = parse_sysfs(files)
    assert (found.by_id[0].base_khz, found.by_id[0].max_khz) == (0, 3700000)
    assert [(cache.kind, cache.size_bytes) for cache in found.caches] == [("unified", 0)]


def test_packages_and_dies_that_the_kernel_does_not_know_are_the_first() -> None:
    """It says -1, or nothing."""
    files = sysfs({0: (-1, 0, "0"), 1: (-1, 1, "1")}, cpu0__topology__die_id="-1")
    assert list(parse_sysfs(files).dies) == [(0, 0)]


def test_dies_are_of_their_package() -> None:
    """The kernel counts them anew in each."""
    files = sysfs(
        {cpu: (cpu // 2, cpu, str(cpu)) for cpu in range(4)},
        **{f"cpu{cpu}__topology__die_id": str(cpu % 2) for cpu in range(4)},
    )
    assert list(parse_sysfs(files).dies) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_packages_with_numbers_beyond_all_sets_are_counted_anew() -> None:
    """Some firmware numbers them by offsets in its tables."""
    files = sysfs({0: (9512, 0, "0"), 1: (36, 0, "1")})
    found = parse_sysfs(files)
    assert [cpu.package for cpu in found.cpus] == [1, 0]
    assert str(found.packages_of(found.online)) == "0-1"


def test_without_lists_of_siblings_core_ids_say_who_shares_a_core() -> None:
    """They repeat in every package."""
    files = sysfs({0: (0, 0, ""), 1: (0, 0, ""), 2: (1, 0, ""), 3: (1, 0, "")})
    assert cores(parse_sysfs(files)) == {0: "0-1", 2: "2-3"}


def test_without_anything_every_cpu_is_a_core() -> None:
    """Of one package and one node."""
    found = parse_sysfs({f"{CPUS}/online": "0-2"})
    assert cores(found) == {0: "0", 1: "1", 2: "2"}
    assert (len(found.packages), len(found.numa), len(found.nodes)) == (1, 1, 1)
    assert {(cpu.l2, cpu.l3) for cpu in found.cpus} == {(NO_CACHE, NO_CACHE)}
    assert found.caches == ()


def test_lists_that_overlap_are_one_core() -> None:
    """Otherwise a core would be named by a CPU of another one."""
    files = sysfs({0: (0, 0, "0-1"), 1: (0, 1, "1"), 2: (0, 2, "1-2"), 3: (0, 3, "3")})
    assert cores(parse_sysfs(files)) == {0: "0-2", 3: "3"}


def cached(folders: Mapping[str, tuple[str, str, str, str]]) -> Topology:
    """Four CPUs with these caches: level, type, size, shared by."""
    files = sysfs(TWO_CORES)
    for folder, texts in folders.items():
        for name, text in zip(("level", "type", "size", "shared_cpu_list"), texts, strict=True):
            files[f"{CPUS}/{folder}/{name}"] = text
    return parse_sysfs(files)


def test_caches_are_listed_once_and_cpus_know_theirs() -> None:
    """By their lowest CPU; those for instructions and of other levels do not count."""
    found = cached(
        {
            "cpu0/cache/index3": ("3", "Unified", "32M", "0-3"),
            "cpu1/cache/index3": ("3", "Unified", "32M", "0-3"),
            "cpu0/cache/index2": ("2", "Unified", "512K", "0,2"),
            "cpu1/cache/index2": ("2", "Unified", "512K", "1,3"),
            "cpu1/cache/index1": ("2", "Instruction", "64", "1"),
            "cpu0/cache/index4": ("4", "Unified", "1G", "0"),
        }
    )
    assert [(cache.level, cache.kind, cache.size_bytes, str(cache.cpus)) for cache in found.caches] == [
        (2, "instruction", 64, "1"),
        (2, "unified", 512 << 10, "0,2"),
        (2, "unified", 512 << 10, "1,3"),
        (3, "unified", 32 << 20, "0-3"),
        (4, "unified", 1 << 30, "0"),
    ]
    assert [(cpu.l2, cpu.l3) for cpu in found.cpus] == [(0, 0), (1, 0), (0, 0), (1, 0)]


def test_a_cache_that_says_too_little_is_left_out() -> None:
    """Without a level, or without anybody online who shares it."""
    found = cached({"cpu0/cache/index0": ("", "Data", "1K", "0"), "cpu0/cache/index1": ("1", "Data", "1K", "9")})
    assert found.caches == ()


def test_cores_of_two_kinds() -> None:
    """The kernel lists them where it counts their events."""
    files = sysfs(TWO_CORES) | {
        "devices/cpu_core/cpus": "0,2\n",
        "devices/cpu_atom/cpus": "1\n",
        "devices/cpu_lowpower/cpus": "3\n",
    }
    kinds = [cpu.kind for cpu in parse_sysfs(files).cpus]
    assert kinds == [CoreKind.PERFORMANCE, CoreKind.EFFICIENCY, CoreKind.PERFORMANCE, CoreKind.EFFICIENCY]


def test_a_machine_of_small_cores_only_has_one_kind() -> None:
    """There is nothing that would be better."""
    files = sysfs(TWO_CORES) | {"devices/cpu_atom/cpus": "0-3\n"}
    assert {cpu.kind for cpu in parse_sysfs(files).cpus} == {CoreKind.PERFORMANCE}
