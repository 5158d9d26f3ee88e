"""Laws of core scheduling groups, whatever containers do and whenever we are restarted."""

import errno

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from interpose.core.model.cgroup import CLEAR, Level, Parameter
from interpose.hooks.server.actuators.core_sched import CoreSchedActuator
from interpose.hooks.server.targets import ActuatorTarget
from tests.support.hooks.fake_core_sched import FakeCoreSched

names = st.sampled_from(["a", "b", "c", "d"])
groups = st.sampled_from(["group:", "expeller group:", "group:web", "pod:uid-1"])


class Containers:
    """Containers by name, each with its processes."""

    def __init__(self) -> None:
        self.pids: dict[str, list[int]] = {}

    def processes(self, directory: str) -> list[int]:
        """Of the tree."""
        if directory not in self.pids:
            raise FileNotFoundError(errno.ENOENT, "no such cgroup", directory)
        return list(self.pids[directory])

    def children(self, directory: str) -> list[str]:
        """Nothing inside."""
        return []

    threads = processes


class CoreSchedMachine(RuleBasedStateMachine):
    """Containers come, fork and go; groups are given, taken, and remembered in a journal over restarts."""

    @initialize()
    def begin(self) -> None:
        """An empty node."""
        self.kernel = FakeCoreSched()
        self.containers = Containers()
        self.actuator = CoreSchedActuator(self.containers, self.kernel)
        self.journal: dict[str, str] = {}  # what containers were given

    def target(self, name: str) -> ActuatorTarget:
        """A container as something to set values on."""
        return ActuatorTarget(level=Level.CONTAINER, key=name, directory=name)

    def new_pid(self) -> int:
        """Free pids are used again at once, which is the worst case."""
        return next(pid for pid in range(1_000_000, 1_001_000) if pid not in self.kernel.cookies)

    @rule(name=names, processes=st.integers(1, 3))
    def start(self, name: str, processes: int) -> None:
        """A container starts, or somebody executes more processes in it."""
        for _ in range(processes):
            pid = self.new_pid()
            self.kernel.spawn(pid)
            self.containers.pids.setdefault(name, []).append(pid)

    @rule(name=names)
    def fork(self, name: str) -> None:
        """A process starts another."""
        if pids := self.containers.pids.get(name):
            child = self.new_pid()
            self.kernel.fork(pids[0], child)
            pids.append(child)

    @rule(name=names)
    def stop(self, name: str) -> None:
        """A container ends."""
        for pid in self.containers.pids.pop(name, []):
            self.kernel.kill(pid)
        self.journal.pop(name, None)

    @rule(name=names, group=groups)
    def give(self, name: str, group: str) -> None:
        """A container gets a group."""
        if name in self.containers.pids:
            self.journal[name] = group
            self.actuator.write(self.target(name), Parameter.CORE_SCHED, group)
            assert self.actuator.read(self.target(name), Parameter.CORE_SCHED) == group

    @rule(name=names)
    def take(self, name: str) -> None:
        """A container loses its group."""
        if name in self.containers.pids:
            self.actuator.write(self.target(name), Parameter.CORE_SCHED, CLEAR)
            assert self.actuator.read(self.target(name), Parameter.CORE_SCHED) is None
            self.journal.pop(name, None)

    @rule(name=names)
    def look(self, name: str) -> None:
        """Reading changes nothing in the kernel."""
        before = dict(self.kernel.cookies)
        if name in self.containers.pids:
            self.actuator.read(self.target(name), Parameter.CORE_SCHED)
        assert self.kernel.cookies == before

    @rule(intended=st.none() | groups, name=names)
    def restart(self, intended: str | None, name: str) -> None:
        """We are started again, perhaps after a group was noted that was not given any more."""
        if intended is not None and name in self.containers.pids:
            self.journal[name] = intended
        self.actuator = CoreSchedActuator(self.containers, self.kernel)
        for given, group in self.journal.items():
            self.actuator.adopt(self.target(given), group)

    @precondition(lambda self: self.journal)
    @rule()
    def reconcile(self) -> None:
        """One round: write what differs. Then processes share a cookie if, and only if, they share a group."""
        for name, group in self.journal.items():
            found = self.actuator.read(self.target(name), Parameter.CORE_SCHED)
            if not self.actuator.same(Parameter.CORE_SCHED, found, group):
                self.actuator.write(self.target(name), Parameter.CORE_SCHED, group)
        cookie_of: dict[str, set[int]] = {}
        for name, group in self.journal.items():
            cookie_of.setdefault(group, set()).update(self.kernel.cookies[pid] for pid in self.containers.pids[name])
        assert all(len(cookies) == 1 and 0 not in cookies for cookies in cookie_of.values()), cookie_of
        assert len({cookie for cookies in cookie_of.values() for cookie in cookies}) == len(cookie_of), cookie_of

    @invariant()
    def our_own_cookie_is_0(self) -> None:
        """Always."""
        assert self.kernel.own_cookie() == 0


TestCoreSched = CoreSchedMachine.TestCase
