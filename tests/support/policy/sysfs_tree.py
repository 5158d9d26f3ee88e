"""A machine written down as files, as its kernel would show it below /sys: for whoever reads the machine from disk."""

from pathlib import Path

from interpose.core.model.cpuset import CpuSet
from interpose.core.topology.topology import Topology


def write_sysfs(topology: Topology, root: Path) -> Path:
    """Make `sys` below this folder, and return the folder. An existing one is overwritten."""
    cpus, nodes = root / "sys/devices/system/cpu", root / "sys/devices/system/node"
    present = topology.online | topology.offline
    _put(cpus / "online", str(topology.online))
    _put(cpus / "offline", str(topology.offline))
    _put(cpus / "present", str(present))
    _put(cpus / "possible", str(present))
    _put(cpus / "isolated", str(topology.isolated))
    for cpu in topology.cpus:
        folder = cpus / f"cpu{cpu.id}"
        _put(folder / "online", "1")
        _put(folder / "topology/physical_package_id", str(cpu.package))
        _put(folder / "topology/die_id", str(cpu.die))
        _put(folder / "topology/core_id", str(cpu.core))
        _put(folder / "topology/thread_siblings_list", str(topology.core_of(cpu.id)))
        (folder / f"node{cpu.node}").mkdir(exist_ok=True)
        if cpu.base_khz:
            _put(folder / "cpufreq/base_frequency", str(cpu.base_khz))
        for level, groups, group in ((2, topology.l2_groups, cpu.l2), (3, topology.l3_groups, cpu.l3)):
            if group in groups:
                index = folder / f"cache/index{level}"
                for name, text in (("level", str(level)), ("type", "Unified"), ("size", "32768K")):
                    _put(index / name, text)
                _put(index / "shared_cpu_list", str(groups[group]))
    for number in topology.offline:
        _put(cpus / f"cpu{number}/online", "0")
    ids = [node.id for node in topology.nodes]
    _put(nodes / "online", str(CpuSet.of(ids)))
    _put(nodes / "has_memory", str(CpuSet.of(node.id for node in topology.nodes if node.memory_bytes)))
    normal = (node.id for node in topology.nodes if node.memory_bytes and not node.movable)
    _put(nodes / "has_normal_memory", str(CpuSet.of(normal)))
    for node in topology.nodes:
        folder = nodes / f"node{node.id}"
        _put(folder / "cpulist", str(node.cpus))
        _put(folder / "distance", " ".join(str(node.distances[one]) for one in ids))
        _put(folder / "meminfo", f"Node {node.id} MemTotal:       {node.memory_bytes // 1024} kB")
    return root


def _put(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
