"""The rules of the fake kernel: which files a cgroup has, what they accept, and with which error they refuse.

Version 1 was compared with a real kernel (tests/e2e/test_cgroup_files does it again); version 2 follows the kernel's
documentation. Not here: delegation, threaded groups, partitions, and controllers nobody of us uses.
"""

import errno
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from interpose.core.model.cpuset import CpuSet

PAGE: Final = 4096
_NO_LIMIT: Final = ((1 << 63) - 1) // PAGE * PAGE
_MAX_QUOTA: Final = (1 << 44) - 1
_IDLE_SHARES: Final = 3
_MAX_NODES: Final = 1024


@dataclass(slots=True)
class FakeCgroup:
    """One cgroup, in all hierarchies it exists in. Numbers are as the files of v1 have them."""

    path: str
    parent: "FakeCgroup | None"
    where: set[str] = field(default_factory=set)
    children: dict[str, "FakeCgroup"] = field(default_factory=dict)
    processes: dict[int, tuple[int, ...]] = field(default_factory=dict)  # threads by process
    shares: int = 1024
    weight: int = 100
    quota: int = -1
    period: int = 100_000
    burst: int = 0
    idle: int = 0
    bvt: int = 0
    cpus: CpuSet = field(default_factory=CpuSet)
    mems: CpuSet = field(default_factory=CpuSet)
    limit: int = _NO_LIMIT
    migrates: int = 0  # v1: whether pages follow to other memory nodes
    pages: CpuSet = field(default_factory=CpuSet)  # the memory nodes that its pages are on; tests fill it

    def below(self) -> "Iterator[FakeCgroup]":
        """This one and all in it."""
        yield self
        for child in self.children.values():
            yield from child.below()

    def populated(self) -> bool:
        """Whether there is a process in it or below."""
        return any(group.processes for group in self.below())


@dataclass(slots=True, kw_only=True)
class FakeCgroupTree:
    """All cgroups of one kernel."""

    version: int
    root: FakeCgroup
    usage: dict[str, int] = field(default_factory=dict)  # bytes of memory in use, by directory
    doomed: list[int] = field(default_factory=list)  # processes that a rule has ended

    def effective(self, group: FakeCgroup, what: str) -> CpuSet:
        """CPUs or memory nodes ("cpus", "mems") that a group can use in the end."""
        own: CpuSet = getattr(group, what)
        if self.version == 1 or group.parent is None:
            return own
        above = self.effective(group.parent, what)
        return (own & above) or above


class FakeCgroupFile(NamedTuple):
    """One file of a group. No `write`: it cannot be written."""

    controller: str  # empty: in every hierarchy
    read: Callable[[FakeCgroupTree, FakeCgroup], str]
    write: Callable[[FakeCgroupTree, FakeCgroup, str], None] | None = None
    root: bool = True  # whether the root has it


def refuse(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def number_of(text: str) -> int:
    try:
        return int(text.rstrip("\n")) if text[:1] != " " else int("")
    except ValueError:
        raise refuse(errno.EINVAL) from None


# -- cpu


def _write_shares(_: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    number = number_of(text)
    if number < 0 or group.idle or group.parent is None:
        raise refuse(errno.EINVAL)
    group.shares = min(max(number, 2), 262_144)


def _write_weight(_: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    number = number_of(text)
    if not 1 <= number <= 10_000:
        raise refuse(errno.ERANGE if number >= 0 else errno.EINVAL)
    if group.idle:
        raise refuse(errno.EINVAL)
    group.weight = number


def _write_idle(_: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    number = number_of(text)
    if number not in (0, 1) or group.parent is None:
        raise refuse(errno.EINVAL)
    if number != group.idle:  # what shares it had before is forgotten
        group.shares, group.weight = (_IDLE_SHARES, 0) if number else (1024, 100)
    group.idle = number


def _write_bvt(_: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    number = number_of(text)
    if not -1 <= number <= 2:
        raise refuse(errno.EINVAL)
    group.bvt = number


def _bandwidth(node: FakeCgroupTree, group: FakeCgroup, quota: int, period: int, burst: int) -> None:
    """All rules about how quota, period and burst go together, here and with those above and below."""
    limited = quota >= 0
    if (
        group.parent is None
        or not 1000 <= period <= 1_000_000
        or (limited and not 1000 <= quota <= _MAX_QUOTA)
        or not 0 <= burst <= (quota if limited else _MAX_QUOTA)
    ):
        raise refuse(errno.EINVAL)
    before = group.quota, group.period, group.burst
    group.quota, group.period, group.burst = (quota if limited else -1), period, burst
    if node.version == 1 and not _schedulable(node.root, None):
        group.quota, group.period, group.burst = before
        raise refuse(errno.EINVAL)


def _schedulable(group: FakeCgroup, above: int | None) -> bool:
    """Whether no group has more than the nearest limit above it."""
    own = above if group.quota < 0 else (group.quota << 20) // group.period
    if above is not None and own is not None and own > above:
        return False
    return all(_schedulable(child, own) for child in group.children.values())


def _write_quota(node: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    _bandwidth(node, group, number_of(text), group.period, group.burst)


def _write_period(node: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    _bandwidth(node, group, group.quota, number_of(text), group.burst)


def _write_burst(node: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    number = number_of(text)
    if number < 0:
        raise refuse(errno.EINVAL)
    _bandwidth(node, group, group.quota, group.period, number)


def _write_max(node: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    fields = text.split()
    if not fields or (fields[0] != "max" and not fields[0].isdigit()):
        raise refuse(errno.EINVAL)
    quota = -1 if fields[0] == "max" else int(fields[0])
    _bandwidth(node, group, quota, number_of(fields[1]) if len(fields) > 1 else group.period, group.burst)


def _read_max(_: FakeCgroupTree, group: FakeCgroup) -> str:
    return f"{'max' if group.quota < 0 else group.quota} {group.period}"


# -- cpuset; `what` is "cpus" or "mems"


def _read_set(what: str) -> Callable[[FakeCgroupTree, FakeCgroup], str]:
    return lambda _, group: str(getattr(group, what))


def _read_effective(what: str) -> Callable[[FakeCgroupTree, FakeCgroup], str]:
    return lambda node, group: str(node.effective(group, what))


def _write_set(what: str) -> Callable[[FakeCgroupTree, FakeCgroup, str], None]:
    def write(node: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
        if group.parent is None:
            raise refuse(errno.EACCES)
        new = _kernel_list(text)
        top: CpuSet = getattr(node.root, what)
        if new and max(new) >= (max(top) + 1 if what == "cpus" else _MAX_NODES):
            raise refuse(errno.ERANGE)
        if not new <= top:
            raise refuse(errno.EINVAL)
        if node.version == 1:
            if any(not getattr(child, what) <= new for child in group.children.values()):
                raise refuse(errno.EBUSY)
            if not new <= getattr(group.parent, what):
                raise refuse(errno.EACCES)
            if not new and getattr(group, what) and group.populated():
                raise refuse(errno.ENOSPC)
        if what == "mems" and (node.version == 2 or group.migrates) and not group.pages <= new:
            group.pages = new
        setattr(group, what, new)

    return write


def _write_migrate(_: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    group.migrates = int(number_of(text) != 0)


def _kernel_list(text: str) -> CpuSet:
    """The kernel does not mind empty elements."""
    try:
        return CpuSet.parse(",".join(filter(None, text.strip().split(","))))
    except ValueError as error:
        raise refuse(errno.ERANGE if "above" in str(error) else errno.EINVAL) from None


# -- memory


def _read_limit(node: FakeCgroupTree, group: FakeCgroup) -> str:
    return "max" if node.version != 1 and group.limit == _NO_LIMIT else str(group.limit)


def _write_limit(node: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    word = text.strip()
    if group.parent is None or (not word.isdigit() and word != ("-1" if node.version == 1 else "max")):
        raise refuse(errno.EINVAL)
    limit = min(int(word) // PAGE * PAGE, _NO_LIMIT) if word.isdigit() else _NO_LIMIT
    if node.usage.get(group.path, 0) > limit:
        if node.version == 1:
            raise refuse(errno.EBUSY)
        node.doomed += [pid for each in group.below() for pid in each.processes]  # v2 takes it, and makes room
    group.limit = limit


# -- processes


def _read_processes(_: FakeCgroupTree, group: FakeCgroup) -> str:
    return "\n".join(map(str, sorted(group.processes)))


def _read_threads(_: FakeCgroupTree, group: FakeCgroup) -> str:
    return "\n".join(str(thread) for threads in group.processes.values() for thread in threads)


def _move(node: FakeCgroupTree, group: FakeCgroup, text: str) -> None:
    pid = number_of(text)
    for each in node.root.below():
        if (threads := each.processes.pop(pid, None)) is not None:
            group.processes[pid] = threads
            return
    raise refuse(errno.ESRCH)


def _of(attribute: str) -> Callable[[FakeCgroupTree, FakeCgroup], str]:
    return lambda _, group: str(getattr(group, attribute))


V1_FILES: Final[Mapping[str, FakeCgroupFile]] = MappingProxyType(
    {
        "cgroup.procs": FakeCgroupFile("", _read_processes, _move),
        "tasks": FakeCgroupFile("", _read_threads),
        "cpu.shares": FakeCgroupFile("cpu", _of("shares"), _write_shares),
        "cpu.cfs_quota_us": FakeCgroupFile("cpu", _of("quota"), _write_quota),
        "cpu.cfs_period_us": FakeCgroupFile("cpu", _of("period"), _write_period),
        "cpu.cfs_burst_us": FakeCgroupFile("cpu", _of("burst"), _write_burst),
        "cpu.idle": FakeCgroupFile("cpu", _of("idle"), _write_idle),
        "cpu.bvt_warp_ns": FakeCgroupFile("cpu", _of("bvt"), _write_bvt),
        "cpuset.cpus": FakeCgroupFile("cpuset", _read_set("cpus"), _write_set("cpus")),
        "cpuset.mems": FakeCgroupFile("cpuset", _read_set("mems"), _write_set("mems")),
        "cpuset.memory_migrate": FakeCgroupFile("cpuset", _of("migrates"), _write_migrate),
        "cpuset.effective_cpus": FakeCgroupFile("cpuset", _read_effective("cpus")),
        "cpuset.effective_mems": FakeCgroupFile("cpuset", _read_effective("mems")),
        "memory.limit_in_bytes": FakeCgroupFile("memory", _read_limit, _write_limit),
        "memory.usage_in_bytes": FakeCgroupFile("memory", lambda node, group: str(node.usage.get(group.path, 0))),
    }
)
V2_FILES: Final[Mapping[str, FakeCgroupFile]] = MappingProxyType(
    {
        "cgroup.controllers": FakeCgroupFile("", lambda *_: "cpuset cpu memory pids"),
        "cgroup.procs": FakeCgroupFile("", _read_processes, _move),
        "cgroup.threads": FakeCgroupFile("", _read_threads),
        "cpu.weight": FakeCgroupFile("", _of("weight"), _write_weight, root=False),
        "cpu.max": FakeCgroupFile("", _read_max, _write_max, root=False),
        "cpu.max.burst": FakeCgroupFile("", _of("burst"), _write_burst, root=False),
        "cpu.idle": FakeCgroupFile("", _of("idle"), _write_idle, root=False),
        "cpu.bvt_warp_ns": FakeCgroupFile("", _of("bvt"), _write_bvt, root=False),
        "cpuset.cpus": FakeCgroupFile("", _read_set("cpus"), _write_set("cpus"), root=False),
        "cpuset.mems": FakeCgroupFile("", _read_set("mems"), _write_set("mems"), root=False),
        "cpuset.cpus.effective": FakeCgroupFile("", _read_effective("cpus")),
        "cpuset.mems.effective": FakeCgroupFile("", _read_effective("mems")),
        "memory.max": FakeCgroupFile("", _read_limit, _write_limit, root=False),
        "memory.current": FakeCgroupFile("", lambda node, group: str(node.usage.get(group.path, 0)), root=False),
    }
)
