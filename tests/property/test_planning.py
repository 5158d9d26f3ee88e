"""Laws of putting values in place, on a kernel with its rules: no step is refused, twice is once, off is as before.

And whenever the process is killed, the next one ends where it would have ended, or where it all began.
"""

import random
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.core.model.cpuset import CpuSet
from interpose.hooks.server.actuators.cgroup import CgroupActuator
from interpose.hooks.server.reconcile.apply import Applier
from interpose.hooks.server.reconcile.journal import Journal
from interpose.hooks.server.reconcile.plan import CriBatch, PlanAction, make_batches, order_steps
from interpose.hooks.server.targets import ActuatorTarget, DesiredValue
from interpose.host.cgroup.tree import CgroupTree
from interpose.testing.kernel.cgroup import FakeKernel

SHARES, QUOTA, IDLE, BVT = Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.CPU_IDLE, Parameter.CPU_BVT
CPUS = Parameter.CPUSET_CPUS
TARGETS = {
    target.directory: target
    for target in (
        ActuatorTarget(level=Level.QOS, key="q", directory="q"),
        ActuatorTarget(level=Level.POD, key="q/p", directory="q/p"),
        ActuatorTarget(level=Level.SANDBOX, key="s", directory="q/p/s"),
        ActuatorTarget(level=Level.CONTAINER, key="c", directory="q/p/c"),
        ActuatorTarget(level=Level.CONTAINER, key="d", directory="q/p/d"),
        ActuatorTarget(level=Level.POD, key="q/r", directory="q/r"),
        ActuatorTarget(level=Level.CONTAINER, key="e", directory="q/r/e"),
    )
}
FILES = {1: ("cpu.shares", "cpu.cfs_quota_us", "cpu.idle", "cpu.bvt_warp_ns", "cpuset.cpus")}
FILES[2] = ("cpu.weight", "cpu.max", "cpu.idle", "cpu.bvt_warp_ns", "cpuset.cpus")
State = Mapping[tuple[str, Parameter], Value]
ALL_SHARES = [(directory, SHARES) for directory in TARGETS]
versions = st.sampled_from([1, 2])


class KilledError(BaseException):
    """The process is gone; nothing catches that."""


class Fate:
    """How many more writes the process lives to see, and how the last one ends."""

    def __init__(self, writes: int = 10**9, *, done: bool = True) -> None:
        self.writes = writes
        self.done = done

    def passes(self) -> bool:
        """Count a write; False if it is the last one."""
        self.writes -= 1
        return self.writes > 0


class MortalKernel(FakeKernel):
    """A kernel whose user may be killed right before or right after a write."""

    fate = Fate()

    def write(self, path: str, text: str) -> None:
        """Write, unless it is too late."""
        passes = self.fate.passes()
        if passes or self.fate.done:
            super().write(path, text)
        if not passes:
            raise KilledError


class MortalJournal(Journal):
    """A journal whose last line may be whole or half."""

    fate = Fate()

    def _write(self, line: bytes) -> int:
        passes = self.fate.passes()
        written = super()._write(line if passes or self.fate.done else line[: len(line) // 2])
        if not passes:
            raise KilledError
        return written


class Server:
    """A process that puts values in place; containers get theirs from a runtime that does as it is told."""

    def __init__(self, kernel: FakeKernel, journal: Journal) -> None:
        self.actuator = CgroupActuator(CgroupTree(kernel, kernel.root, version=kernel.version, page=4096))
        self.journal = journal
        journal.load()
        self.applier = Applier(dict.fromkeys(CgroupActuator.parameters, self.actuator), journal, now=lambda: 0.0)

    def apply(self, wants: Sequence[DesiredValue]) -> int:
        """One round; how many steps it took."""
        steps = order_steps(self.applier.diff(wants, list(TARGETS.values())))
        for batch in make_batches(steps):
            if isinstance(batch, CriBatch):
                self._update(batch)
            else:
                assert [one.error for one in self.applier.carry_out(batch.steps) if not one.ok] == []
        return len(steps)

    def _update(self, batch: CriBatch) -> None:
        for steps in batch.containers.values():
            for step in steps:
                item = step.item
                if item.action is PlanAction.SET:
                    self.journal.note(item.target, item.parameter, found=item.now, written=step.value, plugin="")
                self.actuator.write(item.target, item.parameter, step.value)
                if item.action is PlanAction.RESTORE:
                    self.journal.forget(item.target.level, item.target.key, item.parameter)
                self.applier.record_step(step)


def wants_of(state: State) -> list[DesiredValue]:
    """Everything in a state is wanted."""
    return [
        DesiredValue(TARGETS[directory], parameter, value, "x", "") for (directory, parameter), value in state.items()
    ]


def picture(kernel: FakeKernel, directories: Iterable[str] = TARGETS) -> dict[tuple[str, str], str]:
    """All that is there."""
    files = FILES[kernel.version]
    return {(directory, file): kernel.get(directory, file) for directory in directories for file in files}


def sets(within: CpuSet) -> st.SearchStrategy[CpuSet]:
    """Some CPUs of these."""
    return st.sets(st.sampled_from(sorted(within)), min_size=1).map(lambda some: CpuSet.of(some))


@st.composite
def limits(draw: st.DrawFn, directories: Iterable[str] = TARGETS, *, cleared: bool = False) -> State:
    """Quotas and sets that fit into each other. With `cleared` some groups have what their parent has."""
    state: dict[tuple[str, Parameter], Value] = {}
    cpus = {"": CpuSet.parse("0-5")}
    quotas = {"": 9000}
    for directory in directories:
        parent = directory.rpartition("/")[0]
        if cleared and draw(st.booleans()):
            cpus[directory], state[directory, CPUS] = cpus[parent], CLEAR
        else:
            cpus[directory] = draw(sets(cpus[parent]))
            state[directory, CPUS] = str(cpus[directory])
        if draw(st.booleans()):
            quotas[directory], state[directory, QUOTA] = quotas[parent], UNLIMITED
        else:
            quotas[directory] = draw(st.integers(1, quotas[parent] // 1000)) * 1000
            state[directory, QUOTA] = quotas[directory]
    return state


# Values that do not depend on each other, of groups that files are written for; shares and idle are of special kind.
loose = st.dictionaries(
    st.sampled_from(["q", "q/p", "q/p/s", "q/r"]),
    st.fixed_dictionaries(
        {},
        optional={
            SHARES: st.sampled_from([2, 3, 100, 1024, 4096]),
            IDLE: st.sampled_from([0, 1]),
            BVT: st.sampled_from([-1, 0, 2]),
        },
    ),
).map(
    lambda some: {(directory, parameter): value for directory, row in some.items() for parameter, value in row.items()}
)


def kernel_with(version: int, state: State) -> MortalKernel:
    """A kernel with a tree of groups that have these values."""
    kernel = MortalKernel(version=version, bvt=True)
    for directory, _ in state:
        kernel.make(directory)
    server = Server(kernel, Journal(None, "boot"))
    server.apply(wants_of(state))
    kernel.writes.clear()
    assert not kernel.refused
    return kernel


@given(versions, limits(), limits(), limits(cleared=True))
def test_no_step_between_two_good_states_is_refused(version: int, first: State, second: State, third: State) -> None:
    """Whatever grows, shrinks or moves; and going back to the beginning is such a change too."""
    kernel = kernel_with(version, first)
    before = picture(kernel)
    server = Server(kernel, Journal(None, "boot"))
    for state in (second, third):
        server.apply(wants_of(state))
        assert kernel.refused == []
        for (directory, parameter), value in state.items():
            assert server.actuator.same(parameter, server.actuator.read(TARGETS[directory], parameter), value)
    server.apply([])
    assert kernel.refused == []
    assert picture(kernel) == before


@given(versions, limits(), limits(cleared=True), loose)
def test_twice_is_once(version: int, first: State, second: State, more: State) -> None:
    """The second round finds nothing to do."""
    kernel = kernel_with(version, first)
    server = Server(kernel, Journal(None, "boot"))
    wants = wants_of({**second, **more})
    server.apply(wants)
    after = picture(kernel)
    assert server.apply(wants) == 0
    assert picture(kernel) == after


@given(versions, loose, st.lists(loose, max_size=4))
@example(1, {}, [{("q/p", SHARES): 2}, {("q/p", IDLE): 1}])
@example(2, {}, [{("q/p", SHARES): 2}, {("q/p", IDLE): 1}])
def test_off_is_as_before(version: int, first: State, states: list[State]) -> None:
    """Whatever was wanted in between, nothing wanted is what was found; also of shares that idle groups lose."""
    kernel = kernel_with(version, {**dict.fromkeys(ALL_SHARES, 1024), **first})
    before = picture(kernel)
    server = Server(kernel, Journal(None, "boot"))
    for state in states:
        server.apply(wants_of(state))
    server.apply([])
    assert picture(kernel) == before
    assert kernel.refused == []
    assert len(server.journal) == 0


@given(versions, limits(), limits(cleared=True), loose, st.integers())
def test_the_order_of_wants_does_not_matter(version: int, first: State, second: State, more: State, seed: int) -> None:
    """The same writes in the same order come out."""
    wants = wants_of({**second, **more})
    shuffled = list(wants)
    random.Random(seed).shuffle(shuffled)
    kernels = [kernel_with(version, first) for _ in range(2)]
    for kernel, some in zip(kernels, (wants, shuffled), strict=True):
        Server(kernel, Journal(None, "boot")).apply(some)
    assert kernels[0].writes == kernels[1].writes


# What files are written for; no runtime has a hand in it.
NO_CONTAINERS = [directory for directory, target in TARGETS.items() if target.level is not Level.CONTAINER]


@given(versions, st.lists(limits(NO_CONTAINERS), min_size=2, max_size=4), st.lists(loose, min_size=4), st.data())
def test_being_killed_loses_nothing(version: int, strict: list[State], free: list[State], data: st.DataObject) -> None:
    """At any write to file or journal, twice: the next process goes on to the same end, and back to the beginning."""
    first, *states = [{**one, **other} for one, other in zip(strict, free, strict=False)]
    wants = [wants_of(state) for state in states]
    unharmed = kernel_with(version, first)
    Server(unharmed, Journal(None, "boot")).apply(wants[-1])
    kernel = kernel_with(version, first)
    before = picture(kernel, NO_CONTAINERS)
    with tempfile.TemporaryDirectory() as directory:
        path = str(Path(directory) / "journal")
        for _ in range(2):
            journal = MortalJournal(path, "boot")
            server = Server(kernel, journal)
            kernel.fate = journal.fate = Fate(data.draw(st.integers(1, 80)), done=data.draw(st.booleans()))
            with suppress(KilledError):
                for some in wants:
                    server.apply(some)
            kernel.fate = Fate()
            journal.close()  # all that the kernel does for a process that is gone
        for some in (*data.draw(st.sampled_from([(), wants[-1:]])), []):
            server = Server(kernel, Journal(path, "boot"))
            server.apply(some)
            server.journal.close()
            if some:
                assert picture(kernel, NO_CONTAINERS) == picture(unharmed, NO_CONTAINERS)
        assert picture(kernel, NO_CONTAINERS) == before
        assert len(server.journal) == 0
