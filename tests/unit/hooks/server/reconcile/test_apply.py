"""Carrying out steps, on a kernel with its rules."""

import errno
import logging
from pathlib import Path

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.hooks.server.actuators.api import Actuator
from interpose.hooks.server.actuators.cgroup import CgroupActuator, SysctlActuator
from interpose.hooks.server.reconcile.apply import Applier, StepOutcome
from interpose.hooks.server.reconcile.journal import Journal, JournalEntry
from interpose.hooks.server.reconcile.plan import PlanAction, order_steps
from interpose.hooks.server.targets import ActuatorTarget, DesiredValue
from interpose.host.cgroup.tree import CgroupTree
from interpose.testing.kernel.cgroup import FakeKernel

SHARES, QUOTA, IDLE, BVT = Parameter.CPU_SHARES, Parameter.CPU_QUOTA, Parameter.CPU_IDLE, Parameter.CPU_BVT
CPUS, MEMORY, IDENTITY = Parameter.CPUSET_CPUS, Parameter.MEMORY_LIMIT, Parameter.SCHED_GROUP_IDENTITY
NODE = ActuatorTarget(level=Level.NODE, key="node", name="node")
QOS = ActuatorTarget(level=Level.QOS, key="q", directory="q", name="BestEffort")
POD = ActuatorTarget(level=Level.POD, key="q/p", directory="q/p", name="ns/p")
SANDBOX = ActuatorTarget(level=Level.SANDBOX, key="s", directory="q/p/s", name="ns/p")
LIVE = [NODE, QOS, POD, SANDBOX]


class Node:
    """A kernel with a few groups, and an applier that works on it."""

    def __init__(self, version: int = 1, *, dry_run: bool = False, journal: Journal | None = None) -> None:
        self.kernel = FakeKernel(version=version, bvt=True, sysctls={"sched_core": 0})
        for target in (QOS, POD, SANDBOX):
            self.kernel.make(target.directory)
        self.time = 100.0
        self.journal = Journal(None, "boot") if journal is None else journal
        tree = CgroupTree(self.kernel, self.kernel.root, version=version, page=4096)
        self.actuator = CgroupActuator(tree)
        actuators: dict[Parameter, Actuator] = dict.fromkeys(CgroupActuator.parameters, self.actuator)
        actuators |= dict.fromkeys(SysctlActuator.parameters, SysctlActuator(self.kernel, self.kernel.proc))
        self.applier = Applier(actuators, self.journal, now=lambda: self.time, dry_run=dry_run)

    def apply(self, *wants: DesiredValue) -> list[StepOutcome]:
        """One round."""
        return self.applier.carry_out(order_steps(self.applier.diff(wants, LIVE)))

    def value(self, target: ActuatorTarget, parameter: Parameter) -> Value:
        """What is there."""
        return self.actuator.read(target, parameter)

    def refuse(self, target: ActuatorTarget, file: str, code: int, times: int = 1) -> None:
        """Writes of a value fail; the read that goes before each of them does not."""
        write, refused = self.kernel.write, self.kernel.path(target.directory, file)
        left = [code] * times

        def writing(path: str, text: str) -> None:
            if path == refused and left:
                raise OSError(left.pop(), "refused")
            write(path, text)

        self.kernel.write = writing  # type: ignore[method-assign]


@pytest.fixture
def node() -> Node:
    """A node with cgroup v1."""
    return Node()


def want(target: ActuatorTarget, parameter: Parameter, value: Value, plugin: str = "x") -> DesiredValue:
    """Of a plugin."""
    return DesiredValue(target, parameter, value, plugin, "because")


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What was logged."""
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("version", [1, 2])
def test_values_are_put_in_place_and_restored(version: int) -> None:
    """Counted, journaled, and forgotten in the end."""
    node = Node(version)
    before = {parameter: node.value(POD, parameter) for parameter in (SHARES, QUOTA, CPUS)}
    wants = [want(POD, SHARES, 1234), want(POD, QUOTA, 50_000), want(POD, CPUS, "0-1")]
    # The sandbox is a leaf of the same tree, and on v1 it must not have more than the pod.
    wants.append(want(SANDBOX, CPUS, "0"))
    assert all(outcome.ok and not outcome.error for outcome in node.apply(*wants))
    assert node.value(POD, QUOTA) == 50_000
    assert node.value(POD, CPUS) == "0-1"
    assert len(node.journal) == 4
    assert node.apply(*wants) == []
    assert node.applier.writes == {(SHARES, "ok"): 1, (QUOTA, "ok"): 1, (CPUS, "ok"): 2}
    node.apply()
    assert {parameter: node.value(POD, parameter) for parameter in (SHARES, QUOTA, CPUS)} == before
    assert len(node.journal) == 0
    assert node.applier.drift == {}


def test_a_value_is_in_the_journal_before_it_is_written(tmp_path: Path) -> None:
    """With what is there at that moment, not what was there when it was looked at."""
    journal = Journal(str(tmp_path / "journal"), "boot")
    journal.load()
    node = Node(journal=journal)
    steps = order_steps(node.applier.diff([want(POD, SHARES, 50)], LIVE))
    node.kernel.write(node.kernel.path("q/p", "cpu.shares"), "77")
    seen: list[JournalEntry | None] = []
    write = node.kernel.write

    def writing(path: str, text: str) -> None:
        seen.append(journal.get(Level.POD, "q/p", SHARES))
        write(path, text)

    node.kernel.write = writing  # type: ignore[method-assign]
    node.applier.carry_out(steps)
    assert seen == [JournalEntry(found=77, written=50, plugin="x")]
    journal.close()


def test_without_a_journal_nothing_is_written(tmp_path: Path) -> None:
    """What could not be put back is not changed."""
    journal = Journal(str(tmp_path / "journal"), "boot")
    journal.load()
    journal.close()
    node = Node(journal=journal)
    (outcome,) = node.apply(want(POD, SHARES, 50))
    assert outcome.error == "the journal is closed (EBADF)"
    assert node.kernel.writes == []


def test_what_somebody_made_right_meanwhile_is_not_written(node: Node) -> None:
    """And is not ours."""
    steps = order_steps(node.applier.diff([want(POD, SHARES, 50)], LIVE))
    node.kernel.write(node.kernel.path("q/p", "cpu.shares"), "50")
    node.kernel.writes.clear()
    assert [outcome.ok for outcome in node.applier.carry_out(steps)] == [True]
    assert node.kernel.writes == []
    assert len(node.journal) == 0


def test_a_refused_value_waits_longer_each_time(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """It is not offered at every round; the log has its beginning and its end."""
    caplog.set_level(logging.INFO)
    wanted = want(POD, SHARES, 50)
    node.refuse(POD, "cpu.shares", errno.EINVAL, times=2)
    (outcome,) = node.apply(wanted)
    assert (outcome.ok, outcome.error) == (False, "refused (EINVAL)")
    assert node.applier.held == 1
    assert node.apply(wanted) == []
    (item,) = node.applier.diff([wanted], LIVE)
    assert (item.action, item.note) == (PlanAction.HELD, "refused (EINVAL); again in 1 s")
    node.time += 1
    assert [one.ok for one in node.apply(wanted)] == [False]
    node.time += 1
    assert node.apply(wanted) == []
    node.time += 1
    assert [(one.ok, one.drifted) for one in node.apply(wanted)] == [(True, False)]
    assert node.applier.held == 0
    assert lines(caplog) == [
        "Value rejected, will be retried",
        "Rejected value is now in place or no longer needed",
    ]
    assert node.applier.writes == {(SHARES, "failed"): 2, (SHARES, "ok"): 1}
    assert [(one.target, one.parameter, one.value) for one in node.applier.last_errors] == [("ns/p", SHARES, 50)] * 2


def test_another_value_is_tried_at_once(node: Node) -> None:
    """The wait was for the other."""
    node.refuse(POD, "cpu.shares", errno.EINVAL)
    node.apply(want(POD, SHARES, 50))
    assert [outcome.ok for outcome in node.apply(want(POD, SHARES, 60))] == [True]


def test_a_hold_ends_when_somebody_else_sets_the_value(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is left to be tried."""
    caplog.set_level(logging.INFO)
    node.refuse(POD, "cpu.shares", errno.EINVAL)
    node.apply(want(POD, SHARES, 50))
    node.kernel.write(node.kernel.path("q/p", "cpu.shares"), "50")
    assert node.apply(want(POD, SHARES, 50)) == []
    assert node.applier.held == 0
    assert len(lines(caplog)) == 2


def test_a_restore_that_is_refused_waits_too(node: Node) -> None:
    """And is not forgotten."""
    node.apply(want(POD, SHARES, 50))
    node.refuse(POD, "cpu.shares", errno.EPERM)
    assert [outcome.ok for outcome in node.apply()] == [False]
    assert node.apply() == []
    assert len(node.journal) == 1
    node.time += 1
    assert [outcome.ok for outcome in node.apply()] == [True]
    assert node.value(POD, SHARES) == 1024
    assert len(node.journal) == 0


def test_holds_of_targets_that_are_gone_are_forgotten(node: Node) -> None:
    """When all were looked at."""
    node.refuse(POD, "cpu.shares", errno.EINVAL)
    node.apply(want(POD, SHARES, 50))
    node.applier.diff([], [QOS], whole=False)
    assert node.applier.held == 1
    node.applier.diff([], [QOS])
    assert node.applier.held == 0


@pytest.mark.parametrize(
    ("target", "parameter", "value", "file", "code", "meaning"),
    [
        (POD, MEMORY, 4096, "memory.limit_in_bytes", errno.EBUSY, "usage is above the limit and cannot be reclaimed"),
        (POD, QUOTA, 5000, "cpu.cfs_quota_us", errno.EINVAL, "more than its parent has"),
        (SANDBOX, CPUS, "0", "cpuset.cpus", errno.EBUSY, "a child has CPUs that are not in it"),
    ],
)
def test_errors_say_what_the_kernel_means(
    node: Node, target: ActuatorTarget, parameter: Parameter, value: Value, file: str, code: int, meaning: str
) -> None:
    """Its own words are the same for everything."""
    node.refuse(target, file, code)
    (outcome,) = node.apply(want(target, parameter, value))
    assert meaning in outcome.error
    assert errno.errorcode[code] in outcome.error


def test_a_value_that_does_not_stay_is_a_failure(node: Node) -> None:
    """Whoever ate it."""
    node.kernel.write = lambda *_: None  # type: ignore[method-assign]
    (outcome,) = node.apply(want(POD, SHARES, 50))
    assert (outcome.ok, outcome.error) == (False, "wrote 50, found 1024")
    assert node.applier.held == 1


def test_a_value_that_leaves_nothing_is_told_as_such() -> None:
    """There is no number to show."""

    class Nothing:
        def read(self, target: ActuatorTarget, parameter: Parameter) -> None:
            return None

        def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
            pass

        def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
            return False

    applier = Applier({SHARES: Nothing()}, Journal(None, "boot"), now=lambda: 0.0)
    (outcome,) = applier.carry_out(order_steps(applier.diff([want(POD, SHARES, 5)], LIVE)))
    assert outcome.error == "wrote 5, found nothing"


def test_a_target_that_goes_away_is_silent(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Pods end at any moment."""
    steps = order_steps(node.applier.diff([want(SANDBOX, SHARES, 50)], LIVE))
    node.kernel.remove("q/p/s")
    (outcome,) = node.applier.carry_out(steps)
    assert not outcome.ok
    assert node.applier.writes == {(SHARES, "gone"): 1}
    assert node.applier.held == 0
    assert lines(caplog) == []


def test_one_refused_value_does_not_stop_the_others(node: Node) -> None:
    """Each is for itself, whatever goes wrong."""

    def writing(path: str, text: str) -> None:
        raise ZeroDivisionError("a mistake")

    write, node.kernel.write = node.kernel.write, writing  # type: ignore[method-assign]
    steps = order_steps(node.applier.diff([want(POD, SHARES, 50), want(QOS, SHARES, 50)], LIVE))
    first, second = node.applier.carry_out(steps)
    assert first.error == second.error == "ZeroDivisionError: a mistake"
    node.kernel.write = write  # type: ignore[method-assign]
    node.time += 1
    assert [outcome.ok for outcome in node.applier.carry_out(steps)] == [True, True]


def test_repaired_values_are_counted(node: Node) -> None:
    """Somebody else changed what had been in place, once or again."""
    wanted = want(POD, SHARES, 50)
    assert [outcome.drifted for outcome in node.apply(wanted)] == [False]
    for _ in range(2):
        node.kernel.write(node.kernel.path("q/p", "cpu.shares"), "77")
        assert [(outcome.ok, outcome.drifted) for outcome in node.apply(wanted)] == [(True, True)]
    assert node.applier.drift == {("x", SHARES): 2}
    assert [outcome.drifted for outcome in node.apply(want(POD, SHARES, 60))] == [False]
    assert node.applier.drift == {("x", SHARES): 2}


@pytest.mark.parametrize("shares", [2, 3, 512])
@pytest.mark.parametrize("version", [1, 2])
def test_shares_survive_idling(version: int, shares: int) -> None:
    """The kernel forgets them when a group becomes idle, and gives it others when it is not any more."""
    node = Node(version)
    node.actuator.write(POD, SHARES, shares)
    before = node.value(POD, SHARES)
    assert [outcome.ok for outcome in node.apply(want(POD, IDLE, 1))] == [True]
    assert node.apply(want(POD, IDLE, 1)) == []
    node.apply()
    assert node.value(POD, IDLE) == 0
    assert node.value(POD, SHARES) == before
    assert len(node.journal) == 0


@pytest.mark.parametrize("version", [1, 2])
def test_restored_shares_survive_idling(version: int, caplog: pytest.LogCaptureFixture) -> None:
    """Shares that were restored, then lost to our `cpu.idle`, are restored again at once: no other process set them."""
    node = Node(version)
    before = node.value(POD, SHARES)
    node.apply(want(POD, SHARES, 2))
    node.apply(want(POD, IDLE, 1))
    node.apply()
    assert (node.value(POD, IDLE), node.value(POD, SHARES)) == (0, before)
    assert len(node.journal) == 0
    assert caplog.records == []


def test_wanted_shares_come_back_after_idling(node: Node) -> None:
    """They are held meanwhile, and that is no drift."""
    node.apply(want(POD, IDLE, 1), want(POD, SHARES, 50))
    assert node.apply(want(POD, IDLE, 1), want(POD, SHARES, 50)) == []
    node.apply(want(POD, SHARES, 50))
    assert (node.value(POD, IDLE), node.value(POD, SHARES)) == (0, 50)
    assert node.applier.drift == {}
    node.apply()
    assert node.value(POD, SHARES) == 1024
    assert node.kernel.refused == []


def test_a_switch_of_the_node_that_fails_stops_its_plugin(node: Node) -> None:
    """What it wants next could be dangerous then; other plugins go on."""
    switch = f"{node.kernel.proc}/sys/kernel/sched_group_identity_enabled"
    wants = [want(NODE, IDENTITY, 1), want(POD, BVT, 2), want(POD, SHARES, 50, "y")]
    steps = order_steps(node.applier.diff(wants, LIVE))
    write = node.kernel.write

    def writing(path: str, text: str) -> None:
        if path == switch:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        write(path, text)

    node.kernel.write = writing  # type: ignore[method-assign]
    outcomes = node.applier.carry_out(steps)
    assert [(one.step.item.parameter, one.ok) for one in outcomes] == [(IDENTITY, False), (SHARES, True), (BVT, False)]
    assert outcomes[-1].error.startswith(
        "skipped: kernel.sched_group_identity_enabled of the node could not be set to 1"
    )
    assert node.applier.blocked_reason("x")
    assert not node.applier.blocked_reason("y")
    assert node.applier.writes[BVT, "skipped"] == 1
    # The switch is held now, and its plugin with it, until it is as wanted.
    assert [one.error[:8] for one in node.apply(*wants)] == ["skipped:"]
    node.kernel.write = write  # type: ignore[method-assign]
    node.time += 1
    assert [one.ok for one in node.apply(*wants)] == [True, True]
    assert not node.applier.blocked_reason("x")


def test_a_part_does_not_lift_the_block_of_a_plugin(node: Node) -> None:
    """Only who looks at the node's switches can."""
    node.kernel.fail(f"{node.kernel.proc}/sys/kernel/sched_group_identity_enabled", errno.EIO)
    node.applier.diff([want(NODE, IDENTITY, 1)], LIVE)
    node.applier.diff([want(POD, BVT, 2)], [POD], whole=False)
    assert node.applier.blocked_reason("x")


def test_a_dry_run_changes_nothing() -> None:
    """Neither files nor journal."""
    node = Node(dry_run=True)
    steps = order_steps(node.applier.diff([want(POD, SHARES, 50)], LIVE))
    assert len(steps) == 1
    assert node.applier.carry_out(steps) == []
    assert node.kernel.writes == []
    assert len(node.journal) == 0
    assert node.applier.writes == {}


def test_what_others_carried_out_is_reported(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    """Updates of containers are held and counted like files; their journal is not ours."""
    container = ActuatorTarget(level=Level.CONTAINER, key="c", name="ns/p/main", running=False)
    wanted, known = want(container, SHARES, 50), {("c", SHARES): 2}
    steps = order_steps(node.applier.diff([wanted], [*LIVE, container], known=known))
    assert node.applier.record_step(steps[0], "UNAVAILABLE: no runtime").error == "UNAVAILABLE: no runtime"
    (item,) = node.applier.diff([wanted], [*LIVE, container], known=known)
    assert item.action is PlanAction.HELD
    assert node.applier.record_step(steps[0]).ok
    assert node.applier.held == 0
    assert node.applier.writes == {(SHARES, "failed"): 1, (SHARES, "ok"): 1}
    assert len(node.journal) == 0


def test_a_set_that_moves_is_one_change(node: Node) -> None:
    """Widened and narrowed; what was found is what was there before both."""
    wants = [want(QOS, CPUS, "0-3"), want(POD, CPUS, "0-3"), want(SANDBOX, CPUS, "0-3")]
    assert all(outcome.ok for outcome in node.apply(*wants))
    moved = [want(QOS, CPUS, "2-5"), want(POD, CPUS, "2-5"), want(SANDBOX, CPUS, "2-5")]
    assert all(outcome.ok for outcome in node.apply(*moved))
    assert node.journal.get(Level.QOS, "q", CPUS) == JournalEntry(found="0-7", written="2-5", plugin="x", before="0-5")
    assert node.kernel.refused == []
    assert all(outcome.ok for outcome in node.apply())
    assert node.value(QOS, CPUS) == "0-7"
    assert len(node.journal) == 0


def test_a_limit_is_taken_away(node: Node) -> None:
    """Unlimited is a value like others, and so is what was found."""
    node.actuator.write(POD, QUOTA, 20_000)
    node.apply(want(POD, QUOTA, UNLIMITED))
    assert node.value(POD, QUOTA) is UNLIMITED
    node.apply()
    assert node.value(POD, QUOTA) == 20_000


def test_idling_without_shares_is_only_a_switch() -> None:
    """Nothing else is put down."""
    kernel = FakeKernel(version=1)
    kernel.make("q/p")
    journal = Journal(None, "boot")
    actuator = CgroupActuator(CgroupTree(kernel, kernel.root, version=1, page=4096))
    applier = Applier({IDLE: actuator}, journal, now=lambda: 0.0)
    applier.carry_out(order_steps(applier.diff([want(POD, IDLE, 1)], LIVE)))
    assert list(journal.entries_of(Level.POD, "q/p")) == [IDLE]


def test_clearing_is_what_restores_nothing() -> None:
    """A value that was not there before is taken away."""

    class Group:
        value: Value | None = None

        def read(self, target: ActuatorTarget, parameter: Parameter) -> Value | None:
            return self.value

        def write(self, target: ActuatorTarget, parameter: Parameter, value: Value) -> None:
            self.value = None if value is CLEAR else value

        def same(self, parameter: Parameter, found: Value | None, wanted: Value) -> bool:
            return found == wanted

    group, journal = Group(), Journal(None, "boot")
    applier = Applier({Parameter.RESCTRL: group}, journal, now=lambda: 0.0)
    for wants in ([want(POD, Parameter.RESCTRL, "L3:0=f")], []):
        assert [one.ok for one in applier.carry_out(order_steps(applier.diff(wants, LIVE)))] == [True]
    assert group.value is None
    assert len(journal) == 0


def test_what_somebody_else_put_in_place_is_looked_at(node: Node) -> None:
    """Another value than was sent is told; one that is as it should be, or that nobody can look at, is not."""
    (step,) = order_steps(node.applier.diff([want(SANDBOX, SHARES, 50)], LIVE))
    assert node.applier.find_displaced(step) == f"sent 50, found {node.value(SANDBOX, SHARES)}: another process sets it"
    node.kernel.write(node.kernel.path(SANDBOX.directory, "cpu.shares"), "50")
    assert node.applier.find_displaced(step) == ""
    node.kernel.remove(SANDBOX.directory)
    assert node.applier.find_displaced(step) == ""
