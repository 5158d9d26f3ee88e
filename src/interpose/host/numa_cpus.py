"""Which CPUs this machine has, NUMA node by NUMA node, and which of them the kubelet's CPU manager has assigned.

Both are read again on every call: CPUs go offline, the kubelet rewrites its file with every pod.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interpose.core.model.cpuset import CpuSet, KubeletCpus, NumaCpus

# The kubelet's file has a line per container with CPUs of its own: some 100 KiB on the largest machines.
_MAX_STATE_BYTES = 4 << 20


def read_cpus(sys_root: str = "/sys") -> tuple[NumaCpus, ...]:
    """CPUs that are online, by (socket, node). A kernel without NUMA has node 0. OSError if there is no such list."""
    system = Path(sys_root, "devices/system")
    online = CpuSet.parse((system / "cpu/online").read_text())
    node_of = {
        cpu: int(folder.name.removeprefix("node"))
        for folder in (system / "node").glob("node[0-9]*")
        for cpu in CpuSet.parse(_text(folder / "cpulist"))
    }
    found: dict[tuple[int, int], set[int]] = {}
    for cpu in online:
        # A machine that does not know says -1 or has no such file; then all CPUs are of one socket.
        package = _text(system / f"cpu/cpu{cpu}/topology/physical_package_id").strip()
        socket = int(package) if package.isdecimal() else 0
        found.setdefault((socket, node_of.get(cpu, 0)), set()).add(cpu)
    return tuple(
        NumaCpus(socket=socket, node=node, cpus=CpuSet.of(cpus)) for (socket, node), cpus in sorted(found.items())
    )


def kubelet_cpu_manager(state_dir: str = "/var/lib/kubelet") -> KubeletCpus:
    """What the CPU manager has given to containers alone; nothing and no policy if it never wrote its file.

    ValueError that names the file if it cannot be understood. Kubelets before 1.18 name containers without their pods:
    those are under the empty pod uid.
    """
    path = Path(state_dir, "cpu_manager_state")
    try:
        with path.open("rb") as file:
            data = file.read(_MAX_STATE_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return KubeletCpus()
    if len(data) > _MAX_STATE_BYTES:
        raise ValueError(f"file {path}: is larger than {_MAX_STATE_BYTES} bytes")
    try:
        return _state(json.loads(data))
    except RecursionError:
        raise ValueError(f"file {path}: is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"file {path}: {error}") from None


def _state(document: Any) -> KubeletCpus:
    fields = _expect(document, dict, "the file")
    assigned: dict[str, Mapping[str, CpuSet]] = {}
    for name, entry in _expect(fields.get("entries") or {}, dict, "entries").items():
        where = f"entries.{name!r:.80}"
        if isinstance(entry, str):
            assigned[""] = {**assigned.get("", {}), name: _cpus(entry, where)}
            continue
        containers = _expect(entry, dict, where).items()
        assigned[name] = {container: _cpus(text, f"{where}.{container!r:.80}") for container, text in containers}
    return KubeletCpus(
        policy=_expect(fields.get("policyName", ""), str, "policyName"),
        shared=_cpus(fields.get("defaultCpuSet", ""), "defaultCpuSet"),
        assigned=assigned,
    )


def _cpus(value: Any, where: str) -> CpuSet:
    text = _expect(value, str, where)
    try:
        return CpuSet.parse(text)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None


def _expect(value: Any, kind: type, where: str) -> Any:
    if not isinstance(value, kind):
        wanted = "text" if kind is str else "a group of keys"
        raise ValueError(f"{where}: expected {wanted}, found {value!r:.80}")
    return value


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
