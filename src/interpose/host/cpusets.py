"""Which CPUs and memory nodes a cgroup may use: what "no restriction" means when it has to be written down."""

from pathlib import Path
from typing import TYPE_CHECKING

from interpose.core.model.cgroup import CGROUP_ROOT
from interpose.core.model.cpuset import CpuSet
from interpose.core.policy.constraints import ExcludedCpus
from interpose.errors import ConfigError

if TYPE_CHECKING:
    from interpose.config.documents.amounts import CpuAmount

_ROOT = Path("/")
_CGROUPS = Path(CGROUP_ROOT)
_DEVICES = Path("/sys/devices/system")
# The first of the two is what cgroup v2 and newer v1 kernels offer; a v1 group that inherits nothing has the second.
_FILES = (
    ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"),
    ("cpuset.mems.effective", "cpuset.effective_mems", "cpuset.mems"),
)
_ONLINE = ("cpu/online", "node/online")


def read_allowed_sets(cgroup_parent: str, cgroups: Path = _CGROUPS, devices: Path = _DEVICES) -> tuple[str, str]:
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


def resolve(amount: "CpuAmount", where: str = "cpu", root: Path = _ROOT) -> CpuSet | ExcludedCpus | int:
    """The CPUs an amount names or excludes, those of its cgroup, or thousandths of a CPU.

    ConfigError if a cgroup has none.

    A cgroup is a directory, or one below the tree of cgroups or below its cpuset controller; all of it below `root`,
    where the host's file system is.
    """
    if amount.cpus is not None:
        return amount.cpus
    if amount.excluded is not None:
        return ExcludedCpus(amount.excluded)
    if amount.cgroup is None:
        return amount.milli or 0
    below = amount.cgroup.lstrip("/")
    cgroups = root / _CGROUPS.relative_to("/")
    places = [root / below] if amount.cgroup.startswith("/") else []
    places += [cgroups / below, cgroups / "cpuset" / below]
    text = next((text for place in places for name in _FILES[0] if (text := _read(place / name))), "")
    try:
        cpus = CpuSet.parse(text)
    except ValueError as error:
        raise ConfigError(f"{where}: cgroup {amount.cgroup}: {error}") from None
    if not cpus:
        tried = ", ".join(map(str, places))
        raise ConfigError(f"{where}: cgroup {amount.cgroup} has no CPUs, looked for {_FILES[0][0]} and such in {tried}")
    return cpus


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
