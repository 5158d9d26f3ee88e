"""The resctrl file system: groups of tasks with a share of the cache and of the memory bandwidth.

A group is a directory, and the processor has few of them (its classes of service). A thread is in one group; children
are born into the group of their parent; a thread in no other group is in the root group. The file system is mounted
already, or not.
"""

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from interpose.host.cgroup.files import CgroupFiles

ROOT_GROUP: Final = ""
_NO_GROUPS: Final = frozenset(("info", "mon_groups", "mon_data"))
_MASKS: Final = ("L3", "L2")  # with L3CODE and such: bit masks in hex; the others are decimal

Schemata = dict[str, dict[int, int]]  # resource -> cache id -> value


@dataclass(frozen=True, slots=True, kw_only=True)
class ResctrlInfo:
    """The resources that the processor can partition. Without L3 the mask is zero."""

    cbm_mask: int
    l3_ids: tuple[int, ...] = ()
    mb_ids: tuple[int, ...] = ()
    vendor: str = ""  # as /proc/cpuinfo names it; empty if it does not


def parse_schemata(text: str) -> Schemata:
    """Lines like "L3:0=7ff;1=7ff"; ValueError that names a line which is none."""
    found: Schemata = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        resource, colon, values = line.partition(":")
        try:
            if not colon:
                raise ValueError
            base = 16 if resource.startswith(_MASKS) else 10
            pairs = (item.split("=") for item in values.split(";") if item.strip())
            found[resource] = {int(key): int(value, base) for key, value in pairs}
        except ValueError:
            raise ValueError(f"{line!r} is not a line of a schemata file") from None
    return found


def render_schemata(schemata: Mapping[str, Mapping[int, int]]) -> str:
    """The lines as they are written, each value followed by a semicolon."""
    return "".join(
        f"{resource}:{''.join(f'{key}={value:{_form(resource)}};' for key, value in values.items())}\n"
        for resource, values in schemata.items()
    )


def _form(resource: str) -> str:
    return "x" if resource.startswith(_MASKS) else "d"


def probe(files: CgroupFiles, sys_root: str = "/sys", proc_root: str = "/proc") -> ResctrlInfo | None:
    """The resources of this machine; None if resctrl is not mounted, or shows nothing that can be used."""
    tree = ResctrlTree(files, f"{sys_root}/fs/resctrl")
    try:
        schemata = parse_schemata(tree.schemata(ROOT_GROUP))
        l3_ids = tuple(schemata.get("L3", ()))
        mask = int(tree.info("L3", "cbm_mask"), 16) if l3_ids else 0
        cpus = files.read(f"{proc_root}/cpuinfo")
    except (OSError, ValueError):
        return None
    vendors = (line.partition(":")[2].strip() for line in cpus.splitlines() if line.startswith("vendor_id"))
    return ResctrlInfo(cbm_mask=mask, l3_ids=l3_ids, mb_ids=tuple(schemata.get("MB", ())), vendor=next(vendors, ""))


class ResctrlTree:
    """Groups by name; the root group has an empty one."""

    def __init__(self, files: CgroupFiles, root: str = "/sys/fs/resctrl") -> None:
        self._files = files
        self._root = root

    def mounted(self) -> bool:
        """Whether there is a resctrl file system."""
        return self._files.exists(f"{self._root}/schemata")

    def groups(self) -> list[str]:
        """Names of all groups but the root."""
        return sorted(name for name in self._files.directories(self._root) if name not in _NO_GROUPS)

    def make(self, group: str) -> bool:
        """Make a group that restricts nothing yet; False if there is one."""
        try:
            self._files.make_directory(self._path(group))
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            text = f"the processor has no class of service left for group {group}; it has {self._closids()} in all"
            raise OSError(errno.ENOSPC, text) from None
        return True

    def remove(self, group: str) -> bool:
        """Remove a group, its tasks go to the root group; False if there is none."""
        try:
            self._files.remove_directory(self._path(group))
        except FileNotFoundError:
            return False
        return True

    def schemata(self, group: str) -> str:
        """What a group may use, as the kernel writes it."""
        return self._files.read(f"{self._path(group)}/schemata")

    def write_schemata(self, group: str, text: str) -> None:
        """Change what a group may use, one resource at a time. The kernel's reason is in the error if it has one."""
        for line in filter(None, map(str.strip, text.splitlines())):
            try:
                self._files.write(f"{self._path(group)}/schemata", f"{line}\n")
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                raise OSError(errno.EINVAL, f"the kernel refuses {line} for group {group}: {self._reason()}") from None

    def tasks(self, group: str) -> list[int]:
        """Threads in a group."""
        return [int(tid) for tid in self._files.read(f"{self._path(group)}/tasks").split()]

    def add_task(self, group: str, tid: int) -> None:
        """Move a thread into a group; ProcessLookupError if it is gone."""
        self._files.write(f"{self._path(group)}/tasks", f"{tid}\n")

    def info(self, resource: str, name: str) -> str:
        """A fact about a resource, such as the `cbm_mask` of L3."""
        return self._files.read(f"{self._root}/info/{resource}/{name}").strip()

    def _path(self, group: str) -> str:
        if group == ROOT_GROUP:
            return self._root
        if group in _NO_GROUPS or group.startswith(".") or "/" in group or not group.isprintable():
            raise OSError(errno.EINVAL, f"{group!r} cannot be the name of a resctrl group")
        return f"{self._root}/{group}"

    def _closids(self) -> str:
        for resource in ("L3", "MB"):
            try:
                return self.info(resource, "num_closids")
            except OSError:
                continue
        return "an unknown number"

    def _reason(self) -> str:
        try:
            return self._files.read(f"{self._root}/info/last_cmd_status").strip() or "no reason given"
        except OSError:
            return "no reason given"
