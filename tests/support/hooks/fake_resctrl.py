"""A resctrl file system in memory, with the kernel's rules, for whoever touches files through `Files`.

Paths that are not below its root are those of another one, such as a fake kernel with cgroups; without one they do not
exist.
"""

import errno
import os
from collections.abc import Iterable

from interpose.host.cgroup.files import CgroupFiles
from interpose.host.resctrl import Schemata, parse_schemata

_ROOT_GROUP = ""
_GROUP_FILES = frozenset(("schemata", "tasks"))


class FakeResctrl:
    """Groups, their schemata and tasks. `writes` is everything that was written, refused or not."""

    def __init__(
        self,
        *,
        cbm_mask: int = 0x7FF,
        caches: Iterable[int] = (0, 1),
        vendor: str = "GenuineIntel",
        bandwidth: int = 100,
        closids: int = 8,
        min_bits: int = 1,
        root: str = "/sys/fs/resctrl",
        proc: str = "/proc",
        other: CgroupFiles | None = None,
    ) -> None:
        self.writes: list[tuple[str, str]] = []
        self.mounted = True
        self._full: Schemata = {
            "L3": dict.fromkeys(caches, cbm_mask),
            "MB": dict.fromkeys(caches, bandwidth),
        }
        self._closids = closids
        self._min_bits = min_bits
        self._root = root
        self._other = other
        self._status = "ok"
        self._groups: dict[str, Schemata] = {_ROOT_GROUP: self._fresh()}
        self._tasks: dict[int, str] = {}
        self._facts = {
            f"{root}/info/L3/cbm_mask": f"{cbm_mask:x}\n",
            f"{root}/info/L3/min_cbm_bits": f"{min_bits}\n",
            f"{root}/info/L3/num_closids": f"{closids}\n",
            f"{root}/info/MB/num_closids": f"{closids}\n",
        }
        self._cpuinfo = (f"{proc}/cpuinfo", f"processor\t: 0\nvendor_id\t: {vendor}\nprocessor\t: 1\n")

    # -- for tests

    def spawn(self, tid: int, parent: int | None = None) -> None:
        """A thread appears, in the group of its parent."""
        self._tasks[tid] = _ROOT_GROUP if parent is None else self._tasks[parent]

    def kill(self, tid: int) -> None:
        """A thread ends."""
        del self._tasks[tid]

    def group_of(self, tid: int) -> str:
        """The group a thread is in; the root group has an empty name."""
        return self._tasks[tid]

    def groups(self) -> list[str]:
        """Names of all groups but the root."""
        return [group for group in self._groups if group != _ROOT_GROUP]

    # -- Files

    def read(self, path: str) -> str:
        """A file of the root, of a group, of `info`, or /proc/cpuinfo."""
        if path == self._cpuinfo[0]:
            return self._cpuinfo[1]
        if not self._owns(path):
            return self._elsewhere(path).read(path)
        if not self.mounted:
            raise _error(errno.ENOENT, path)
        if path == f"{self._root}/info/last_cmd_status":
            return f"{self._status}\n"
        if path in self._facts:
            return self._facts[path]
        group, name = self._group_file(path)
        if name == "tasks":
            return "".join(f"{tid}\n" for tid, place in sorted(self._tasks.items()) if place == group)
        return "".join(
            f"{resource:>6}:{';'.join(f'{key}={value:{_form(resource)}}' for key, value in values.items())}\n"
            for resource, values in self._groups[group].items()
        )

    def write(self, path: str, text: str) -> None:
        """Move a thread, or change what a group may use."""
        if not self._owns(path):
            self._elsewhere(path).write(path, text)
            return
        self.writes.append((path, text))
        group, name = self._group_file(path)
        if name == "schemata":
            self._change(group, text)
        elif int(text) not in self._tasks:
            raise _error(errno.ESRCH, path)
        else:
            self._tasks[int(text)] = group

    def exists(self, path: str) -> bool:
        """Whether a file or directory is there."""
        if not self._owns(path) and path != self._cpuinfo[0]:
            return self._other is not None and self._other.exists(path)
        try:
            self.read(path)
        except FileNotFoundError:
            return self.mounted and path in (self._root, *(f"{self._root}/{group}" for group in self.groups()))
        return True

    def directories(self, path: str) -> list[str]:
        """Groups, and what else has a directory."""
        if not self._owns(path):
            return self._elsewhere(path).directories(path)
        if not self.mounted or path != self._root:
            raise _error(errno.ENOENT, path)
        return ["info", "mon_data", "mon_groups", *self.groups()]

    def make_directory(self, path: str) -> None:
        """A new group, as long as the processor has classes of service. The root group takes one."""
        if not self._owns(path):
            self._elsewhere(path).make_directory(path)
            return
        group = self._group(path)
        if group in self._groups:
            raise _error(errno.EEXIST, path)
        if len(self._groups) >= self._closids:
            raise _error(errno.ENOSPC, path)
        self._groups[group] = self._fresh()

    def remove_directory(self, path: str) -> None:
        """Remove a group; its threads go to the root group."""
        if not self._owns(path):
            self._elsewhere(path).remove_directory(path)
            return
        group = self._group(path)
        if group not in self._groups:
            raise _error(errno.ENOENT, path)
        del self._groups[group]
        self._tasks = {tid: _ROOT_GROUP if place == group else place for tid, place in self._tasks.items()}

    # -- rules

    def _change(self, group: str, text: str) -> None:
        changed = {resource: dict(values) for resource, values in self._groups[group].items()}
        try:
            if not text.endswith("\n"):
                raise ValueError("no newline at the end")
            for resource, values in parse_schemata(text).items():
                self._check(resource, values)
                changed[resource] |= values
        except ValueError as error:
            self._status = str(error)
            raise _error(errno.EINVAL, group) from None
        self._status = "ok"
        self._groups[group] = changed

    def _check(self, resource: str, values: dict[int, int]) -> None:
        full = self._full.get(resource)
        if full is None:
            raise ValueError(f"Unknown or unsupported resource name '{resource}'")
        for key, value in values.items():
            if key not in full:
                raise ValueError(f"Unknown domain {key}")
            if resource == "L3" and not self._usable(value, full[key]):
                raise ValueError(f"The mask {value:x} cannot be used")
            if resource == "MB" and not 0 < value <= full[key]:
                raise ValueError(f"MB value {value} out of range")

    def _usable(self, mask: int, full: int) -> bool:
        """Within the cache, not empty or too small, and in one piece."""
        lowest = mask & -mask
        return not mask & ~full and mask.bit_count() >= self._min_bits and not mask & (mask + lowest)

    def _fresh(self) -> Schemata:
        return {resource: dict(values) for resource, values in self._full.items()}

    def _owns(self, path: str) -> bool:
        return path == self._root or path.startswith(f"{self._root}/")

    def _elsewhere(self, path: str) -> CgroupFiles:
        if self._other is None:
            raise _error(errno.ENOENT, path)
        return self._other

    def _group(self, path: str) -> str:
        """The name of a group by its directory."""
        name = path.removeprefix(f"{self._root}/")
        if not self.mounted:
            raise _error(errno.ENOENT, path)
        if "/" in name or name in ("info", "mon_data", "mon_groups") or not name:
            raise _error(errno.EPERM, path)
        return name

    def _group_file(self, path: str) -> tuple[str, str]:
        place, _, name = path.removeprefix(f"{self._root}/").rpartition("/")
        if not self.mounted or place not in self._groups or name not in _GROUP_FILES:
            raise _error(errno.ENOENT, path)
        return place, name


def _form(resource: str) -> str:
    return "x" if resource.startswith("L") else "d"


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
