"""What this kernel offers: looked at where pods live, and again before each round, since that may change.

Only looks; a file that is there counts. What cannot be read is not there.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from interpose.core.model.cgroup import KubeQos
from interpose.hooks.server.plugin import Kernel, Resctrl
from interpose.host import resctrl
from interpose.host.cgroup.files import CgroupFiles
from interpose.host.cgroup.parameters import TABLE
from interpose.host.cgroup.paths import CgroupLayout
from interpose.host.cgroup.tree import CgroupTree
from interpose.host.coresched import is_supported

# Children of one directory have the same files, but on v1 each may be missing in some hierarchy.
_MAX_CHILDREN: Final = 8


def probe(
    tree: CgroupTree,
    files: CgroupFiles,
    proc_root: str = "/proc",
    sys_root: str = "/sys",
    layout: CgroupLayout | None = None,
    *,
    core_sched: Callable[[], bool] = is_supported,
) -> Kernel:
    """The features; without a layout (the kubelet has made no cgroups yet) cgroups of others are looked at instead."""
    directories = tuple(_probe_directories(tree, layout))
    return Kernel(
        parameters=frozenset(
            name for name in TABLE if any(tree.supports(directory, name) for directory in directories)
        ),
        group_identity=_sysctl(files, proc_root, "sched_group_identity_enabled"),
        sched_core=_sysctl(files, proc_root, "sched_core"),
        core_sched=core_sched(),
        resctrl=_resctrl(files, sys_root, proc_root),
    )


def _probe_directories(tree: CgroupTree, layout: CgroupLayout | None) -> Iterator[str]:
    """Directories to look at. The root, which lacks some files, counts only as long as there are no pods."""
    for directory in ("",) if layout is None else map(layout.qos_directory, KubeQos):
        yield directory
        yield from _children(tree, directory)


def _children(tree: CgroupTree, directory: str) -> Iterator[str]:
    with suppress(OSError):
        for name in sorted(tree.children(directory))[:_MAX_CHILDREN]:
            yield f"{directory}/{name}" if directory else name


def _resctrl(files: CgroupFiles, sys_root: str, proc_root: str) -> Resctrl | None:
    found = resctrl.probe(files, sys_root, proc_root)
    if found is None:
        return None
    return Resctrl(cbm_mask=found.cbm_mask, l3_ids=found.l3_ids, mb_ids=found.mb_ids, vendor=found.vendor)


def _sysctl(files: CgroupFiles, proc_root: str, name: str) -> int | None:
    try:
        return int(files.read(f"{proc_root}/sys/kernel/{name}"))
    except (OSError, ValueError):
        return None
