"""The order of steps, and what decides it."""

import random

import pytest

from interpose.core.model.cgroup import CLEAR, UNLIMITED, Level, Parameter, Value
from interpose.hooks.server.reconcile.plan import (
    ChangeDirection,
    CriBatch,
    FileBatch,
    PlanAction,
    PlanItem,
    StepPhase,
    WriteRoute,
    direction,
    make_batches,
    order_steps,
    route_of,
)
from interpose.hooks.server.targets import ActuatorTarget

CPUS, MEMS, QUOTA, MEMORY = (
    Parameter.CPUSET_CPUS,
    Parameter.CPUSET_MEMS,
    Parameter.CPU_QUOTA,
    Parameter.MEMORY_LIMIT,
)
SHARES, IDLE, BVT = Parameter.CPU_SHARES, Parameter.CPU_IDLE, Parameter.CPU_BVT


def item(
    level: Level,
    key: str,
    parameter: Parameter,
    now: Value | None,
    wanted: Value | None,
    *,
    directory: str = "",
    action: PlanAction = PlanAction.SET,
) -> PlanItem:
    """A value that shall change."""
    target = ActuatorTarget(level=level, key=key, directory=directory or key)
    return PlanItem(target=target, parameter=parameter, now=now, wanted=wanted, plugin="p", reason="", action=action)


def told(items: list[PlanItem]) -> list[tuple[str, str, Value, StepPhase]]:
    """Steps, as short as a test can read them."""
    return [(s.item.target.key, str(s.item.parameter), s.value, s.phase) for s in order_steps(items)]


def keys(items: list[PlanItem]) -> list[str]:
    """Targets in the order of their steps."""
    return [step.item.target.key for step in order_steps(items)]


@pytest.mark.parametrize(
    ("parameter", "now", "wanted", "expected"),
    [
        (QUOTA, 1000, 2000, ChangeDirection.GROW),
        (QUOTA, 2000, 1000, ChangeDirection.SHRINK),
        (QUOTA, 1000, UNLIMITED, ChangeDirection.GROW),
        (QUOTA, UNLIMITED, 1000, ChangeDirection.SHRINK),
        (QUOTA, None, 1000, ChangeDirection.SHRINK),
        (QUOTA, None, UNLIMITED, ChangeDirection.FREE),
        (QUOTA, 1000, 1000, ChangeDirection.FREE),
        (MEMORY, 1 << 30, CLEAR, ChangeDirection.GROW),
        (MEMORY, 1 << 30, 1 << 20, ChangeDirection.SHRINK),
        (CPUS, "0-3", "0-1", ChangeDirection.SHRINK),
        (CPUS, "0-1", "0-3", ChangeDirection.GROW),
        (CPUS, "0-3", "2-5", ChangeDirection.MIXED),
        (CPUS, "0-3", "0,1,2,3", ChangeDirection.FREE),
        (CPUS, "0-3", CLEAR, ChangeDirection.GROW),
        (CPUS, "0-3", "", ChangeDirection.GROW),
        (CPUS, None, "0-3", ChangeDirection.SHRINK),
        (CPUS, CLEAR, "0-3", ChangeDirection.SHRINK),
        (CPUS, "", "0-3", ChangeDirection.GROW),
        (CPUS, None, None, ChangeDirection.FREE),
        (CPUS, "0-3", ",4-7", ChangeDirection.FREE),
        (MEMS, "0", "0-1", ChangeDirection.GROW),
        (SHARES, 2, 1024, ChangeDirection.FREE),
        (BVT, 2, -1, ChangeDirection.FREE),
    ],
)
def test_direction(parameter: Parameter, now: Value | None, wanted: Value | None, expected: ChangeDirection) -> None:
    """Limits and sets grow or shrink, with nothing set as the most there is; all else is free."""
    assert direction(parameter, now, wanted) is expected


@pytest.mark.parametrize(
    ("level", "parameter", "expected"),
    [
        (Level.CONTAINER, SHARES, WriteRoute.CRI),
        (Level.CONTAINER, CPUS, WriteRoute.CRI),
        (Level.CONTAINER, BVT, WriteRoute.FILE),
        (Level.CONTAINER, Parameter.OOM_SCORE_ADJ, WriteRoute.FILE),
        (Level.POD, SHARES, WriteRoute.FILE),
        (Level.SANDBOX, CPUS, WriteRoute.FILE),
    ],
)
def test_what_cri_carries_goes_by_cri(level: Level, parameter: Parameter, expected: WriteRoute) -> None:
    """Only of containers; everything else is files."""
    assert route_of(item(level, "x", parameter, None, 1)) is expected


def test_growing_is_done_from_the_top() -> None:
    """A child's limit is never above its parent's."""
    items = [
        item(Level.CONTAINER, "q/p/c", QUOTA, 1, 5),
        item(Level.SANDBOX, "q/p/s", QUOTA, 1, 5),
        item(Level.POD, "q/p", QUOTA, 1, 5),
        item(Level.HOST_APP, "h", QUOTA, 1, 5),
        item(Level.QOS, "q", QUOTA, 1, 5),
    ]
    assert keys(items) == ["q", "h", "q/p", "q/p/s", "q/p/c"]


def test_shrinking_is_done_from_the_leaves_after_all_growing() -> None:
    """A parent's limit is never below its child's."""
    items = [
        item(Level.QOS, "q", QUOTA, 5, 1),
        item(Level.POD, "q/p", QUOTA, 5, 1),
        item(Level.CONTAINER, "q/p/c", QUOTA, 5, 1),
        item(Level.POD, "q/r", QUOTA, 1, 5),
    ]
    assert keys(items) == ["q/r", "q/p/c", "q/p", "q"]


def test_a_group_inside_another_of_its_level_counts_as_below() -> None:
    """Directories of QoS classes and host applications can be in each other, however they are named."""
    outer = item(Level.QOS, "zz", QUOTA, 1, 5, directory="kubepods")
    inner = item(Level.QOS, "aa", QUOTA, 1, 5, directory="kubepods/burstable")
    assert keys([inner, outer]) == ["zz", "aa"]
    outer, inner = (
        item(Level.QOS, "zz", QUOTA, 5, 1, directory="a"),
        item(Level.QOS, "aa", QUOTA, 5, 1, directory="a/b"),
    )
    assert keys([outer, inner]) == ["aa", "zz"]


def test_a_set_that_moves_is_widened_first() -> None:
    """What is below has room at every moment."""
    assert told([item(Level.POD, "p", CPUS, "0-3", "2-5")]) == [
        ("p", "cpuset.cpus", "0-5", StepPhase.GROW),
        ("p", "cpuset.cpus", "2-5", StepPhase.SHRINK),
    ]


def test_a_leaf_moves_in_one_step_between_growing_and_shrinking() -> None:
    """Everything above it is at its widest then."""
    items = [
        item(Level.CONTAINER, "c", CPUS, "0-1", "2-3", directory="p/c"),
        item(Level.POD, "p", CPUS, "0-1", "2-3"),
    ]
    assert told(items) == [
        ("p", "cpuset.cpus", "0-3", StepPhase.GROW),
        ("c", "cpuset.cpus", "2-3", StepPhase.SHRINK),
        ("p", "cpuset.cpus", "2-3", StepPhase.SHRINK),
    ]


def test_a_child_is_cleared_after_its_growing_parent() -> None:
    """It takes over what the parent has by then."""
    items = [item(Level.POD, "p/c", CPUS, "0", CLEAR), item(Level.QOS, "p", CPUS, "0", "0-3")]
    assert told(items) == [("p", "cpuset.cpus", "0-3", StepPhase.GROW), ("p/c", "cpuset.cpus", CLEAR, StepPhase.GROW)]


def test_a_cleared_child_makes_room_for_its_shrinking_parent() -> None:
    """On cgroup v1 it would otherwise have the parent's old set, which the parent then could not leave."""
    items = [item(Level.POD, "p/c", CPUS, "2", CLEAR), item(Level.QOS, "p", CPUS, "0-3", "0-1")]
    assert told(items) == [
        ("p/c", "cpuset.cpus", "0-2", StepPhase.GROW),
        ("p/c", "cpuset.cpus", "0-1", StepPhase.SHRINK),
        ("p", "cpuset.cpus", "0-1", StepPhase.SHRINK),
        ("p/c", "cpuset.cpus", CLEAR, StepPhase.SETTLE),
    ]


def test_a_cleared_leaf_below_a_cleared_group_follows_the_group_above_both() -> None:
    """What it takes over in the end comes from there."""
    items = [
        item(Level.QOS, "q", CPUS, "0-3", "0-1"),
        item(Level.POD, "q/p", CPUS, "2-3", None),
        item(Level.SANDBOX, "q/p/s", CPUS, "3", CLEAR),
    ]
    assert told(items) == [
        ("q/p", "cpuset.cpus", "0-3", StepPhase.GROW),
        ("q/p/s", "cpuset.cpus", "0-1", StepPhase.SHRINK),
        ("q/p", "cpuset.cpus", "0-1", StepPhase.SHRINK),
        ("q", "cpuset.cpus", "0-1", StepPhase.SHRINK),
        ("q/p", "cpuset.cpus", CLEAR, StepPhase.SETTLE),
        ("q/p/s", "cpuset.cpus", CLEAR, StepPhase.SETTLE),
    ]


def test_switches_of_the_node_come_first_and_off_before_on() -> None:
    """Two features that exclude each other are never on together."""
    items = [
        item(Level.QOS, "q", BVT, 0, 2),
        item(Level.NODE, "node", Parameter.SCHED_GROUP_IDENTITY, 0, 1),
        item(Level.NODE, "node", Parameter.SCHED_CORE, 1, 0),
    ]
    assert told(items) == [
        ("node", "kernel.sched_core", 0, StepPhase.NODE),
        ("node", "kernel.sched_group_identity_enabled", 1, StepPhase.NODE),
        ("q", "cpu.bvt_warp_ns", 2, StepPhase.GROW),
    ]


def test_shares_are_written_before_a_pod_becomes_idle() -> None:
    """Afterwards the kernel refuses them."""
    items = [item(Level.POD, "p", IDLE, 0, 1), item(Level.POD, "p", SHARES, 2, 100)]
    assert [step.item.parameter for step in order_steps(items)] == [SHARES, IDLE]


def test_shares_are_written_after_a_pod_stops_being_idle() -> None:
    """Before, the kernel refuses them; of another pod they are not affected."""
    items = [
        item(Level.POD, "p", SHARES, 3, 100),
        item(Level.POD, "p", IDLE, 1, 0, action=PlanAction.RESTORE),
        item(Level.POD, "r", SHARES, 3, 100),
        item(Level.POD, "r", BVT, 3, 2),
    ]
    parameters = [(step.item.target.key, step.item.parameter) for step in order_steps(items)]
    assert parameters == [("p", IDLE), ("p", SHARES), ("r", SHARES), ("r", BVT)]


@pytest.mark.parametrize("action", [PlanAction.KEEP, PlanAction.GONE, PlanAction.UNSUPPORTED, PlanAction.HELD])
def test_only_what_is_set_or_restored_becomes_a_step(action: PlanAction) -> None:
    """Everything else is for people to look at."""
    assert order_steps([item(Level.POD, "p", SHARES, 1, 2, action=action)]) == ()


def test_restoring_to_nothing_is_clearing() -> None:
    """There is no value to write."""
    (step,) = order_steps([item(Level.POD, "p", Parameter.RESCTRL, "L3:0=f", None, action=PlanAction.RESTORE)])
    assert step.value is CLEAR


def test_the_order_of_items_does_not_matter() -> None:
    """The same items give the same steps."""
    items = [
        item(level, f"{level}/{name}", parameter, now, wanted)
        for level in Level
        for name in ("a", "b")
        for parameter, now, wanted in ((QUOTA, 1, 2), (MEMORY, 2, 1), (CPUS, "0-1", "1-2"), (SHARES, 2, 3))
    ]
    expected = order_steps(items)
    for seed in range(5):
        shuffled = list(items)
        random.Random(seed).shuffle(shuffled)
        assert order_steps(shuffled) == expected


def test_containers_get_one_update_between_the_files() -> None:
    """What grows and what shrinks in a container is in the same update; containers are together in a batch."""
    items = [
        item(Level.POD, "p", QUOTA, 1, 5),
        item(Level.POD, "p", MEMORY, 5, 1),
        item(Level.CONTAINER, "b", QUOTA, 1, 5, directory="p/b"),
        item(Level.CONTAINER, "b", MEMORY, 5, 1, directory="p/b"),
        item(Level.CONTAINER, "b", BVT, 0, 2, directory="p/b"),
        item(Level.CONTAINER, "a", QUOTA, 5, 1, directory="p/a"),
        item(Level.CONTAINER, "a", Parameter.CPU_BURST, 5, 1, directory="p/a"),
    ]
    first, middle, last = make_batches(order_steps(items))
    assert isinstance(first, FileBatch)
    assert isinstance(middle, CriBatch)
    assert isinstance(last, FileBatch)
    assert [(s.item.target.key, s.item.parameter) for s in first.steps] == [
        ("p", QUOTA),
        ("a", Parameter.CPU_BURST),
        ("b", BVT),
    ]
    assert {key: [s.item.parameter for s in steps] for key, steps in middle.containers.items()} == {
        "a": [QUOTA],
        "b": [QUOTA, MEMORY],
    }
    assert [(s.item.target.key, s.item.parameter) for s in last.steps] == [("p", MEMORY)]


def test_no_steps_make_no_batches() -> None:
    """Nothing to do is nothing."""
    assert make_batches(()) == []
