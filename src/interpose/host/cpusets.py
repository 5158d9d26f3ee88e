"""Which CPUs and memory nodes a cgroup may use: what "no restriction" means when it has to be written down."""

from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_DEVICES = Path("/sys/devices/system")
# The first of the two is what cgroup v2 and newer v1 kernels offer; a v1 group that inherits nothing has the second.
_FILES = (
    ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"),
    ("cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems"),
)
_ONLINE = ("cpu/online", "node/online")


def allowed_sets(cgroup_parent: str, cgroups: Path = _CGROUPS, devices: Path = _DEVICES) -> tuple[str, str]:
    """CPUs and memory nodes below this cgroup parent, as kernel lists; of its nearest ancestor if it has none itself.

    Memory nodes fall back to "0": a kernel without NUMA has one node and no list of nodes.
    """
    root = cgroups / "cpuset" if (cgroups / "cpuset").is_dir() else cgroups
    group = root.joinpath(*(part for part in cgroup_parent.split("/") if part not in ("", ".", "..")))
    places = [group, *(place for place in group.parents if place.is_relative_to(root))]
    found = []
    for names, online in zip(_FILES, _ONLINE, strict=True):
        candidates = [place / name for place in places for name in names] + [devices / online]
        found.append(next((text for path in candidates if (text := _read(path))), ""))
    return found[0], found[1] or "0"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
