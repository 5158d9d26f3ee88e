"""Gives the processes of containers the cookie of their core scheduling group, and reads which group they are in.

The kernel knows cookies, not groups, so which cookie is which group's is remembered here, one cookie per group and one
group per cookie. Nothing relies on that memory being fresh: a cookie is handed on by a living process that has it at
that moment, looked up in the cgroups of the group's containers; no pid is remembered. If nobody has it any more the
group gets a new one.

A value that is read is
- a group, perhaps the empty text: every process has the cookie of that group;
- None: no process, or none of them has a cookie of ours;
- `MIXED`: we gave it a group, and some but not all processes have its cookie. It equals no group, so it leads to a
  write. As a value to be written it is like CLEAR: there is no such state to go back to.
"""

import errno
import os
import threading
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from interpose.core.model.cgroup import CLEAR, Level, Parameter, Value
from interpose.hooks.server.targets import ActuatorTarget
from interpose.host.coresched import CoreSched
from interpose.host.processes import Groups, processes_below

MIXED: Final = "(mixed)"  # no label value and no uid has parentheses

# Processes that fork while we go through them leave children behind that the list did not have; they inherit from
# parents that have the cookie by now, so a few rounds see the last of them. Who still misses some is told by the read
# that follows.
_ATTEMPTS: Final = 5
# So many targets are remembered before those that are gone are looked for.
_FORGET_FROM: Final = 256


class CoreSchedActuator:
    """An `Actuator` for CORE_SCHED. One lock: two containers of a new group at once would make two cookies."""

    def __init__(self, tree: Groups, coresched: CoreSched) -> None:
        self._tree = tree
        self._coresched = coresched
        self._lock = threading.Lock()
        self._cookies: dict[str, int] = {}  # of groups
        self._groups: dict[int, str] = {}  # the same, turned round
        self._assignments: dict[tuple[Level, str], tuple[str, str]] = {}  # target -> (group, directory)
        self._forget_at = _FORGET_FROM

    @property
    def cookies(self) -> Mapping[str, int]:
        """The cookie of each group, as far as is known; for people who look."""
        with self._lock:
            return MappingProxyType(dict(self._cookies))

    def adopt(self, target: ActuatorTarget, group: str) -> None:
        """Learn a group's cookie from a target that was given that group before we were started."""
        with self._lock:
            try:
                found = set(self._read_cookies(target.directory).values()) - {0}
            except FileNotFoundError:
                return
            self._remember(target, group)
            # Several cookies: nobody can say which is the group's. One that another group has already: the process
            # before us ended between noting a group and giving it. The first to claim it keeps it; whoever then reads
            # as being in a wrong group gets a new one.
            if len(found) == 1 and group not in self._cookies and not found & self._groups.keys():
                self._learn(group, found.pop())

    def read(self, target: ActuatorTarget, parameter: Parameter) -> Value | None:
        """The group that every process of the target is in; see the top of this module."""
        with self._lock:
            found = set(self._read_cookies(target.directory).values())
            if not found - {0}:
                return None
            group = self._groups.get(next(iter(found))) if len(found) == 1 else None
            if group is None:
                return MIXED if (target.level, target.key) in self._assignments else None
            self._remember(target, group)
            return group

    def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
        """Put every process of the target into a group; CLEAR takes them out of any."""
        with self._lock:
            if value is CLEAR or value == MIXED:
                self._clear(target)
            elif isinstance(value, str):
                self._assign(target, value)
            else:
                raise OSError(errno.EINVAL, f"{parameter}: expected the name of a group, found {value}")

    def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
        """Whether these are one: nothing is what CLEAR leads to, and only MIXED is never what anybody wants."""
        if wanted is CLEAR or wanted == MIXED:
            return found is None
        return found == wanted

    def _assign(self, target: ActuatorTarget, group: str) -> None:
        self._remember(target, group)
        for _ in range(_ATTEMPTS):
            found = self._read_cookies(target.directory)
            if not found:
                raise ProcessLookupError(errno.ESRCH, "no process in it", target.directory)
            try:
                source, cookie = self._find_source(group, found) or self._create(group, next(iter(found)))
                missing = [pid for pid, current in found.items() if current != cookie and pid != source]
                if not missing:
                    return
                self._coresched.assign(source, missing, cookie)
            except ProcessLookupError:
                continue  # the one process we relied on is gone; look again

    def _clear(self, target: ActuatorTarget) -> None:
        for _ in range(_ATTEMPTS):
            assigned = [pid for pid, current in self._read_cookies(target.directory).items() if current]
            if not assigned:
                self._assignments.pop((target.level, target.key), None)
                return
            self._coresched.clear(assigned)

    def _find_source(self, group: str, found: Mapping[int, int]) -> tuple[int, int] | None:
        """A living process that has the group's cookie, and the cookie: one of these, or one of a sibling."""
        cookie = self._cookies.get(group)
        if cookie is None:
            return None
        for processes in self._candidate_processes(group, found):
            for pid, current in processes.items():
                if current == cookie:
                    return pid, cookie
        return None

    def _candidate_processes(self, group: str, found: Mapping[int, int]) -> Iterator[Mapping[int, int]]:
        yield found
        for other, directory in self._assignments.values():
            if other == group:
                try:
                    yield self._read_cookies(directory)
                except OSError:
                    continue  # whatever it is, another sibling may do

    def _create(self, group: str, pid: int) -> tuple[int, int]:
        self._coresched.create(pid)
        cookie = self._coresched.cookie(pid)
        if not cookie:
            raise ProcessLookupError(errno.ESRCH, "the process was replaced by another", str(pid))
        # The kernel uses numbers again: whoever had this one before has no process with it any more.
        if cookie in self._groups:
            self._unlearn(self._groups[cookie])
        if group in self._cookies:
            self._unlearn(group)
        self._learn(group, cookie)
        return pid, cookie

    def _read_cookies(self, directory: str) -> dict[int, int]:
        """The cookie of each living process in a cgroup and below. Our own process is left out: it keeps cookie 0."""
        if not directory:
            raise FileNotFoundError(errno.ENOENT, "has no cgroup yet")
        cookies = {}
        for pid in sorted(processes_below(self._tree, directory) - {os.getpid()}):
            try:
                cookies[pid] = self._coresched.cookie(pid)
            except ProcessLookupError:
                continue
        return cookies

    # -- memory

    def _learn(self, group: str, cookie: int) -> None:
        self._cookies[group] = cookie
        self._groups[cookie] = group

    def _unlearn(self, group: str) -> None:
        del self._groups[self._cookies.pop(group)]

    def _remember(self, target: ActuatorTarget, group: str) -> None:
        self._assignments[target.level, target.key] = (group, target.directory)
        if len(self._assignments) > self._forget_at:
            self._forget_gone()
            self._forget_at = max(_FORGET_FROM, 2 * len(self._assignments))

    def _forget_gone(self) -> None:
        """Forget targets that are gone, and groups that no target is left of."""
        self._assignments = {
            key: assignment for key, assignment in self._assignments.items() if self._exists(assignment[1])
        }
        living = {group for group, _ in self._assignments.values()}
        for group in [group for group in self._cookies if group not in living]:
            self._unlearn(group)

    def _exists(self, directory: str) -> bool:
        try:
            self._tree.processes(directory)
        except OSError as error:
            return not isinstance(error, FileNotFoundError)
        return True
